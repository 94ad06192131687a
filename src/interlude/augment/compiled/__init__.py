"""Augmentation in compiled loops, same bits as with torch: for a CPU with numba (`interlude-ssl[fast]`)."""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from interlude.augment.compiled import kernels
from interlude.augment.compiled.numbers import numbers_of, take_apart
from interlude.augment.draw import Augmentation, Draw, Identity


def render(
    images: Tensor, augmentation: Augmentation, draw: Draw, mean: Sequence[float], std: Sequence[float]
) -> Tensor | None:
    """What a network reads, float32 channels-last (N, C, H, W); None where the loops are not made for it."""
    parts = take_apart(augmentation)
    count, channels, height, width = images.shape
    fits = all(len(values) == count for values in draw.values())  # if not, torch says so
    if parts is None or images.dtype != torch.uint8 or channels not in (1, 3) or not fits:
        return None
    numbers = numbers_of(parts, images, draw, mean, std)
    planes = np.zeros((2, channels, (height + 2) * width), np.uint8)
    index = np.empty((numbers.kinds.shape[1], height * width), np.int32)
    views = np.empty((count, height * width * channels), np.float32)
    pixels = images.reshape(count, channels, height * width).contiguous().numpy()
    kernels.render(pixels, width, numbers, planes, index, views)
    return torch.from_numpy(views).view(count, height, width, channels).permute(0, 3, 1, 2)


def compile() -> None:
    """Compile the loops, or load what an earlier process compiled."""
    render(torch.zeros(1, 1, 2, 2, dtype=torch.uint8), Identity(), {}, (0.0,), (1.0,))
