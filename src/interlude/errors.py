"""What is said to a user who gave us something we cannot use: one line, what is wrong and what to do."""

from collections.abc import Iterable
from difflib import get_close_matches


class UserError(ValueError):
    """Bad input from outside. The command line prints the message alone and exits with code 2."""


def unknown(kind: str, name: str, known: Iterable[str]) -> UserError:
    """The error for a name that is not there, with the nearest names that are."""
    known = sorted(known)
    near = get_close_matches(name, known, n=3, cutoff=0.5)
    hint = f"did you mean {' or '.join(map(repr, near))}?" if near else f"choose from {', '.join(known)}"
    return UserError(f"unknown {kind} {name!r}; {hint}")


class RunError(RuntimeError):
    """A run that could not go on, though its input was good. The message says what is left; exit code 1."""
