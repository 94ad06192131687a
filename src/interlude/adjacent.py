"""Images that lie one after the other in memory, so that nothing is copied where they are joined."""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor


def room(*shape: int, device: torch.device) -> Tensor:
    """Float32 numbers yet to be written, (..., C, H, W) in channels-last order."""
    *count, channels, height, width = shape
    return _empty(*count, height, width, channels, device=device).movedim(-1, -3)


def rooms(steps: int, counts: Sequence[int], image: Sequence[int], device: torch.device) -> Sequence[Tensor]:
    """Such numbers for some sets of images at each of some steps; each (steps, count, C, H, W).

    Those of one step are neighbours.
    """
    return torch.split(room(steps, sum(counts), *image, device=device), list(counts), dim=1)


def joined(views: Sequence[Tensor]) -> Tensor:
    """`torch.cat(views)`, but without a copy where they are neighbours already."""
    first = views[0]
    base, kind, strides, rows = first._base, first.dtype, first.stride(), 0
    place, (_, *shape) = first.storage_offset(), first.shape
    for view in views:
        if (
            base is None  # the tensor that they are views of, which has them in one piece of memory
            or view._base is not base
            or view.dtype is not kind
            or view.stride() != strides
            or view.storage_offset() != place + rows * strides[0]
            or [*view.shape[1:]] != shape
            or view.requires_grad
        ):
            return torch.cat([*views])
        rows += len(view)
    return first.as_strided((rows, *shape), strides)


def _empty(*shape: int, device: torch.device) -> Tensor:
    if device.type != "cpu":
        return torch.empty(shape, device=device)
    return torch.from_numpy(np.empty(shape, np.float32))  # numpy asks for large pages, cheaper to come by
