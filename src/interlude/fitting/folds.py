"""Repeated, stratified, group-aware folds inside a few labels."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import StratifiedGroupKFold

from interlude.fitting.sample import too_few

MOST_FOLDS = 5
TRIES = 20  # group-aware folds can leave a class out of a training part; other shuffles may not

Rows = NDArray[np.int64]


@dataclass(frozen=True)
class Folds:
    """Which labeled images can be held out, in how many folds; `why_not` says why none can be.

    Where some labels were drawn at random and others chosen, only those are: all others are learned from.
    """

    labels: Rows
    groups: NDArray[Any]
    eligible: Rows
    number: int
    why_not: str = ""
    sampled: NDArray[np.bool_] | None = None  # which labels were drawn at random, where that is known

    @property
    def note(self) -> str:
        """A sentence about labels that are never held out; empty if all are."""
        wanted = len(self.labels) if self.sampled is None else int(self.sampled.sum())
        left = wanted - len(self.eligible)
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
        for held in self._parts(seed):
            out = self.eligible[held]
            together = np.isin(self.groups, self.groups[out])  # a group is never on both sides
            yield np.flatnonzero(~together), out

    def _parts(self, seed: int) -> Iterator[Rows]:
        """The places of the eligible images, part by part."""
        labels, groups = self.labels[self.eligible], self.groups[self.eligible]
        if self.sampled is not None:
            yield from dealt(labels, groups, self.number, seed)
            return
        splitter = StratifiedGroupKFold(self.number, shuffle=True, random_state=seed)
        yield from (held for _, held in splitter.split(labels, labels, groups))

    def _complete(self, learned: Rows) -> bool:
        return len(np.unique(self.labels[learned])) == len(np.unique(self.labels))


def dealt(labels: Rows, groups: NDArray[Any], number: int, seed: int) -> Iterator[Rows]:
    """The places of labels in so many parts, groups whole, the images of a class dealt out in turn.

    Unlike other stratified folds these allow a class with a single image.
    """
    names, first, unit = np.unique(groups, return_index=True, return_inverse=True)
    order = np.lexsort([np.random.default_rng(seed).random(len(names)), labels[first]])
    part = np.empty(len(names), np.int64)
    part[order] = np.arange(len(names)) % number
    yield from (np.flatnonzero(part[unit] == k) for k in range(number))


def make_folds(
    labels: Rows, groups: NDArray[Any] | None = None, sampled: NDArray[np.bool_] | None = None
) -> Folds:
    """The folds that these labels allow: at most five, no more than the rarest class allows.

    `sampled` says which labels were drawn at random, if not all of them were.
    """
    names: NDArray[Any] = np.arange(len(labels)) if groups is None else groups
    sizes = {int(label): len(np.unique(names[labels == label])) for label in np.unique(labels)}
    large = [label for label, size in sizes.items() if size >= 2]
    eligible = np.flatnonzero(np.isin(labels, large))
    if not large:
        noun = "label" if groups is None else "group"
        why = f"no class has a second {noun} to hold out; two a class are the least"
        return Folds(labels, names, eligible, 0, why, sampled)
    if sampled is not None:
        eligible = eligible[sampled[eligible]]
        why = too_few(len(np.unique(names[eligible])), len(np.unique(labels[eligible])))
        return possible(Folds(labels, names, eligible, 0 if why else MOST_FOLDS, why, sampled))
    return possible(Folds(labels, names, eligible, min(MOST_FOLDS, min(sizes[label] for label in large))))


def possible(folds: Folds) -> Folds:
    """The folds, if any of them leaves something of every class to learn from; else why none can be."""
    if folds.why_not or next(folds.repetition(0), None) is not None:
        return folds
    why = "whatever is held out, some class has nothing left to learn from; label some in another group"
    return replace(folds, number=0, why_not=why)
