import numpy as np
import pytest

from interlude.doctor.copies import join, same
from interlude.doctor.diagnosis import merge


def test_an_exact_copy_among_labels_and_test_stops(folder, draw):
    folder.fill(test=2)
    folder.add("train/cat/leak.png", draw(1))
    folder.add("test/cat/leak.bmp", draw(1))
    finding = folder.find("duplicates:labeled-test")
    assert finding.severity == "stop"
    assert finding.sets == (("test/cat/leak.bmp", "train/cat/leak.png"),)
    assert finding.says.startswith("1 labeled image with the very same picture among the test images")
    assert folder.examine().excluded.keys() == {"train/cat/leak.png"}


def test_a_near_copy_among_labels_and_test_warns(folder, draw):
    folder.fill(test=2)
    folder.add("train/cat/leak.png", draw(1))
    folder.add("test/cat/leak.jpg", draw(1))
    diagnosis = folder.examine()
    (finding,) = [one for one in diagnosis.findings if one.kind == "near-duplicates:labeled-test"]
    assert finding.severity == "warn"
    assert not diagnosis.stops
    assert not diagnosis.excluded


@pytest.mark.parametrize("part", ["test", "val"])
@pytest.mark.parametrize("ending", ["png", "jpg"])
def test_unlabeled_copies_of_held_out_images_are_left_out(folder, draw, part, ending):
    folder.fill(test=2)
    folder.add(f"train/unlabeled/copy.{ending}", draw(1))
    folder.add(f"{part}/dog/original.png", draw(1))
    diagnosis = folder.examine()
    assert diagnosis.excluded.keys() == {f"train/unlabeled/copy.{ending}"}
    assert not diagnosis.stops


@pytest.mark.parametrize(
    ("one", "two", "kind", "severity"),
    [
        ("train/cat", "val/cat", "duplicates:labeled-validation", "warn"),
        ("val/cat", "test/cat", "duplicates:validation-test", "warn"),
        ("train/cat", "train/cat", "duplicates:labeled-labeled", "warn"),
        ("train/cat", "train/unlabeled", "duplicates:labeled-unlabeled", "note"),
        ("train/unlabeled", "train/unlabeled", "duplicates:unlabeled-unlabeled", "note"),
        ("test/cat", "test/cat", "duplicates:test-test", "note"),
    ],
)
def test_copies_in_other_places_are_told(folder, draw, one, two, kind, severity):
    folder.fill(test=2)
    folder.add(f"{one}/a.png", draw(1))
    folder.add(f"{two}/b.png", draw(1))
    diagnosis = folder.examine()
    copies = [(one.kind, one.severity) for one in diagnosis.findings if one.sets]
    assert copies == [(kind, severity)]


def test_a_folder_without_copies_has_no_such_finding(folder):
    diagnosis = folder.fill(test=3).examine()
    assert not [finding for finding in diagnosis.findings if finding.sets]
    assert diagnosis.together.tolist() == list(range(diagnosis.images))


def test_the_same_picture_under_two_labels_stops(folder, draw):
    folder.fill()
    folder.add("cat/same.png", draw(1))
    folder.add("dog/same.png", draw(1))
    finding = folder.find("two-labels")
    assert finding.severity == "stop"
    assert dict(finding.details) == {"cat/same.png": "cat", "dog/same.png": "dog"}
    assert folder.examine().excluded.keys() == {"cat/same.png", "dog/same.png"}
    assert folder.find("duplicates:labeled-labeled") is None


def test_almost_the_same_picture_under_two_labels_warns(folder, draw):
    folder.fill()
    folder.add("cat/same.png", draw(1))
    folder.add("dog/same.jpg", draw(1))
    assert folder.find("near-two-labels").severity == "warn"
    assert not folder.examine().excluded


def test_copies_of_copies_are_one_set(folder, draw):
    """Two files with one picture and a third that looks like it."""
    folder.fill()
    for name in ("a.png", "b.bmp", "c.jpg"):
        folder.add(f"unlabeled/{name}", draw(1))
    finding = folder.find("near-duplicates:unlabeled-unlabeled")
    assert finding.sets == (("unlabeled/a.png", "unlabeled/b.bmp", "unlabeled/c.jpg"),)


def test_an_upright_copy_of_a_turned_picture_is_the_same_picture(folder, draw):
    exif = draw(1).getexif()
    exif[0x0112] = 6  # to be turned by 90 degrees
    folder.fill()
    folder.add("unlabeled/turned.png", draw(1), exif=exif)
    folder.add("unlabeled/upright.png", draw(1).rotate(-90))
    assert folder.find("duplicates:unlabeled-unlabeled").count == 2


GROUPS = "image,label,split,patient\n"


def rows_of(folder, *rows):
    for path, *_ in rows:
        folder.add(path)
    return GROUPS + "".join(f"{','.join(row)}\n" for row in rows)


@pytest.mark.parametrize(
    ("row", "kind", "severity"),
    [
        (("x.png", "cat", "train", "7"), "group-crossing:labeled-test", "stop"),
        (("x.png", "", "train", "7"), "group-crossing:unlabeled-test", "warn"),
        (("x.png", "cat", "val", "7"), "group-crossing:validation-test", "warn"),
    ],
)
def test_a_group_on_two_sides_of_the_split_is_found(folder, row, kind, severity):
    others = [(f"{n}.png", "dog" if n % 2 else "cat", "train", f"p{n}") for n in range(6)]
    table = rows_of(folder, *others, ("t.png", "dog", "test", "7"), row)
    diagnosis = folder.examine(labels=table, group="patient")
    (finding,) = [finding for finding in diagnosis.findings if finding.kind.startswith("group")]
    assert (finding.kind, finding.severity) == (kind, severity)
    assert finding.sets == (("t.png", "x.png"),)
    assert set(diagnosis.excluded) == ({"x.png"} if "unlabeled" in kind else set())


def test_a_group_on_one_side_is_fine_and_stays_together(folder):
    rows = [(f"{n}.png", "dog" if n % 2 else "cat", "train", f"p{n // 4}") for n in range(8)]
    diagnosis = folder.examine(labels=rows_of(folder, *rows), group="patient")
    assert not [finding for finding in diagnosis.findings if finding.kind.startswith("group")]
    assert diagnosis.together.tolist() == [0, 0, 0, 0, 4, 4, 4, 4]


def test_copies_and_groups_stay_together_in_chains(folder, draw):
    """Group a, a copy of one of its images in group b: all of both are one."""
    rows = [(f"{n}.png", "dog" if n % 2 else "cat", "train", "aabbcc"[n]) for n in range(6)]
    table = rows_of(folder, *rows)
    folder.add("1.png", draw(1))
    folder.add("2.png", draw(1))
    assert folder.examine(labels=table, group="patient").together.tolist() == [0, 0, 0, 0, 4, 4]


def test_rows_of_one_value_are_listed():
    assert same(np.array([5, 3, 5, 9, 3, 5]), np.arange(10, 16)) == [[11, 14], [10, 12, 15]]
    assert same(np.array([1, 2, 3]), np.arange(3)) == []


def test_overlapping_sets_become_one():
    assert join([[4, 9], [1, 2], [9, 2], [5, 6]]) == [[1, 2, 4, 9], [5, 6]]
    assert merge([[3, 2], [8, 3]]) == {3: 2, 2: 2, 8: 2}
