"""Which images the page asks about next, from the best that is known of them at this moment."""

from threading import Lock
from typing import Literal, NamedTuple

import numpy as np

from interlude.app import select
from interlude.app.beliefs import Beliefs
from interlude.app.labels import NONE, Labels
from interlude.app.looks import Looks
from interlude.app.select import Points, Rows

Phase = Literal["thumbnails", "features", "model"]
WHY = {"thumbnails": "spread", "features": "typical", "model": "uncertain"}
BATCH = 48  # images that are chosen at once
ENOUGH = 10  # labels a class from which on the least certain images teach most (benchmarks/selection.py)
MOST = 4000  # images among which they are


class Proposal(NamedTuple):
    """An image to label, and why this one."""

    row: int
    why: str


class Proposer:
    """Keeps a queue of images to ask about, made anew when more is known of the images, or it is empty."""

    def __init__(self, labels: Labels, looks: Looks) -> None:
        self.labels, self.looks = labels, looks
        self.vectors: Points | None = None  # of a frozen network, NaN where there is none
        self.beliefs: Beliefs | None = None
        self._queue: list[Proposal] = []
        self._lock = Lock()

    @property
    def phase(self) -> Phase:
        """What proposals rest on."""
        if self.beliefs is not None:
            return "model"
        return "features" if self.vectors is not None else "thumbnails"

    def learn(self, vectors: Points | None, beliefs: Beliefs | None) -> None:
        """Take in what is known now; proposals that rest on less are given up."""
        with self._lock:
            if vectors is not self.vectors or beliefs is not self.beliefs:
                self.vectors, self.beliefs, self._queue = vectors, beliefs, []

    def next(self, count: int, without: set[int]) -> list[Proposal]:
        """The next images to label, none of which has a mark; the same again while nothing changes."""
        with self._lock:
            found = self._waiting(without)
            if len(found) < count:
                self._queue = self._waiting(set())
                known = {proposal.row for proposal in self._queue}
                self._queue += self._choose(max(BATCH, count + len(without)), known)
                found = self._waiting(without)
            return found[:count]

    def _waiting(self, without: set[int]) -> list[Proposal]:
        """What is in the queue and still has no mark."""
        marks = self.labels.marks
        return [p for p in self._queue if marks[p.row] == NONE and p.row not in without]

    def _choose(self, count: int, known: set[int]) -> list[Proposal]:
        """More images to ask about."""
        points, rows = self._points()
        marks = self.labels.marks
        taken = np.concatenate([rows[marks[rows] != NONE], np.array(sorted(known), np.int64)])
        free = np.setdiff1d(rows[marks[rows] == NONE], taken)
        free, taken = _some(free, MOST), _some(taken, MOST // 4)
        of_each_kind = select.spread if self.vectors is None else select.typical
        if self.beliefs is None:
            chosen = of_each_kind(points, free, taken, count)
        else:
            free, margins = free[self.beliefs.known[free]], self.beliefs.margin
            if self._has_enough():
                chosen = select.uncertain(points, margins, free, count)
            else:
                chosen = of_each_kind(points, select.less_certain(margins, free, count), taken, count)
        proposals = [Proposal(row, WHY[self.phase]) for row in chosen.tolist()]
        return proposals + self._any(count - len(proposals), known | set(chosen.tolist()))

    def _has_enough(self) -> bool:
        """Whether there are labels enough for the doubts of a model to be worth following."""
        return int((self.labels.marks >= 0).sum()) >= ENOUGH * len(self.labels.classes)

    def _points(self) -> tuple[Points, Rows]:
        """Points that stand for images, and for which rows there are any."""
        if self.vectors is not None:
            return self.vectors, np.flatnonzero(np.isfinite(self.vectors[:, 0]))
        return self.looks.points, self.looks.rows()

    def _any(self, count: int, known: set[int]) -> list[Proposal]:
        """Images of which nothing is known yet, where no others are left."""
        if count <= 0:
            return []
        free = np.flatnonzero((self.labels.marks == NONE) & ~self.looks.broken)
        rows = [row for row in free.tolist() if row not in known]
        return [Proposal(row, "spread") for row in rows[:count]]


def _some(rows: Rows, most: int) -> Rows:
    """A random part of the rows, if they are too many; the same each time."""
    if len(rows) <= most:
        return rows
    return np.random.default_rng(len(rows)).permutation(rows)[:most]
