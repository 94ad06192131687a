"""The log of labels: it only grows, and what was written is there."""

import sqlite3

import pytest

from interlude.app.log import Entry, Log
from interlude.errors import UserError


@pytest.fixture
def log(tmp_path):
    made = Log(tmp_path / "labels.sqlite")
    yield made
    made.close()


def test_what_is_written_down_is_read_again_in_order(log, tmp_path):
    log.append([Entry("label", "b.png", "1"), Entry("label", "a.png", "1")])
    log.append([Entry("skip", "a.png", None)])
    again = Log(tmp_path / "labels.sqlite")
    assert [(e.kind, e.path, e.value) for e in again.read()] == [
        ("label", "b.png", "1"),
        ("label", "a.png", "1"),
        ("skip", "a.png", None),
    ]
    again.close()


def test_a_line_says_who_and_when(log):
    (event,) = log.append([Entry("skip", "a.png", None)])
    assert event.who
    assert event.time.endswith("+00:00")


def test_what_was_done_at_once_has_one_number(log):
    first = log.append([Entry("skip", "a.png", None), Entry("skip", "b.png", None)])
    second = log.append([Entry("skip", "c.png", None)])
    assert len({event.action for event in first}) == 1
    assert first[0].action != second[0].action


@pytest.mark.parametrize("command", ["UPDATE log SET value = '2'", "DELETE FROM log"])
def test_nothing_in_it_can_be_changed_or_removed(log, tmp_path, command):
    log.append([Entry("label", "a.png", "1")])
    other = sqlite3.connect(tmp_path / "labels.sqlite")
    with pytest.raises(sqlite3.IntegrityError, match="the log is never"):
        other.execute(command)
    other.close()
    assert [event.value for event in log.read()] == ["1"]


def test_what_is_done_at_once_is_written_whole_or_not_at_all(log):
    with pytest.raises(sqlite3.Error):
        log.append([Entry("skip", "a.png", None), Entry(None, "b.png", None)])
    assert list(log.read()) == []
    log.append([Entry("skip", "c.png", None)])
    assert [event.path for event in log.read()] == ["c.png"]


def test_a_commit_waits_for_the_disk(log):
    assert log._file.execute("PRAGMA synchronous").fetchone() == (2,)
    assert log._file.execute("PRAGMA journal_mode").fetchone() == ("wal",)


def test_a_file_that_is_no_log_is_said_in_one_line(tmp_path):
    path = tmp_path / "labels.sqlite"
    path.write_bytes(b"no database at all " * 100)
    with pytest.raises(UserError, match="--out"):
        Log(path)
