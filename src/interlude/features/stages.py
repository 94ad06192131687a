"""What is extracted in which order, so that stopping early leaves a set of vectors that is of use."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from torch import Tensor

from interlude.data import Images
from interlude.features.views import View


class Part(NamedTuple):
    """Images of a set, all of them or some rows, in one view."""

    view: View
    images: Images
    rows: Tensor | None = None


class Stage(NamedTuple):
    """What is of use together only; what is needed is extracted whatever the time."""

    parts: Sequence[Part]
    needed: bool = False


class Job(NamedTuple):
    """One batch: some images of a set, in one view, for a stage of this number."""

    view: View
    images: Images
    rows: Tensor
    hashes: list[bytes]
    stage: int = 0


class InTime:
    """Hands out the jobs, and ends with the first whose stage the time left does not allow.

    `left` says how many seconds there are; `done` is to be told how many vectors have come, which gives the
    pace. So many stages as `reached` says are whole in the end.
    """

    def __init__(self, stages: Sequence[Stage], jobs: Sequence[Job], left: Callable[[], float]) -> None:
        self.stages, self.left, self.done = stages, left, 0
        self.at_first, self.reached = left(), len(stages)
        self.open: Counter[int] = Counter()  # vectors of each stage that are not handed out
        for job in jobs:
            self.open[job.stage] += len(job.hashes)

    def __call__(self, jobs: Sequence[Job]) -> Iterator[Job]:
        for job in jobs:
            if not self.stages[job.stage].needed and not self.allows(self.open[job.stage]):
                self.reached = job.stage
                return
            self.open[job.stage] -= len(job.hashes)
            yield job

    def allows(self, vectors: int) -> bool:
        """Whether there is time for so many vectors at the pace so far."""
        left = self.left()
        each = (self.at_first - left) / self.done if self.done else 0.0
        return left > 0 and vectors * each <= left
