"""Every act of labeling in an SQLite file that only grows; what is labeled now is a fold over it."""

import getpass
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from threading import Lock
from typing import NamedTuple

from interlude.errors import UserError

SCHEMA = """
CREATE TABLE IF NOT EXISTS log (
    id INTEGER PRIMARY KEY,
    action INTEGER NOT NULL,  -- the id of the first event of what was done at once
    time TEXT NOT NULL,
    who TEXT NOT NULL,
    kind TEXT NOT NULL,
    path TEXT,
    value TEXT,
    undoes INTEGER
);
CREATE TRIGGER IF NOT EXISTS log_keeps BEFORE UPDATE ON log
BEGIN SELECT RAISE(ABORT, 'the log is never changed'); END;
CREATE TRIGGER IF NOT EXISTS log_holds BEFORE DELETE ON log
BEGIN SELECT RAISE(ABORT, 'the log is never shortened'); END;
"""
COLUMNS = "id, action, time, who, kind, path, value, undoes"


class Entry(NamedTuple):
    """What is to be written down: the kind of event, the image it is about, and what was said of it."""

    kind: str  # class-add, class-rename, class-remove; label, skip, strange, clear
    path: str | None
    value: str | None
    undoes: int | None = None


class Event(NamedTuple):
    """A line of the log."""

    id: int
    action: int
    time: str
    who: str
    kind: str
    path: str | None
    value: str | None
    undoes: int | None


class Log:
    """The file of events; what `append` returned from is on the disk."""

    def __init__(self, path: Path) -> None:
        self.path, self._lock, self._who = path, Lock(), _user()
        try:
            self._file = sqlite3.connect(path, check_same_thread=False, isolation_level=None)
            self._file.execute("PRAGMA journal_mode = WAL")
            self._file.execute("PRAGMA synchronous = FULL")
            self._file.executescript(SCHEMA)
        except sqlite3.Error as error:
            raise UserError(
                f"the labels in {path} cannot be opened ({error}); choose another place by --out"
            ) from None

    def append(self, entries: Sequence[Entry], who: str | None = None) -> list[Event]:
        """Write down what was done at once, all of it or nothing; by the user, if nobody else is named."""
        now = datetime.now(UTC).isoformat(timespec="milliseconds")
        with self._lock:
            cursor = self._file.cursor()
            cursor.execute("BEGIN IMMEDIATE")
            try:
                (last,) = cursor.execute("SELECT coalesce(max(id), 0) FROM log").fetchone()
                events = [
                    Event(last + 1 + place, last + 1, now, who or self._who, *entry)
                    for place, entry in enumerate(entries)
                ]
                cursor.executemany(f"INSERT INTO log ({COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?)", events)
                cursor.execute("COMMIT")
            except BaseException:
                with suppress(sqlite3.Error):
                    cursor.execute("ROLLBACK")
                raise
        return events

    def read(self) -> Iterator[Event]:
        """All events, oldest first."""
        for row in self._file.execute(f"SELECT {COLUMNS} FROM log ORDER BY id"):
            yield Event(*row)

    def close(self) -> None:
        """Give the file back."""
        with self._lock:
            self._file.close()


def _user() -> str:
    """The name of who is logged in on this machine."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a number without a name, as in a container
        return "somebody"
