"""Work on many small pieces by several threads, in order, without running far ahead of who takes the results.

Pillow decodes and scales outside of Python's lock, so that threads use all cores, and start at once.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import islice
from typing import TypeVar

T = TypeVar("T")
R = TypeVar("R")

AHEAD = 4  # pieces in work for each thread


def in_order(work: Callable[[T], R], pieces: Iterable[T], *, threads: int) -> Iterator[R]:
    """`work(piece)` of each piece in turn; an error in it is raised where its result is taken."""
    if threads == 1:
        yield from map(work, pieces)
        return
    pool = ThreadPoolExecutor(threads, "decode")
    try:
        rest = iter(pieces)
        pending: deque[Future[R]] = deque(pool.submit(work, piece) for piece in islice(rest, AHEAD * threads))
        while pending:
            result = pending.popleft().result()
            pending.extend(pool.submit(work, piece) for piece in islice(rest, 1))
            yield result
    finally:
        pool.shutdown(cancel_futures=True)


def chunks(items: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    """The items in order, `size` at a time."""
    for start in range(0, len(items), size):
        yield items[start : start + size]
