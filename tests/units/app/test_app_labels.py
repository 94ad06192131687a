"""What is labeled: classes, marks, undo, and the table that `fit` reads."""

import pytest

from interlude.app.labels import Conflict, Labels, Missing
from interlude.app.log import Log
from interlude.data.label_file import read_label_file
from interlude.errors import UserError

CAT, DOG = 0, 1


def again(labels, paths=None):
    """The same log as the next server reads it."""
    return Labels(Log(labels.log.path), paths or labels.paths)


def seen(labels):
    return labels.classes, labels.marks.tolist(), labels.can_undo


def test_a_label_is_seen_and_counted(labels):
    labels.mark([3, 4], CAT)
    labels.mark([5], DOG)
    assert [labels.value(row) for row in (2, 3, 4, 5)] == [None, CAT, CAT, DOG]
    assert labels.counts() == {CAT: 2, DOG: 1}


def test_all_that_was_done_is_there_after_a_new_start(labels):
    labels.mark([3, 4], CAT)
    labels.mark([4], "skip")
    labels.mark([5], "strange")
    labels.mark([3], None)
    labels.mark([6], DOG)
    labels.undo()
    labels.rename_class(CAT, "tiger")
    labels.remove_class(DOG)
    assert seen(again(labels)) == seen(labels)


def test_undo_takes_back_what_was_marked_at_once(labels):
    labels.mark([1], DOG)
    labels.mark([1, 2, 3], CAT)
    assert labels.undo() == ([1, 2, 3], CAT)
    assert [labels.value(row) for row in (1, 2, 3)] == [DOG, None, None]


def test_undo_goes_back_step_by_step_to_the_beginning_also_after_a_new_start(labels):
    for row, value in ((1, CAT), (2, "skip"), (3, "strange")):
        labels.mark([row], value)
    labels.undo()
    later = again(labels)
    assert [later.undo(), later.undo(), later.undo()] == [([2], "skip"), ([1], CAT), None]
    assert not later.can_undo
    assert set(later.marks.tolist()) == {-1}


def test_an_undo_adds_to_the_log_and_names_what_it_takes_back(labels):
    labels.mark([1], CAT)
    labels.undo()
    *_, done, undone = labels.log.read()
    assert (done.kind, undone.kind) == ("label", "clear")
    assert undone.undoes == done.id


def test_an_undo_to_a_class_that_is_gone_leaves_no_label(labels):
    labels.mark([1], CAT)
    labels.mark([1], DOG)
    labels.remove_class(CAT)
    labels.undo()
    assert labels.value(1) is None
    assert seen(again(labels)) == seen(labels)


def test_the_same_mark_again_is_no_step(labels):
    labels.mark([1], CAT)
    labels.mark([1], CAT)
    labels.undo()
    assert not labels.can_undo


def test_an_image_named_twice_is_marked_once(labels):
    labels.mark([1, 1], CAT)
    assert labels.undo() == ([1], CAT)
    assert labels.undo() is None


@pytest.mark.parametrize(
    ("rows", "value"), [([10], CAT), ([-1], CAT), ([0, 99], "skip"), ([0], 7), ([0], -2)]
)
def test_what_is_not_there_cannot_be_marked(labels, rows, value):
    with pytest.raises(Missing):
        labels.mark(rows, value)
    assert not labels.can_undo


def test_a_class_with_labels_is_not_removed(labels):
    labels.mark([1, 2], CAT)
    with pytest.raises(Conflict, match="2 images are labeled 'cat'"):
        labels.remove_class(CAT)
    labels.undo()
    labels.remove_class(CAT)
    assert labels.classes == {DOG: "dog"}


def test_the_number_of_a_class_is_never_given_again(labels):
    labels.remove_class(DOG)
    assert labels.add_classes(["fox"]) == [2]
    assert again(labels).add_classes(["owl"]) == [3]


@pytest.mark.parametrize("name", ["", "  ", "nan", "NaN", "a\0b", "x" * 101])
def test_a_name_that_a_table_of_labels_would_not_keep_is_refused(labels, name):
    with pytest.raises(UserError, match="cannot be the name of a class"):
        labels.add_classes([name])


@pytest.mark.parametrize("names", [["Cat"], ["owl", "OWL"], [" cat "]])
def test_two_classes_cannot_have_one_name(labels, names):
    with pytest.raises(Conflict, match="already"):
        labels.add_classes(names)
    assert list(labels.classes.values()) == ["cat", "dog"]


def test_the_table_is_what_fit_reads(labels, tmp_path):
    labels.rename_class(DOG, 'a "dog", big')
    labels.mark([3], CAT)
    labels.mark([4], DOG)
    labels.mark([5], "strange")
    labels.mark([6], "skip")
    path = tmp_path / "labels.csv"
    path.write_text(labels.table(), encoding="utf-8")
    entries = read_label_file(path).entries
    assert {name: entry.label for name, entry in entries.items()} == {"3.png": "cat", "4.png": 'a "dog", big'}


def test_the_table_says_which_labels_were_drawn_at_random(labels, tmp_path):
    labels.mark([3, 4, 5], CAT)
    path = tmp_path / "labels.csv"
    path.write_text(labels.table([4, 7]), encoding="utf-8")
    entries = read_label_file(path).entries
    assert {name: entry.sampled for name, entry in entries.items()} == {
        "3.png": False,
        "4.png": True,
        "5.png": False,
    }


def test_labels_from_before_are_in_the_log_with_where_they_are_from(labels):
    assert labels.read_in({1: "dog", 2: " Fox", 3: "fox"}, "folder") == 3
    assert labels.classes == {CAT: "cat", DOG: "dog", 2: "Fox"}
    assert labels.marks[:4].tolist() == [-1, DOG, 2, 2]
    assert {event.who for event in labels.log.read() if event.path} == {"folder"}
    assert seen(again(labels)) == seen(labels)


def test_labels_from_before_are_read_in_once(labels):
    found = {1: "dog", 2: "cat"}
    labels.read_in(found, "table")
    events = len(list(labels.log.read()))
    assert again(labels).read_in(found, "table") == 0
    assert len(list(labels.log.read())) == events


def test_labels_from_before_never_override_what_was_said_on_the_page(labels):
    labels.mark([1], CAT)
    labels.mark([2], "skip")
    labels.mark([3], DOG)
    labels.undo()
    assert labels.read_in({1: "dog", 2: "dog", 3: "dog", 4: "dog"}, "folder") == 1
    assert [labels.value(row) for row in (1, 2, 3, 4)] == [CAT, "skip", None, DOG]


def test_an_undo_does_not_reach_labels_from_before(labels):
    labels.read_in({1: "dog"}, "folder")
    assert not labels.can_undo
    labels.mark([1], CAT)
    labels.undo()
    assert labels.value(1) == DOG
    assert labels.undo() is None


def test_the_label_of_a_file_that_is_away_comes_back_with_it(labels):
    labels.mark([3], CAT)
    without = again(labels, [path for path in labels.paths if path != "3.png"])
    assert without.counts()[CAT] == 0
    assert again(labels).value(3) == CAT


def test_a_label_of_a_class_that_was_removed_while_its_file_was_away_is_gone(labels):
    labels.mark([3], CAT)
    again(labels, ["4.png"]).remove_class(CAT)
    assert again(labels).value(3) is None


def test_a_failed_write_changes_nothing(labels, monkeypatch):
    def full(entries, who):
        raise OSError("disk full")

    monkeypatch.setattr(labels.log, "append", full)
    with pytest.raises(OSError, match="disk full"):
        labels.mark([1], CAT)
    assert labels.value(1) is None
    assert not labels.can_undo
