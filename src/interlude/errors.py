"""What is said to a user who gave us something we cannot use: one line, what is wrong and what to do."""

import errno
from collections.abc import Iterable
from difflib import get_close_matches


class UserError(ValueError):
    """Bad input from outside. The command line prints the message, one line, alone and exits with code 2."""

    def __str__(self) -> str:
        return " ".join(super().__str__().splitlines())  # it may quote what a file or a hand put there


def unknown(kind: str, name: str, known: Iterable[str]) -> UserError:
    """The error for a name that is not there, with the nearest names that are."""
    known = sorted(known)
    near = get_close_matches(name, known, n=3, cutoff=0.5)
    hint = f"did you mean {' or '.join(map(repr, near))}?" if near else f"choose from {', '.join(known)}"
    return UserError(f"unknown {kind} {name!r}; {hint}")


class RunError(RuntimeError):
    """A run that could not go on, though its input was good. The message says what is left; exit code 1."""


CURES = {
    errno.ENOSPC: "make room on that disk",
    errno.EDQUOT: "make room within your quota",
    errno.EFBIG: "let larger files be written (ulimit -f)",
    errno.EROFS: "choose a place that can be written",
    errno.EACCES: "see who may write there, or choose another place",
    errno.EPERM: "see who may write there, or choose another place",
    errno.EIO: "see whether that disk is sound",
}


def cure(error: OSError) -> str | None:
    """What is wrong with a place on disk, and what to do; None if it is no matter of the disk."""
    if error.errno not in CURES:
        return None
    place = f"{error.filename}: " if error.filename else ""
    return f"{place}{(error.strerror or 'no reason given').lower()}; {CURES[error.errno]}"


class NotFinite(RuntimeError):
    """A term of the loss or a weight became NaN or infinite."""
