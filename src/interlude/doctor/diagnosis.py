"""What the doctor found: findings in plain words, and what `fit` needs to know of them."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from interlude.data.images import UNKNOWN
from interlude.data.listing import Listing

SCHEMA = 1  # goes up when a key of the JSON changes its meaning or goes away
REPORT = "interlude doctor"
SEVERITIES = ("stop", "warn", "note")
ROLES = ("labeled", "unlabeled", "validation", "test")
LABELED, UNLABELED, VALIDATION, TEST = range(len(ROLES))

Severity = Literal["stop", "warn", "note"]
Rows = NDArray[np.int64]


@dataclass(frozen=True)
class Finding:
    """One thing that was found: how serious it is, a sentence, what to do, and the files it is about."""

    kind: str
    severity: Severity
    says: str
    do: str
    files: tuple[str, ...] = ()
    details: Mapping[str, str] | None = None  # by file, where there is more to say than the sentence
    sets: tuple[tuple[str, ...], ...] = ()  # files that are copies of each other, or of one group
    count: int = 0  # of files; or of rows of the label file

    def to_dict(self) -> dict[str, Any]:
        """All of it, as plain values."""
        return {
            "kind": self.kind,
            "severity": self.severity,
            "says": self.says,
            "do": self.do,
            "count": self.count,
            "files": list(self.files),
            "details": dict(self.details or {}),
            "sets": [list(one) for one in self.sets],
        }


@dataclass(frozen=True, eq=False)
class Diagnosis:
    """Everything that was found in a folder, the most serious first."""

    folder: str
    images: int
    roles: Mapping[str, int]  # readable images by role
    classes: Mapping[str, Mapping[str, int]]  # readable images by class and role
    findings: tuple[Finding, ...]
    excluded: Mapping[str, str]  # path: why it must be left out of training
    together: Rows  # for each file a number, the same for those that no split may part: groups and copies

    @property
    def stops(self) -> tuple[Finding, ...]:
        """The findings that `fit` stops at."""
        return tuple(finding for finding in self.findings if finding.severity == "stop")

    def to_dict(self) -> dict[str, Any]:
        """All of it, as plain values; the keys are described in docs/doctor.md."""
        counts = {name: sum(finding.severity == name for finding in self.findings) for name in SEVERITIES}
        return {
            "schema": SCHEMA,
            "report": REPORT,
            "folder": self.folder,
            "images": self.images,
            "stops": bool(self.stops),
            "severities": counts,
            "roles": dict(self.roles),
            "classes": {name: dict(counts) for name, counts in self.classes.items()},
            "findings": [finding.to_dict() for finding in self.findings],
            "excluded": dict(self.excluded),
        }

    def to_json(self) -> str:
        """All of it, as the text of doctor.json."""
        return json.dumps(self.to_dict(), indent=2)


@dataclass(frozen=True, eq=False)
class Cast:
    """Who plays what: the role of each file of a listing, and the words for rows of it."""

    listing: Listing
    roles: Rows
    readable: NDArray[np.bool_]

    @property
    def usable(self) -> NDArray[np.bool_]:
        """Which rows have both a picture and a label."""
        return np.asarray(self.readable & (self.listing.labels != UNKNOWN))

    def rows(self, role: int) -> Rows:
        """The readable rows that play a role."""
        return np.flatnonzero(self.readable & (self.roles == role))

    def names(self, rows: Iterable[int]) -> tuple[str, ...]:
        """The paths of rows."""
        return tuple(self.listing.paths[row] for row in rows)

    def counts(self) -> dict[str, dict[str, int]]:
        """Readable images by class and by role, the unlabeled left out."""
        size = (len(ROLES), len(self.listing.class_names))
        table = np.zeros(size, np.int64)
        np.add.at(table, (self.roles[self.usable], self.listing.labels[self.usable]), 1)
        return {
            name: {ROLES[role]: int(table[role, label]) for role in (LABELED, VALIDATION, TEST)}
            for label, name in enumerate(self.listing.class_names)
        }


def cast(listing: Listing, readable: NDArray[np.bool_]) -> Cast:
    """The role of each file: training images with and without a label, validation and test images."""
    by_split = np.array([LABELED, VALIDATION, TEST])
    roles = by_split[listing.splits]
    return Cast(
        listing, np.where((roles == LABELED) & (listing.labels == UNKNOWN), UNLABELED, roles), readable
    )


def files(count: int, what: str = "image") -> str:
    """`1 image`, `2,000 images`."""
    return f"{count:,} {what}" if count == 1 else f"{count:,} {what}{'es' if what.endswith('s') else 's'}"


def merge(sets: Iterable[Sequence[int]]) -> dict[int, int]:
    """For each row of the sets the smallest row that a chain of overlapping sets connects it with."""
    parent: dict[int, int] = {}

    def root(row: int) -> int:
        while (above := parent.setdefault(row, row)) != row:
            parent[row] = parent[above]
            row = above
        return row

    for first, *others in sets:
        for other in others:
            one, two = sorted((root(first), root(other)))
            parent[two] = one
    return {row: root(row) for row in list(parent)}
