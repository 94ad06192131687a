"""Arrays of images as people have them, brought into the one form that is used here."""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from interlude.errors import UserError

CHANNELS = (1, 3)


def to_pixels(images: NDArray[Any] | Tensor, *, name: str = "images") -> Tensor:
    """uint8 (N, C, H, W), a view of uint8 images (N, H, W), (N, H, W, C) or (N, C, H, W), C being 1 or 3.

    Where both ends could be the channels, the last axis is taken for them.
    """
    array = images.cpu().numpy() if isinstance(images, Tensor) else images
    if array.dtype != np.uint8:
        has_nan = np.issubdtype(array.dtype, np.floating) and np.isnan(array).any()
        found = f"{array.dtype} with NaN" if has_nan else str(array.dtype)
        raise UserError(f"{name} must be uint8 with values 0 to 255, got {found}; convert it first")
    if array.size == 0:
        raise UserError(f"{name} has no images (shape {array.shape})")
    if not array.flags.writeable or min(array.strides) < 0:  # torch takes neither as it is
        array = array.copy()
    if array.ndim == 3:
        return torch.from_numpy(array)[:, None]
    if array.ndim == 4 and array.shape[-1] in CHANNELS:
        return torch.from_numpy(array).permute(0, 3, 1, 2)
    if array.ndim == 4 and array.shape[1] in CHANNELS:
        return torch.from_numpy(array)
    raise UserError(f"{name} must be (N, H, W), (N, H, W, 1) or (N, H, W, 3), got shape {array.shape}")
