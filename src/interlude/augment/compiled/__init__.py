"""Augmentation in compiled loops, same bits as with torch: for a CPU with numba (`interlude-ssl[fast]`)."""

import math
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
import torch
from torch import Tensor

from interlude.augment.compiled import kernels
from interlude.augment.compiled.numbers import numbers_of, take_apart
from interlude.augment.draw import Augmentation, Draw
from interlude.augment.groups import Identity
from interlude.loops import Array


def prepare(
    batches: Sequence[Tensor],
    places: Sequence[Tensor],
    augmentation: Augmentation,
    draw: Draw,
    mean: Sequence[float],
    std: Sequence[float],
) -> Callable[[], None] | None:
    """What writes the views of each batch into its place; None if the loops cannot.

    The first batch has one image for each row of the draw, any other as many neighbours for each as it has.
    A place is float32 (steps, n, C, H, W), the images of a step one after the other in channels-last order.
    """
    parts = take_apart(augmentation)
    rows, channels = batches[0].shape[:2]
    fits = all(len(values) == rows for values in draw.values())  # if not, torch says so
    if parts is None or batches[0].dtype != torch.uint8 or channels not in (1, 3) or not fits:
        return None
    return partial(_render, batches, places, numbers_of(parts, batches[0], draw, mean, std))


def _render(batches: Sequence[Tensor], places: Sequence[Tensor], numbers: kernels.Numbers) -> None:
    channels, height, width = batches[0].shape[1:]
    planes = np.zeros((2, channels, (height + 2) * width), np.uint8)
    index = np.empty((numbers.kinds.shape[1], height * width), np.int32)
    for images, place in zip(batches, places, strict=True):
        pixels = images.reshape(len(images), channels, height * width).contiguous().numpy()
        kernels.render(pixels, width, numbers, planes, index, *_lines(place))


def _lines(place: Tensor) -> tuple[Array, Array]:
    """Which lines belong to the images of a place, and all lines from its first to its last."""
    steps, count, *image = place.shape
    size = math.prod(image)
    lines = np.arange(steps)[:, None] * (place.stride(0) // size) + np.arange(count)
    return lines.ravel(), place.as_strided((lines.max(initial=-1) + 1, size), (size, 1)).numpy()


def compile() -> None:
    """Compile the loops, or load what an earlier process compiled."""
    image, place = torch.zeros(1, 1, 2, 2, dtype=torch.uint8), torch.zeros(1, 1, 1, 2, 2)
    ready = prepare([image], [place], Identity(), {}, (0.0,), (1.0,))
    assert ready, "the loops know the identity"
    ready()
