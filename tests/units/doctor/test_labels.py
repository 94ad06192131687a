import pytest

from interlude.data.problem import Problem
from interlude.doctor.diagnosis import Cast
from interlude.doctor.labels import PROBLEMS, check_names, check_numbers, check_pool, check_problems, listed


def kinds(findings):
    return {finding.kind: finding.severity for finding in findings}


def test_images_are_counted_by_role_and_class(folder):
    folder.fill(labeled=3, unlabeled=5, test=2)
    folder.add("train/cat/more.png")
    folder.add("val/dog/1.png")
    folder.add("train/dog/broken.png", b"no picture")
    diagnosis = folder.examine()
    assert diagnosis.images == 18
    assert diagnosis.roles == {"labeled": 7, "unlabeled": 5, "validation": 1, "test": 4}
    assert diagnosis.classes == {
        "cat": {"labeled": 4, "validation": 0, "test": 2},
        "dog": {"labeled": 3, "validation": 1, "test": 2},
    }


def test_a_clean_folder_has_no_findings(folder):
    diagnosis = folder.fill().examine()
    assert diagnosis.findings == ()
    assert not diagnosis.excluded


def test_without_labels_training_stops(folder):
    for number in range(3):
        folder.add(f"{number}.png")
    assert folder.find("no-labels").severity == "stop"


def test_one_class_alone_stops(folder):
    for number in range(3):
        folder.add(f"cat/{number}.png")
    finding = folder.find("one-class")
    assert finding.severity == "stop"
    assert "'cat'" in finding.says


def test_a_class_whose_images_are_all_unreadable_stops(folder):
    folder.fill()
    folder.add("eel/1.png", b"")
    finding = folder.find("class-without-images")
    assert finding.severity == "stop"
    assert "eel" in finding.says


def test_one_label_allows_no_estimate(folder):
    folder.fill()
    folder.add("eel/1.png")
    finding = folder.find("one-label")
    assert finding.severity == "warn"
    assert "eel" in finding.says
    assert "No estimate" in finding.says


@pytest.mark.parametrize(
    ("count", "kind"), [(0, "class-without-images"), (1, "one-label"), (2, "few-labels"), (3, None)]
)
def test_the_number_of_labels_decides_what_is_said(count, kind):
    assert [finding.kind for finding in check_numbers({"a": 4, "b": count})] == [kind] * (kind is not None)


@pytest.mark.parametrize(("least", "told"), [(10, True), (11, False)])
def test_very_uneven_classes_are_told(least, told):
    assert ("uneven-classes" in kinds(check_numbers({"a": 100, "b": least}))) is told


@pytest.mark.parametrize("other", ["Cat", "cat ", "c-at", "CAT_"])
def test_class_names_that_are_nearly_the_same_are_told(other):
    (finding,) = check_names(["cat", other, "dog"])
    assert finding.severity == "warn"
    assert f"'cat' and {other!r}" in finding.says


def test_class_names_of_signs_alone_are_different():
    assert not list(check_names(["+", "-", "cat", "dog"]))


def test_names_found_alike_by_the_listing_are_told_once(folder):
    folder.fill(below="")
    for number in range(4):
        folder.add(f"Cat/{number}.png")
    assert [finding.kind for finding in folder.examine().findings] == ["similar-classes"]


@pytest.mark.parametrize(
    ("unlabeled", "labeled", "told"), [(0, 8, True), (7, 8, True), (8, 8, False), (0, 0, False)]
)
def test_too_few_unlabeled_images_are_told(unlabeled, labeled, told):
    assert ("few-unlabeled" in kinds(check_pool(unlabeled, labeled))) is told


def test_test_images_without_a_label_are_told(folder):
    folder.fill(test=2)
    folder.add("test/loose.png")
    finding = folder.find("unlabeled-test")
    assert finding.files == ("test/loose.png",)


def test_classes_without_a_test_image_are_told(folder):
    folder.fill(test=2)
    for number in range(3):
        folder.add(f"train/eel/{number}.png")
    assert "eel" in folder.find("untested-classes").says


def test_without_a_test_set_nothing_is_said_of_it(folder):
    assert folder.fill().find("untested-classes") is None


def test_every_problem_of_the_listing_becomes_a_row(folder, monkeypatch):
    kinds = [*PROBLEMS, "a-new-kind"]
    problems = tuple(Problem(kind, path, f"words on {path}") for kind in kinds for path in ("a", "b", "a"))
    listing = type("Listing", (), {"problems": problems})()
    findings = list(check_problems(Cast(listing, None, None)))
    assert [finding.kind for finding in findings] == [
        "no-file" if kind == "unreadable" else kind for kind in kinds
    ]
    for finding in findings:
        assert finding.files == ("a", "b")
        assert finding.details == {"a": "words on a; words on a", "b": "words on b"}
        assert finding.count == 3


TABLE = """image,label
cat/0.png,cat
cat/1.png,cat
cat/1.png,dog
cat/2.png,cat
cat/3.png,cat
dog/0.png,dog
dog/1.png,dog
dog/2.png,dog
dog/2.png,dog
,dog
missing.png,cat
"""


def test_the_rows_of_a_label_file_that_are_odd_are_told(folder):
    diagnosis = folder.fill().examine(labels=TABLE)
    found = {finding.kind: list(finding.details.items()) for finding in diagnosis.findings if finding.details}
    assert found.keys() == {"conflicting-labels", "duplicate-row", "label-row", "unknown-file"}
    assert found["conflicting-labels"][0][0] == "cat/1.png"
    assert found["duplicate-row"][0][0] == "dog/2.png"
    assert found["unknown-file"][0][0] == "missing.png"
    assert "line 11" in found["label-row"][0][1]


def test_long_lists_of_names_are_cut():
    assert listed(list("abcde")) == "a, b, c, d, e"
    assert listed(list("abcdefg")) == "a, b, c, d, e and 2 more"
