"""Results on disk: one JSON line a finished cell, appended whole; a line that was cut short is ignored."""

import errno
import json
import os
from pathlib import Path
from typing import Any

Line = dict[str, Any]


class Store:
    """The lines of `results/*.jsonl`; those of one suite are in the file of its name."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def path(self, suite: str) -> Path:
        """The file of a suite."""
        return self.folder / f"{suite}.jsonl"

    def lines(self, suite: str, scale: str | None = None) -> list[Line]:
        """The lines of a suite, in the order in which they were written."""
        return [line for line in read_lines(self.path(suite)) if scale in (None, line.get("scale"))]

    def everything(self) -> list[Line]:
        """The lines of all suites."""
        return [line for path in sorted(self.folder.glob("*.jsonl")) for line in read_lines(path)]

    def append(self, suite: str, line: Line) -> None:
        """Add a line by one write, after whatever another process or an accident left there."""
        self.folder.mkdir(parents=True, exist_ok=True)
        path = self.path(suite)
        torn = path.exists() and path.stat().st_size and not path.read_bytes().endswith(b"\n")
        content = (("\n" if torn else "") + json.dumps(line) + "\n").encode()
        handle = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        try:
            if os.write(handle, content) < len(content):  # the disk took a part
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
            os.fsync(handle)
        finally:
            os.close(handle)


def read_lines(path: Path) -> list[Line]:
    """The whole lines of a file that belong to a cell."""
    if not path.is_file():
        return []
    found = (_parsed(line) for line in path.read_text(encoding="utf-8", errors="replace").splitlines())
    return [line for line in found if line is not None]


def _parsed(text: str) -> Line | None:
    try:
        line = json.loads(text)
    except ValueError:
        return None
    return line if isinstance(line, dict) and "id" in line else None
