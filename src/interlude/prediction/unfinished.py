"""A table that is being written: it has a name of its own until it is whole, and a second start goes on."""

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self

from interlude.errors import UserError
from interlude.files import write_whole
from interlude.prediction.stream import Row


@dataclass(frozen=True)
class Tally:
    """How many files there were, and what became of them."""

    files: int = 0
    failed: int = 0
    abstained: int = 0

    def plus(self, rows: Sequence[Row]) -> "Tally":
        """The same after more rows."""
        return Tally(
            self.files + len(rows),
            self.failed + sum(bool(row.error) for row in rows),
            self.abstained + sum(row.abstain for row in rows),
        )

    def __str__(self) -> str:
        parts = [f"{self.files:,} files"]
        if self.abstained:
            parts.append(f"{self.abstained:,} for a person to look at (abstain)")
        if self.failed:
            parts.append(f"{self.failed:,} could not be read (error)")
        return ", ".join(parts)


class Unfinished:
    """Rows in `OUT.part`, and beside them in `OUT.part.json` what they are about and how many are whole.

    `about` must be the same for rows to be gone on with: the model, the list of files, the columns. Where it
    is not, they are kept, and it is an error, unless they may be replaced.
    """

    def __init__(self, out: Path, about: Mapping[str, Any], *, replace: bool = False) -> None:
        self.out, self.about = out, dict(about)
        self.rows, self.note = (out.with_name(out.name + ending) for ending in (".part", ".part.json"))
        before = self._before()
        if before is None and self.rows.exists() and not replace:
            raise UserError(
                f"{self.rows} has rows of another model, other images or other columns; "
                "delete it, choose another --out, or replace it with --force"
            )
        self.done, self.size = before or (Tally(), 0)

    def __enter__(self) -> Self:
        self.file: IO[bytes] = self.rows.open("r+b" if self.size else "wb")
        self.file.truncate(self.size)
        self.file.seek(self.size)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.file.close()
        if kind is None:
            self.rows.replace(self.out)
            self.note.unlink(missing_ok=True)

    def add(self, text: bytes, done: Tally) -> None:
        """Write rows, and then that they are written."""
        self.file.write(text)
        self.file.flush()
        os.fsync(self.file.fileno())
        noted = {"about": self.about, "done": asdict(done), "size": self.file.tell()}
        write_whole(self.note, json.dumps(noted))

    def _before(self) -> tuple[Tally, int] | None:
        """What was finished of the same table, and its size in bytes; None where there is nothing."""
        try:
            noted = json.loads(self.note.read_text())
            done, size = Tally(**noted["done"]), int(noted["size"])
            whole = noted["about"] == self.about and size <= self.rows.stat().st_size
        except (OSError, ValueError, KeyError, TypeError):
            return None
        return (done, size) if whole else None
