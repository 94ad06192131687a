"""From bytes to what a network reads."""

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
import torch
from torch import Tensor

VALUES_AT_ONCE = 2**17  # few enough to stay in a processor's cache from bytes to result


def normalize(
    images: Tensor, mean: Sequence[float], std: Sequence[float], *, channels_last: bool = False
) -> Tensor:
    """`(images / 255 - mean) / std` in float32 for uint8 images (..., C, H, W), mean and std per channel."""
    *count, channels, height, width = images.shape
    scale, offset = _on(images.device, tuple(mean), tuple(std), width if channels_last else 1)
    if channels_last:
        values = _empty(*count, height, width, channels, device=images.device)
        result = values.movedim(-1, -3)
        values = values.flatten(-2)  # lines as if of one channel: torch is slow at a last axis of three
    else:
        result = values = _empty(*images.shape, device=images.device)
        scale, offset = scale[:, None, None], offset[:, None, None]
    on_cpu = images.device.type == "cpu"
    at_once = max(1, VALUES_AT_ONCE // images.shape[1:].numel()) if on_cpu else len(images)
    with torch.inference_mode():
        pieces = (torch.split(whole, at_once) for whole in (images, result, values))
        for source, target, numbers in zip(*pieces, strict=True):
            for plane, pixels in zip(source.unbind(-3), target.unbind(-3), strict=True):
                pixels.copy_(plane)
            numbers.mul_(scale).add_(offset)
    return result


def _empty(*shape: int, device: torch.device) -> Tensor:
    """Float32 numbers yet to be written."""
    if device.type != "cpu":
        return torch.empty(shape, device=device)
    return torch.from_numpy(np.empty(shape, np.float32))  # numpy asks for large pages, cheaper to come by


@lru_cache(maxsize=16)
def _on(
    device: torch.device, mean: tuple[float, ...], std: tuple[float, ...], pixels: int
) -> tuple[Tensor, Tensor]:
    """`scaling` on a device, for as many neighbouring pixels."""
    scale, offset = scaling(mean, std)
    return scale.repeat(pixels).to(device), offset.repeat(pixels).to(device)


def scaling(mean: Sequence[float], std: Sequence[float]) -> tuple[Tensor, Tensor]:
    """What `normalize` multiplies bytes by and then adds, float32, a number per channel each."""
    centre, spread = torch.tensor(mean, dtype=torch.float64), torch.tensor(std, dtype=torch.float64)
    return (1 / (255 * spread)).float(), (-centre / spread).float()
