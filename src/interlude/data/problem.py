"""Something odd about a file of a user, as a row of a table: training can go on without the file."""

from typing import NamedTuple


class Problem(NamedTuple):
    """One finding: its kind, the path it is about (relative to the folder, or empty), and plain words."""

    kind: str
    path: str
    detail: str


def shown(path: str) -> str:
    """A path on one line that any terminal can show: control signs and undecodable bytes are escaped."""
    text = path.encode("utf-8", "backslashreplace").decode()
    return "".join(sign if sign.isprintable() else repr(sign)[1:-1] for sign in text)
