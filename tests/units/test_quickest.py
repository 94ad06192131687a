"""Of several ways to do the same work, all have their turns, and the quickest is kept."""

from collections import Counter

import pytest

from interlude import quickest
from interlude.quickest import TURNS, Quickest


class Clock:
    """A clock that only moves when a way says how long it took."""

    def __init__(self):
        self.now = 0.0
        self.calls = Counter()

    def way(self, name, *seconds):
        """A way that takes so long, call by call; from the last one on, as long as that."""

        def work(value):
            self.now += seconds[min(self.calls[name], len(seconds) - 1)]
            self.calls[name] += 1

        return work


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(quickest.time, "perf_counter", lambda: clock.now)
    return clock


def done(work, times):
    for _ in range(times):
        work(0.5)


def test_each_way_has_as_many_turns(clock):
    done(Quickest(clock.way("slow", 2), clock.way("fast", 1), clock.way("slower", 3)), 3 * TURNS)
    assert clock.calls == {"slow": TURNS, "fast": TURNS, "slower": TURNS}


@pytest.mark.parametrize("first", ["slow", "fast"])
def test_after_them_only_the_quickest_is_used(clock, first):
    ways = {"slow": clock.way("slow", 2), "fast": clock.way("fast", 1)}
    done(Quickest(ways.pop(first), *ways.values()), 2 * TURNS + 5)
    assert clock.calls == {"slow": TURNS, "fast": TURNS + 5}


def test_a_way_that_was_disturbed_in_all_turns_but_one_is_judged_by_that_one(clock):
    disturbed = [9] * (TURNS - 1)
    done(Quickest(clock.way("steady", 2), clock.way("disturbed", *disturbed, 1)), 2 * TURNS + 5)
    assert clock.calls["disturbed"] == TURNS + 5


def test_work_is_done_once_a_call_with_what_was_given():
    given = []
    work = Quickest(given.append, lambda value: given.append(value))
    for value in range(3 * TURNS):
        work(value)
    assert given == list(range(3 * TURNS))
