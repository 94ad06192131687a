"""Augmentation in compiled loops, same bits as with torch: for a CPU with numba (`interlude-ssl[fast]`)."""

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
import torch
from torch import Tensor

from interlude.augment.compiled import kernels
from interlude.augment.compiled.numbers import numbers_of, take_apart
from interlude.augment.draw import Augmentation, Draw
from interlude.augment.groups import Identity


def prepare(
    batches: Sequence[Tensor],
    augmentation: Augmentation,
    draw: Draw,
    mean: Sequence[float],
    std: Sequence[float],
) -> Callable[[], list[Tensor]] | None:
    """What gives the views of each batch, float32 channels-last (N, C, H, W); None if the loops cannot.

    The first batch has one image for each row of the draw, any other as many neighbours for each as it has.
    """
    parts = take_apart(augmentation)
    rows, channels = batches[0].shape[:2]
    fits = all(len(values) == rows for values in draw.values())  # if not, torch says so
    if parts is None or batches[0].dtype != torch.uint8 or channels not in (1, 3) or not fits:
        return None
    return partial(_render, batches, numbers_of(parts, batches[0], draw, mean, std))


def _render(batches: Sequence[Tensor], numbers: kernels.Numbers) -> list[Tensor]:
    rows, channels, height, width = batches[0].shape
    planes = np.zeros((2, channels, (height + 2) * width), np.uint8)
    index = np.empty((numbers.kinds.shape[1], height * width), np.int32)
    results = []
    for images in batches:
        pixels = images.reshape(len(images), channels, height * width).contiguous().numpy()
        views = np.empty((len(images), height * width * channels), np.float32)
        kernels.render(pixels, len(images) // max(1, rows), width, numbers, planes, index, views)
        results.append(torch.from_numpy(views).view(-1, height, width, channels).permute(0, 3, 1, 2))
    return results


def compile() -> None:
    """Compile the loops, or load what an earlier process compiled."""
    ready = prepare([torch.zeros(1, 1, 2, 2, dtype=torch.uint8)], Identity(), {}, (0.0,), (1.0,))
    assert ready, "the loops know the identity"
    ready()
