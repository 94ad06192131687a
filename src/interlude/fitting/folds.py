"""Repeated, stratified, group-aware folds inside a few labels."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import StratifiedGroupKFold

MOST_FOLDS = 5
TRIES = 20  # group-aware folds can leave a class out of a training part; other shuffles may not

Rows = NDArray[np.int64]


@dataclass(frozen=True)
class Folds:
    """Which labeled images can be held out, in how many folds; `why_not` says why none can be."""

    labels: Rows
    groups: NDArray[Any]
    eligible: Rows
    number: int
    why_not: str = ""

    @property
    def note(self) -> str:
        """A sentence about labels that are never held out; empty if all are."""
        left = len(self.labels) - len(self.eligible)
        if self.why_not or not left:
            return ""
        return f"{left} labeled images are never held out: their class has no second one to learn from"

    def repetition(self, seed: int) -> Iterator[tuple[Rows, Rows]]:
        """Rows to learn from and rows held out, fold by fold; every eligible image is held out once."""
        for attempt in range(TRIES):
            pairs = list(self._pairs(seed * TRIES + attempt))
            if all(self._complete(learned) for learned, _ in pairs):
                break
        yield from ((learned, held) for learned, held in pairs if self._complete(learned))

    def _pairs(self, seed: int) -> Iterator[tuple[Rows, Rows]]:
        splitter = StratifiedGroupKFold(self.number, shuffle=True, random_state=seed)
        labels, groups = self.labels[self.eligible], self.groups[self.eligible]
        for _, held in splitter.split(labels, labels, groups):
            out = self.eligible[held]
            together = np.isin(self.groups, self.groups[out])  # a group is never on both sides
            yield np.flatnonzero(~together), out

    def _complete(self, learned: Rows) -> bool:
        return len(np.unique(self.labels[learned])) == len(np.unique(self.labels))


def make_folds(labels: Rows, groups: NDArray[Any] | None = None) -> Folds:
    """The folds that these labels allow: at most five, no more than the rarest class allows."""
    names: NDArray[Any] = np.arange(len(labels)) if groups is None else groups
    sizes = {int(label): len(np.unique(names[labels == label])) for label in np.unique(labels)}
    large = [label for label, size in sizes.items() if size >= 2]
    eligible = np.flatnonzero(np.isin(labels, large))
    if not large:
        noun = "label" if groups is None else "group"
        why = f"no class has a second {noun} to hold out; two a class are the least"
        return Folds(labels, names, eligible, 0, why)
    return Folds(labels, names, eligible, min(MOST_FOLDS, min(sizes[label] for label in large)))
