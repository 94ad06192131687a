"""Extraction against a clock: what it reaches is whole, in proportion, and no more than time allows."""

import pytest
import torch

from interlude.features import extract as module
from interlude.features import in_time
from interlude.features.in_time import Reached, extract_in_time
from interlude.testing import toy_split

KINDS = ("weak", "strong")
LABELED, POOL, TEST = 6, 18, 9  # images of the toy split
NEEDED = TEST + LABELED * 3  # vectors of what is judged or labeled, plain, weak and strong


@pytest.fixture(autouse=True)
def small_batches(monkeypatch):
    """One job at a time, of two images; the pool three at a time."""
    monkeypatch.setattr(module, "BATCH", 2)
    monkeypatch.setattr(in_time, "PORTION", 3)
    monkeypatch.setattr(module, "_in_turn", lambda send, jobs, workers: (send(job).result() for job in jobs))


class Slow:
    """A clock that the extractor moves on: a second for each vector, or as many as `cost` says."""

    def __init__(self, batches, cost=lambda done: 1.0):
        self.now, self.done = 0.0, 0
        compute = batches.extractor._compute

        def slowly(job, networks):
            for _ in job.hashes:
                self.now += cost(self.done)
                self.done += 1
            return compute(job, networks)

        batches.extractor._compute = slowly


def run(batches, seconds, cost=lambda done: 1.0, *, always=0, kinds=KINDS):
    """What is reached in so many seconds, and the clock when it ends."""
    clock = Slow(batches, cost)
    reached = extract_in_time(
        batches,
        kinds,
        kinds,
        [*batches.split.tests.values()],
        order=torch.arange(POOL).flip(0),
        always=always,
        left=lambda: seconds - clock.now,
    )
    return reached, clock


def missing(batches, view, images):
    extractor = batches.extractor
    return int((extractor.cache.find(view.name, extractor.hashes(images)) < 0).sum())


def test_with_time_enough_all_that_was_planned_is_there(make_batches):
    batches = make_batches(weak=2, strong=4)
    reached, clock = run(batches, 1000)
    assert reached == Reached(weak=2, strong=4, pool=POOL)
    assert clock.done == TEST + (LABELED + POOL) * (1 + 2 + 4)


@pytest.mark.parametrize("seconds", [0, 30, 60, 90, 120, 150, 200])
def test_whatever_the_time_all_vectors_of_what_is_reached_are_there(make_batches, seconds):
    batches = make_batches(weak=2, strong=4)
    reached, _ = run(batches, seconds)
    split = batches.split
    pool = split.unlabeled.subset(torch.arange(POOL).flip(0)[: reached.pool])
    kept = {"plain": 1, "weak": reached.weak, "strong": reached.strong}
    for kind, number in kept.items():
        for view in batches.realisations(kind)[:number]:
            assert missing(batches, view, split.labeled) == 0
            assert missing(batches, view, pool) == 0
    (plain,) = batches.realisations("plain")
    assert missing(batches, plain, split.tests["test"]) == 0


@pytest.mark.parametrize("seconds", [60, 90, 120, 150, 200])
def test_the_time_is_kept(make_batches, seconds):
    _, clock = run(make_batches(weak=2, strong=4), seconds)
    assert clock.now <= seconds


def test_as_many_realisations_are_reached_as_counting_says(make_batches):
    """Counted by hand: each further realisation takes a second for each image, labeled and unlabeled."""
    for extra in range(5):
        least = NEEDED + POOL * 3
        batches = make_batches(weak=2, strong=4, extractor=None, seed=extra)
        batches.extractor.cache.folder = batches.extractor.cache.folder / str(extra)
        batches.extractor.cache.folder.mkdir()
        reached, _ = run(batches, least + extra * (LABELED + POOL))
        assert (reached.weak - 1) + (reached.strong - 1) == min(extra, 4)


def test_realisations_stay_in_proportion(make_batches):
    reached, _ = run(make_batches(weak=2, strong=4), NEEDED + POOL * 3 + 2 * (LABELED + POOL))
    assert reached == Reached(weak=2, strong=2, pool=POOL)


def test_a_machine_that_turns_slow_halfway_leaves_realisations_out(make_batches):
    turn = NEEDED + POOL * 3 + 10
    reached, clock = run(make_batches(weak=2, strong=4), 200, cost=lambda done: 1.0 if done < turn else 20.0)
    assert reached == Reached(weak=1, strong=1, pool=POOL)
    assert clock.now <= 200 + 2 * 20, "one batch more than time allowed, at most"


def test_a_part_of_the_pool_is_used_where_the_least_of_all_takes_too_long(make_batches):
    reached, _ = run(make_batches(weak=2, strong=4), NEEDED + 8 * 3)
    assert reached == Reached(weak=1, strong=1, pool=6), "two portions of three"


def test_without_any_time_the_least_is_extracted_all_the_same(make_batches):
    reached, clock = run(make_batches(weak=2, strong=4), 0, always=4)
    assert reached == Reached(weak=1, strong=1, pool=4 + 3)
    assert clock.done == NEEDED + 7 * 3


def test_what_is_in_the_cache_takes_no_time(make_batches):
    run(make_batches(weak=2, strong=4), 1000)
    reached, clock = run(make_batches(weak=2, strong=4), 0)
    assert reached == Reached(weak=2, strong=4, pool=POOL)
    assert clock.done == 0


def test_what_was_cut_off_is_kept_for_a_longer_time(make_batches):
    _, first = run(make_batches(weak=2, strong=4), NEEDED + 8 * 3)
    _, second = run(make_batches(weak=2, strong=4), 1000)
    assert first.done + second.done == TEST + (LABELED + POOL) * 7


def test_a_kind_with_fewer_realisations_than_planned_is_no_cut(make_batches):
    batches = make_batches(split=toy_split(), weak=9, strong=2, policy="digits")
    assert run(batches, 10_000)[0] == Reached(weak=9, strong=2, pool=POOL)
