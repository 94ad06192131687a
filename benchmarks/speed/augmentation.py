"""Augmentation: 512 images to 512 weak and 512 strong views, against Pillow pipelines and other libraries.

Each side starts from uint8 images in memory and ends with one normalised float32 batch, its random numbers
included. Ours is what a step of training does (which images, draws, views, network input), in a process of
its own that keeps its heap as training does; the others share one whose allocator is as it is. Where training
makes the batches of several steps together, so does a turn of ours, of which a batch is its part.
"""

import sys
from collections.abc import Callable
from typing import Any

import measure
import numpy as np
import ours
import reference_libraries
import reference_pillow
from turns import Turns, Worker

GROUPS, MU = 64, 7
WARMUPS = 32  # batches until the heap has its size
IMAGES = GROUPS * (1 + MU)


def rows() -> list[dict[str, Any]]:
    """The rows of both sizes."""
    return [row for size in (32, 96) for row in rows_of(size)]


def rows_of(size: int) -> list[dict[str, Any]]:
    """How many times faster than the authors' pipeline each side is."""
    sides: dict[str, Callable[[], Any]] = {
        "authors": pillow(size, reference_pillow.AuthorsRandAugment()),
        "usb": pillow(size, reference_pillow.UsbRandAugment()),
        **reference_libraries.sides(ours.pixels(IMAGES, size), group=1 + MU),
    }
    workers = {backend: Worker(__file__, backend, str(size)) for backend in ours.backends()}
    try:
        times = measure.interleaved({**sides, **workers}, warmups=2)
    finally:
        for worker in workers.values():
            worker.close()
    conditions = f"1 thread, {measure.milliseconds(times)}"
    return [
        measure.row(
            f"augment-{size}-{name}", measure.ratios(times["authors"], times[name]), conditions=conditions
        )
        for name in times
        if name != "authors"
    ]


def pillow(size: int, strong: Callable[[Any], Any]) -> Callable[[], Any]:
    """The views of random rows, picture by picture."""
    pictures = ours.pictures(ours.UNLABELED, size)
    pipeline = reference_pillow.Pipeline(size, strong)
    generator = np.random.default_rng(0)
    return lambda: reference_pillow.views(pictures, generator.integers(len(pictures), size=IMAGES), pipeline)


def work(backend: str, size: int) -> None:
    """Inside the process of a back end of ours: the batches of steps without end, at each turn the next."""
    run = ours.run(
        ours.split(size=size), method="interlude", augment={"backend": backend}, batch=GROUPS, mu=MU
    )
    together = run.batches.steps_at_once(run.method.labeled, run.method.unlabeled)

    def make(first: int) -> None:
        for step in range(first, first + together):
            run.batch(step)

    for first in range(0, WARMUPS, together):
        make(first)
    turns = Turns()
    for first in range(WARMUPS, ours.MANY_STEPS, together):
        make(first)
        turns.done(pieces=together)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        measure.one_thread()
        work(sys.argv[1], int(sys.argv[2]))
    else:
        measure.main(rows)
