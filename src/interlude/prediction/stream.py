"""Verdicts on a stream of files: threads decode while the network computes; memory does not grow."""

from collections import deque
from collections.abc import Generator, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import islice
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from interlude.data.decode import Unreadable
from interlude.predictor import Predictor

BATCH = 64  # files whose rows are written together
AHEAD = 4  # batches that are being decoded or wait for the network


class Row(NamedTuple):
    """What is said of one file: the error alone if it cannot be read."""

    file: str
    error: str = ""
    probabilities: tuple[float, ...] = ()
    in_set: tuple[bool, ...] = ()
    ood: float = float("nan")
    abstain: bool = False


class Decoded(NamedTuple):
    """A file and its pixels, or why there are none."""

    file: str
    pixels: NDArray[np.uint8] | None
    error: str = ""


def judged(predictor: Predictor, files: Iterable[str], *, workers: int) -> Generator[list[Row], None, None]:
    """The rows of all files in order, a batch at a time; what cannot be read is a row with its error."""
    images = decoded(predictor, files, workers=workers)
    while batch := list(islice(images, BATCH)):
        good = [image.pixels for image in batch if image.pixels is not None]
        verdicts = iter(_verdicts(predictor, good))
        yield [
            Row(image.file, image.error) if image.pixels is None else Row(image.file, "", *next(verdicts))
            for image in batch
        ]


def decoded(predictor: Predictor, files: Iterable[str], *, workers: int) -> Iterator[Decoded]:
    """The pixels of all files in order; a few batches are decoded ahead, by `workers` threads."""

    def read(file: str) -> Decoded:
        try:
            return Decoded(file, predictor.read(file))
        except Unreadable as error:
            return Decoded(file, None, error.reason)

    waiting: deque[Future[Decoded]] = deque()
    pool = ThreadPoolExecutor(workers, "decode")
    try:
        for file in files:
            waiting.append(pool.submit(read, file))
            if len(waiting) > AHEAD * BATCH:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        pool.shutdown(cancel_futures=True)


def _verdicts(
    predictor: Predictor, pixels: list[NDArray[np.uint8]]
) -> list[tuple[tuple[float, ...], tuple[bool, ...], float, bool]]:
    """What is said of each image."""
    if not pixels:
        return []
    verdicts = predictor.judge(torch.from_numpy(np.stack(pixels)))
    columns = (verdicts.probabilities, verdicts.in_set, verdicts.ood, verdicts.abstain)
    return [
        (tuple(probabilities), tuple(in_set), ood, abstain)
        for probabilities, in_set, ood, abstain in zip(*(c.tolist() for c in columns), strict=True)
    ]
