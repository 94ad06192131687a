"""Images that are there more than once or belong together: on two sides of a split, or under two labels."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from interlude.data.images import UNKNOWN
from interlude.doctor.alike import MOST, near_pairs
from interlude.doctor.diagnosis import (
    LABELED,
    ROLES,
    TEST,
    UNLABELED,
    VALIDATION,
    Cast,
    Finding,
    Rows,
    Severity,
    files,
    merge,
)
from interlude.doctor.scan import Scan
from interlude.progress import Progress

Sides = tuple[Sequence[int], Sequence[int]]  # rows of which each on one side goes with each on the other


class Rule(NamedTuple):
    """What it means if two roles share images; how serious it is for copies, near copies and groups."""

    one: int
    two: int
    exact: Severity | None
    near: Severity | None
    group: Severity | None
    means: str
    do: str
    excludes: tuple[str, ...] = ()  # where the images of the first role are left out of training


LEFT_OUT = "Nothing: these unlabeled images are left out of training."
RULES = (
    Rule(
        LABELED,
        TEST,
        "stop",
        "warn",
        "stop",
        "the test would ask for what was learned by heart, and its number would be too good",
        "Take them out of the training images or out of the test images. With --force, labeled images that "
        "are the very same picture are left out of training.",
        excludes=("exact",),
    ),
    Rule(
        UNLABELED,
        TEST,
        "warn",
        "warn",
        "warn",
        "the model would have seen test images, though not their labels",
        LEFT_OUT,
        excludes=("exact", "near", "group"),
    ),
    Rule(
        LABELED,
        VALIDATION,
        "warn",
        "warn",
        "warn",
        "what is measured on validation images would be too good",
        "Take them out of the training images or out of the validation images.",
    ),
    Rule(
        VALIDATION,
        TEST,
        "warn",
        "note",
        "warn",
        "a model chosen on the validation images would be chosen on test images",
        "Take them out of one of the two.",
    ),
    Rule(
        UNLABELED,
        VALIDATION,
        "note",
        "note",
        "note",
        "the model would have seen validation images, though not their labels",
        LEFT_OUT,
        excludes=("exact", "near", "group"),
    ),
    Rule(
        LABELED,
        LABELED,
        "warn",
        "warn",
        None,
        "they are worth one label, not several",
        "Nothing: they are kept together when accuracy is estimated. If they show one patient, animal or "
        "scene, say so for all images (--group COLUMN).",
    ),
    Rule(LABELED, UNLABELED, "note", "note", None, "this does no harm", "Nothing."),
    Rule(
        UNLABELED, UNLABELED, "note", "note", None, "this does little harm", "Nothing, or keep one of each."
    ),
    Rule(TEST, TEST, "note", None, None, "they count more than once in the test", "Keep one of each."),
)
KINDS = {"exact": "duplicates", "near": "near-duplicates", "group": "group-crossing"}
WORDS = {
    "exact": "with the very same picture",
    "near": "with almost the same picture",
    "group": "with others of their group",
}
DOUBTS = {
    "exact": "at most one of them is right",
    "near": "unless they differ in colour or in a detail, at most one of them is right",
}


@dataclass(frozen=True, eq=False)
class Copies:
    """Which rows go together, and how."""

    exact: list[list[int]]
    near: Sequence[Sides]
    groups: list[list[int]]
    complete: bool = True  # whether `near` has all there are

    def together(self, count: int) -> Rows:
        """A number for each row, the same for rows that no split may part."""
        numbers = np.arange(count)
        merged = merge(chain(self.exact, ([*one, *two] for one, two in self.near), self.groups))
        numbers[list(merged.keys())] = list(merged.values())
        return numbers


def find_copies(cast: Cast, scan: Scan, *, quiet: bool = False) -> Copies:
    """Rows with the same pixels, rows that look the same, and rows of one group."""
    readable = np.flatnonzero(scan.readable & ~scan.flat)
    exact = same(scan.pixels[readable], readable)
    members = {rows[0]: rows for rows in exact}
    first = np.setdiff1d(readable, [row for rows in exact for row in rows[1:]])
    with Progress("comparing images", 100, quiet=quiet) as progress:
        pairs, complete = near_pairs(scan.thumbnails[first], lambda share: progress.show(int(100 * share)))
    near = [(members.get(a, [a]), members.get(b, [b])) for a, b in first[pairs].tolist()]
    groups = cast.listing.groups
    if groups is None:
        return Copies(exact, near, [], complete)
    known = np.flatnonzero(groups != UNKNOWN)
    return Copies(exact, near, same(groups[known], known), complete)


def same(values: NDArray[np.generic], rows: Rows) -> list[list[int]]:
    """The rows that share a value with others, in lists, each in order."""
    order = np.argsort(values, kind="stable")
    ends = np.flatnonzero(values[order][1:] != values[order][:-1]) + 1
    return [part.tolist() for part in np.split(rows[order], ends) if len(part) > 1]


def check_copies(cast: Cast, copies: Copies, excluded: dict[str, str]) -> Iterator[Finding]:
    """A finding for each pair of roles that share images; enters what must be left out of training."""
    within: dict[str, Sequence[Sides]] = {
        "exact": [(rows, rows) for rows in copies.exact],
        "near": copies.near,
        "group": [(rows, rows) for rows in copies.groups],
    }
    for rule in RULES:
        for how, sides in within.items():
            severity: Severity | None = getattr(rule, how)
            if severity is not None:
                yield from check_rule(cast, rule, how, severity, sides, excluded)
    if not copies.complete:
        yield Finding(
            "near-duplicates-cut",
            "warn",
            f"More than {MOST:,} pairs of images look almost the same; the search ended there.",
            "Keep one image of each scene, or say which images belong together (--group COLUMN).",
        )


def check_rule(
    cast: Cast, rule: Rule, how: str, severity: Severity, sides: Iterable[Sides], excluded: dict[str, str]
) -> Iterator[Finding]:
    """A finding where images of the rule's two roles go together."""
    sets = [found for pair in sides if (found := crossing(cast.roles, rule, pair))]
    if rule.one == rule.two == LABELED:  # two labels are another finding
        sets = [rows for rows in sets if len(np.unique(cast.listing.labels[rows])) == 1]
    if not sets:
        return
    merged = join(sets)
    rows = [row for one in merged for row in one]
    first = [row for row in rows if cast.roles[row] == rule.one]
    if how in rule.excludes:
        why = f"{WORDS[how]} among the {ROLES[rule.two]} images"
        excluded |= dict.fromkeys(cast.names(first), why)
    one, two = ROLES[rule.one], ROLES[rule.two]
    yield Finding(
        f"{KINDS[how]}:{one}-{two}",
        severity,
        f"{files(len(first), f'{one} image')} {WORDS[how]} among the {two} images: {rule.means}.",
        rule.do,
        cast.names(rows),
        sets=tuple(cast.names(one) for one in merged),
        count=len(rows),
    )


def crossing(roles: Rows, rule: Rule, sides: Sides) -> list[int]:
    """The rows of two sides that have the rule's roles, one on each side."""
    found: set[int] = set()
    for one, two in (sides, sides[::-1]):
        left = [row for row in one if roles[row] == rule.one]
        right = [row for row in two if roles[row] == rule.two]
        if left and right and len({*left, *right}) > 1:
            found.update(left, right)
    return sorted(found)


def join(sets: Iterable[Sequence[int]]) -> list[list[int]]:
    """Sets that overlap, made one; each in order, and so are they."""
    merged: dict[int, list[int]] = {}
    for row, smallest in sorted(merge(sets).items()):
        merged.setdefault(smallest, []).append(row)
    return list(merged.values())


def check_labels_of_copies(cast: Cast, copies: Copies, excluded: dict[str, str]) -> Iterator[Finding]:
    """Findings where the same picture, or almost the same, has two labels."""
    for how, sides in (("exact", [(rows, rows) for rows in copies.exact]), ("near", copies.near)):
        sets = [found for pair in sides if (found := contradicting(cast.listing.labels, pair))]
        if not sets:
            continue
        merged = join(sets)
        rows = [row for one in merged for row in one]
        names = {cast.listing.paths[row]: cast.listing.class_names[cast.listing.labels[row]] for row in rows}
        if how == "exact":
            train = [row for row in rows if cast.roles[row] == LABELED]
            excluded |= {cast.listing.paths[row]: "the same picture has another label too" for row in train}
        yield Finding(
            "two-labels" if how == "exact" else "near-two-labels",
            "stop" if how == "exact" else "warn",
            f"{files(len(rows))} {WORDS[how]} under two labels: {DOUBTS[how]}.",
            "Look at them, and correct or remove the wrong labels.",
            cast.names(rows),
            details=names,
            sets=tuple(cast.names(one) for one in merged),
            count=len(rows),
        )


def contradicting(labels: Rows, sides: Sides) -> list[int]:
    """The labeled rows of two sides if a label on one side is not the label of the other."""
    one, two = ([row for row in side if labels[row] != UNKNOWN] for side in sides)
    rows = sorted({*one, *two})
    if not one or not two or len({int(labels[row]) for row in rows}) < 2:
        return []
    return rows
