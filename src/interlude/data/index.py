"""Which row of a store holds which file: a small database beside the pixels, safe against being killed."""

import sqlite3
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

NO_ROW = -1  # of a file that was looked at, but whose pixels are not kept
PATIENCE = 60  # seconds to wait for another process that writes

SCHEMA = """
CREATE TABLE IF NOT EXISTS files (
    path BLOB PRIMARY KEY, size INTEGER, changed INTEGER, digest BLOB, row INTEGER
) WITHOUT ROWID
"""


class Known(NamedTuple):
    """What the index has on a file."""

    path: bytes
    size: int
    changed: int  # nanoseconds
    digest: bytes
    row: int


class Index:
    """The database of one store; `None` as its place keeps it in memory."""

    def __init__(self, place: Path | None) -> None:
        self.place = place
        self.base = self._open()

    def _open(self) -> sqlite3.Connection:
        base = sqlite3.connect(self.place or ":memory:", timeout=PATIENCE)
        try:
            base.execute(SCHEMA)
            base.execute("SELECT path, size, changed, digest, row FROM files LIMIT 1").fetchall()
        except sqlite3.OperationalError:  # no place to write, or another process does: not the file's fault
            base.close()
            raise
        except sqlite3.DatabaseError:
            base.close()
            assert self.place is not None
            self.place.replace(self.place.with_suffix(".damaged"))
            return self._open()
        return base

    def close(self) -> None:
        """Give the file back."""
        self.base.close()

    def __iter__(self) -> Iterator[Known]:
        """All entries, by path."""
        yield from map(Known._make, self.base.execute("SELECT * FROM files ORDER BY path"))

    def add(self, entries: Iterable[Known]) -> None:
        """Enter files, all or none; what was there of them before is replaced."""
        with self.base:
            self.base.executemany("INSERT OR REPLACE INTO files VALUES (?, ?, ?, ?, ?)", entries)

    def num_rows(self) -> int:
        """How many rows of pixels are in use."""
        (count,) = self.base.execute("SELECT COUNT(*) FROM files WHERE row >= 0").fetchone()
        return int(count)

    def clear(self) -> None:
        """Forget everything."""
        with self.base:
            self.base.execute("DELETE FROM files")
