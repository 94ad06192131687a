"""From bytes to what a network reads."""

from collections.abc import Sequence
from functools import lru_cache

import torch
from torch import Tensor

from interlude.adjacent import room

VALUES_AT_ONCE = 2**17  # few enough to stay in a processor's cache from bytes to result


def normalize(
    images: Tensor, mean: Sequence[float], std: Sequence[float], *, channels_last: bool = False
) -> Tensor:
    """`(images / 255 - mean) / std` in float32 for uint8 images (..., C, H, W), mean and std per channel."""
    if channels_last:
        result = room(*images.shape, device=images.device)
        normalize_into(result, images, mean, std)
        return result
    scale, offset = _on(images.device, tuple(mean), tuple(std), 1)
    return images * scale[:, None, None] + offset[:, None, None]


def normalize_into(result: Tensor, images: Tensor, mean: Sequence[float], std: Sequence[float]) -> None:
    """Write `normalize(images, mean, std)` into numbers in channels-last order."""
    on_cpu, values_each = images.device.type == "cpu", images.shape[1:].numel()
    if on_cpu and images.ndim > 4 and values_each > 4 * VALUES_AT_ONCE:  # as of all images of a step
        for target, source in zip(result, images, strict=True):
            normalize_into(target, source, mean, std)
        return
    scale, offset = _on(images.device, tuple(mean), tuple(std), images.shape[-1])
    # lines as if of one channel: torch is slow at a last axis of three
    values = result.movedim(-3, -1).flatten(-2)
    at_once = max(1, VALUES_AT_ONCE // values_each) if on_cpu else len(images)
    with torch.inference_mode():
        pieces = (torch.split(whole, at_once) for whole in (images, result, values))
        for source, target, numbers in zip(*pieces, strict=True):
            for plane, pixels in zip(source.unbind(-3), target.unbind(-3), strict=True):
                pixels.copy_(plane)
            numbers.mul_(scale).add_(offset)


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
