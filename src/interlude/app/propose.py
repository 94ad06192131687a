"""Which images the page asks about next, from the best that is known of them at this moment."""

from threading import Lock
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from interlude.app import select
from interlude.app.beliefs import Beliefs
from interlude.app.labels import NONE, Labels
from interlude.app.looks import Looks
from interlude.app.sample import Sample
from interlude.app.select import Points, Rows

Phase = Literal["thumbnails", "features", "model"]
RANDOM = "random"  # why an image is asked about: it was drawn
EVERY = 2  # of so many marked images one is drawn at random (benchmarks/selection.py)
BATCH = 48  # images that are chosen at once
ENOUGH = 10  # labels a class from which on the least certain images teach most (benchmarks/selection.py)
MOST = 4000  # images among which they are


class Proposal(NamedTuple):
    """An image to label, and why this one."""

    row: int
    why: str


class Proposer:
    """Keeps a queue of images to ask about, made anew when more is known of the images, or it is empty.

    Every second one is the next of a random order instead. The chosen ones take no notice of those: were they
    chosen to lie elsewhere, a held-out image of the sample would have fewer labels near it than a new image
    has, and the number would be too low (benchmarks/selection.py).
    """

    def __init__(self, labels: Labels, looks: Looks) -> None:
        self.labels, self.looks = labels, looks
        self.sample = Sample(labels.paths, looks.broken)
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
        """The next images to label, none of which has a mark; the same again while nothing changes.

        One is drawn at random whenever the sample is behind: if the images marked on the page, and those in
        `without`, which are about to be, hold too few of it.
        """
        with self._lock:
            marked = self.labels.marks != NONE
            marked[[row for row in without if row < len(marked)]] = True
            due = self._due(count, marked)
            drawn = [Proposal(row, RANDOM) for row in self.sample.waiting(marked)[: 2 * count].tolist()]
            chosen = self._chosen(count, without | {proposal.row for proposal in drawn[: sum(due)]})
            known = {proposal.row for proposal in chosen}
            return _mixed([proposal for proposal in drawn if proposal.row not in known], chosen, due)

    def _due(self, count: int, marked: NDArray[np.bool_]) -> list[bool]:
        """Which of the next proposals are to be of the sample, so that it has its share of what is marked."""
        size = len(self.sample.drawn(marked))
        is_read_in = ~self.labels.by_hand & (self.labels.marks != NONE)
        given, due = int((marked & ~is_read_in).sum()), list[bool]()
        for place in range(count):
            due.append(size * EVERY <= given + place)
            size += due[-1]
        return due

    def _chosen(self, count: int, without: set[int]) -> list[Proposal]:
        """So many images that were chosen, or as many as there are."""
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
        marked = self.labels.marks != NONE
        chosen_before = np.setdiff1d(rows[marked[rows]], self.sample.drawn(marked))
        taken = np.concatenate([chosen_before, np.array(sorted(known), np.int64)])
        free = np.setdiff1d(rows[~marked[rows]], taken)
        free, taken = _some(free, MOST), _some(taken, MOST // 4)
        if self.beliefs is not None and self._has_enough():
            why = "uncertain"
            chosen = select.uncertain(points, self.beliefs.margin, free[self.beliefs.known[free]], count)
        elif self.vectors is not None:
            why, chosen = "typical", select.typical(points, free, taken, count)
        else:
            why, chosen = "spread", select.spread(points, free, taken, count)
        proposals = [Proposal(row, why) for row in chosen.tolist()]
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
        free = self.sample.waiting(self.labels.marks != NONE)
        rows = [row for row in free.tolist() if row not in known]
        return [Proposal(row, "spread") for row in rows[:count]]


def _mixed(drawn: list[Proposal], chosen: list[Proposal], due: list[bool]) -> list[Proposal]:
    """One of the drawn where one is due, else one of the chosen; of the others where there are no more."""
    found = []
    for is_due in due:
        first, second = (drawn, chosen) if is_due else (chosen, drawn)
        if first or second:
            found.append((first or second).pop(0))
    return found


def _some(rows: Rows, most: int) -> Rows:
    """A random part of the rows, if they are too many; the same each time."""
    if len(rows) <= most:
        return rows
    return np.random.default_rng(len(rows)).permutation(rows)[:most]
