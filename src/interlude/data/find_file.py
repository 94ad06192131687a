"""Which file of a folder a table means, however its path is written there."""

import unicodedata
from collections.abc import Sequence

from interlude.data.walk import is_image


class Finder:
    """Finds files by the path from the folder on; else by their name, where what is before it fits.

    So a table may leave folders out, or have been written on another machine, with other slashes, with
    accents composed otherwise, or without the ending of the names.
    """

    def __init__(self, paths: Sequence[str]) -> None:
        self.paths = paths
        self.rows = {path: row for row, path in enumerate(paths)}
        self.by_stem: dict[str, list[int]] = {}

    def find(self, written: str) -> int | str:
        """The row of the file, or the reason why there is none."""
        row = self.rows.get(written)
        if row is not None:
            return row
        path = _plain(written)
        if path in self.rows:
            return self.rows[path]
        endless = not is_image(path)
        found = [
            row
            for row in self._stems().get(_stem(path), ())
            if _is_tail(path, _composed(_without_ending(self.paths[row]) if endless else self.paths[row]))
        ]
        if len(found) == 1:
            return found[0]
        return "several files have this name; write the path from the folder on" if found else "no such file"

    def _stems(self) -> dict[str, list[int]]:
        """The rows of each name without ending, listed when first needed."""
        if not self.by_stem:
            for row, path in enumerate(self.paths):
                self.by_stem.setdefault(_stem(_composed(path)), []).append(row)
        return self.by_stem


def _plain(written: str) -> str:
    """A path with forward slashes and composed accents, without empty steps."""
    steps = _composed(written).replace("\\", "/").split("/")
    return "/".join(step for step in steps if step not in ("", "."))


def _composed(path: str) -> str:
    return path if path.isascii() else unicodedata.normalize("NFC", path)


def _stem(path: str) -> str:
    """The name of a file without its ending, if that is an image's."""
    return _without_ending(path).rpartition("/")[2]


def _without_ending(path: str) -> str:
    return path.rpartition(".")[0] if is_image(path) else path


def _is_tail(one: str, two: str) -> bool:
    """Whether one path is the end of the other, step by step."""
    return f"/{one}".endswith(f"/{two}") or f"/{two}".endswith(f"/{one}")
