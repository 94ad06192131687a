"""What may come of any input at all."""

from collections.abc import Iterator
from contextlib import contextmanager

from interlude.errors import UserError


@contextmanager
def value_or_one_line() -> Iterator[None]:
    """The block may end in a UserError whose message is one line, and in no other error."""
    try:
        yield
        message = ""
    except UserError as error:
        message = str(error)
    assert "\n" not in message, message
