"""The batch of the next step, made in a thread of its own while the network computes."""

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import TypeVar

import torch

T = TypeVar("T")


@contextmanager
def ahead(make: Callable[[int], T], steps: Iterable[int], *, overlap: bool) -> Iterator[Iterator[T]]:
    """`make(step)` of each step in turn; with `overlap` a thread makes the next while one is in use.

    `make` must be a pure function. An error in it is raised where its result is taken; the thread ends with
    the `with` block.
    """
    if not overlap:
        yield map(make, steps)
        return
    worker = ThreadPoolExecutor(1, "next batch")
    try:
        _use_one_core(worker)
        yield _in_turn(worker, make, steps)
    finally:
        worker.shutdown(cancel_futures=True)


def _in_turn(worker: ThreadPoolExecutor, make: Callable[[int], T], steps: Iterable[int]) -> Iterator[T]:
    """Results in order; when one is handed out, the next one has been asked for and no more."""
    pending: Future[T] | None = None
    for step in steps:
        following = worker.submit(make, step)
        if pending is not None:
            yield pending.result()
        pending = following
    if pending is not None:
        yield pending.result()


def _use_one_core(worker: ThreadPoolExecutor) -> None:
    """Let torch compute with one thread in the worker, and with as many as before everywhere else."""
    count = torch.get_num_threads()
    # a thread takes over the common number when it first asks for it, and only then can have its own;
    # to set that changes the common number too
    worker.submit(torch.get_num_threads).result()
    worker.submit(torch.set_num_threads, 1).result()
    torch.set_num_threads(count)
