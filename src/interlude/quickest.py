"""One of several ways to do the same work, found by trying."""

import time
from collections.abc import Callable
from math import inf

TURNS = 8  # of each way: something may come between, but not every time

Way = Callable[[float], object]


class Quickest:
    """Does some work by each of its ways in turn at first, then by the one that has taken the least time.

    All must come to the same result, to the bit: which is chosen depends on the machine and on chance.
    """

    def __init__(self, *ways: Way) -> None:
        self._least = dict.fromkeys(ways, inf)
        self._turns = [*ways] * TURNS
        self.chosen: Way | None = None

    def __call__(self, value: float) -> None:
        if self.chosen is not None:
            self.chosen(value)
            return
        way = self._turns.pop()
        began = time.perf_counter()
        way(value)
        self._least[way] = min(self._least[way], time.perf_counter() - began)
        if not self._turns:
            self.chosen = min(self._least, key=self._least.__getitem__)
