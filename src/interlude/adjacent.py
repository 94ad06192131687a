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
    first, *others = views
    end = first
    for view in others:
        if not _follows(view, end):
            return torch.cat([*views])
        end = view
    rows = sum(len(view) for view in views)
    return first.as_strided((rows, *first.shape[1:]), first.stride()) if others else first


def _follows(view: Tensor, before: Tensor) -> bool:
    """Whether the rows of a tensor lie behind those of another, as if they were the next."""
    return (
        view.shape[1:] == before.shape[1:]
        and view.stride() == before.stride()
        and view.storage_offset() == before.storage_offset() + len(before) * before.stride(0)
        and view.untyped_storage().data_ptr() == before.untyped_storage().data_ptr()
        and view.dtype == before.dtype
        and not (view.requires_grad or before.requires_grad)
    )


def _empty(*shape: int, device: torch.device) -> Tensor:
    if device.type != "cpu":
        return torch.empty(shape, device=device)
    return torch.from_numpy(np.empty(shape, np.float32))  # numpy asks for large pages, cheaper to come by
