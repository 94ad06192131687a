"""The name of a data set with its labels and fold in one string, such as cifar10@40/fold1."""

import re
from typing import NamedTuple

from interlude.errors import UserError

_TAIL = re.compile(r"(?P<name>.+)@(?P<labels>\d+)(-(?P<validation>\d+))?(/fold(?P<fold>\d+))?", re.DOTALL)
_SEED = re.compile(r"(?P<name>.+)\.(?P<fold>\d+)")


class Address(NamedTuple):
    """A data set, how many labels are used of it (None: all), and which selection of them."""

    name: str
    labels: int | None
    fold: int


def parse_address(name: str, labels: int | None = None, fold: int | None = None) -> Address:
    """Read `name`, `name@labels` or `name@labels/foldN`, beside what was said outside the address.

    FixMatch's `cifar10.3@40-1` is understood too: the third selection, 40 labels. Fold 0 is the default, so
    it never contradicts an address.
    """
    match = _TAIL.fullmatch(name)
    if match is None:
        if "@" in name and ":" not in name:  # the path of a file may hold any sign
            raise UserError(f"cannot read the data address {name!r}; write name@labels or name@labels/fold1")
        return Address(name, labels, fold or 0)
    place, said_fold = match["name"], match["fold"]
    seed = None if ":" in place else _SEED.fullmatch(place)
    if seed is not None and said_fold is None:
        place, said_fold = seed["name"], seed["fold"]
    if match["validation"] not in (None, "0", "1"):  # FixMatch's "-1" stands for no validation images
        wanted = match["validation"]
        raise UserError(f"{name!r} asks for {wanted} validation images: say validation={wanted} instead")
    agreed_labels = _agree(name, "labels", int(match["labels"]), labels)
    return Address(place, agreed_labels, _agree(name, "fold", int(said_fold or 0), fold or None))


def _agree(name: str, what: str, said: int, given: int | None) -> int:
    """The number, whether the address said it (zero: it did not), the user gave it, or both did alike."""
    if given is None or given == said:
        return said
    if what == "fold" and said == 0:
        return given
    raise UserError(
        f"the data address {name!r} says {what} {said}, but {what} {given} is asked for: drop one"
    )
