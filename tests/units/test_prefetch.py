"""The next batch is made beside the one in use: in order, one ahead, and without a trace when it ends."""

import threading
import traceback

import pytest
import torch

from interlude.methods.interlude import InterLUDE
from interlude.prefetch import ahead
from interlude.testing import toy_run


class Recorder:
    """A `make` that notes what it was asked for, and by which thread."""

    def __init__(self):
        self.asked = []
        self.threads = set()
        self.seen = threading.Condition()

    def __call__(self, step):
        with self.seen:
            self.asked.append(step)
            self.threads.add(threading.current_thread())
            self.seen.notify_all()
        return step * 10

    def until(self, count):
        with self.seen:
            assert self.seen.wait_for(lambda: len(self.asked) >= count, timeout=10)


@pytest.mark.parametrize("overlap", [False, True])
@pytest.mark.parametrize("steps", [[], [4], range(5, 9)])
def test_results_come_in_order(overlap, steps):
    with ahead(Recorder(), steps, overlap=overlap) as results:
        assert list(results) == [step * 10 for step in steps]


def test_the_next_is_made_while_one_is_in_use_and_no_more_than_that():
    make = Recorder()
    with ahead(make, range(10), overlap=True) as results:
        for step in range(3):
            assert next(results) == step * 10
            make.until(step + 2)
            assert make.asked == list(range(step + 2))


def test_without_overlap_nothing_is_made_before_it_is_asked_for():
    make = Recorder()
    with ahead(make, range(10), overlap=False) as results:
        next(results)
        assert make.asked == [0]
        assert make.threads == {threading.current_thread()}


def test_the_thread_ends_with_the_block_also_by_an_error():
    make = Recorder()

    def stop_early():
        with ahead(make, range(10), overlap=True) as results:
            next(results)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        stop_early()
    (worker,) = make.threads
    assert worker is not threading.current_thread()
    assert not worker.is_alive()


def test_an_error_in_the_thread_is_raised_where_its_batch_is_taken():
    def fail_at_two(step):
        if step == 2:
            raise ValueError("no such image")
        return step

    with ahead(fail_at_two, range(5), overlap=True) as results:
        assert [next(results), next(results)] == [0, 1]
        with pytest.raises(ValueError, match="no such image") as error:
            next(results)
    assert "fail_at_two" in [frame.name for frame in traceback.extract_tb(error.value.__traceback__)]


def test_the_thread_computes_on_one_core_and_all_others_as_before():
    torch.set_num_threads(3)
    with ahead(lambda step: torch.get_num_threads(), range(2), overlap=True) as results:
        assert list(results) == [1, 1]
        assert torch.get_num_threads() == 3
        fresh = []
        other = threading.Thread(target=lambda: fresh.append(torch.get_num_threads()))
        other.start()
        other.join()
        assert fresh == [3]


def test_a_batch_does_not_change_while_the_next_is_made_or_a_sweep_is_under_way():
    run, apart = toy_run(InterLUDE), toy_run(InterLUDE)
    expected = [apart.batch(step) for step in range(4)]
    swept = list(apart.batches.sweep(apart.split.unlabeled, "weak"))
    with ahead(run.batch, range(4), overlap=True) as batches:
        for batch, wanted in zip(batches, expected, strict=True):
            for view, same in zip(run.batches.sweep(run.split.unlabeled, "weak"), swept, strict=True):
                assert torch.equal(view, same)
            for view, same in zip([*batch.x, *batch.u], [*wanted.x, *wanted.u], strict=True):
                assert torch.equal(view, same)


def test_making_a_batch_draws_nothing_from_the_common_generator():
    run = toy_run(InterLUDE)
    before = torch.get_rng_state()
    run.batch(3)
    assert torch.equal(torch.get_rng_state(), before)
