"""From bytes to what a network reads."""

from collections.abc import Sequence

import torch
from torch import Tensor

VALUES_AT_ONCE = 2**17  # few enough to stay in a processor's cache from bytes to result


def normalize(
    images: Tensor, mean: Sequence[float], std: Sequence[float], *, channels_last: bool = False
) -> Tensor:
    """`(images / 255 - mean) / std` in float32 for uint8 images (N, C, H, W), mean and std per channel."""
    centre = torch.tensor(mean, dtype=torch.float64).view(-1, 1, 1)
    spread = torch.tensor(std, dtype=torch.float64).view(-1, 1, 1)
    scale = (1 / (255 * spread)).to(images.device, torch.float32)
    offset = (-centre / spread).to(images.device, torch.float32)
    layout = torch.channels_last if channels_last else torch.contiguous_format
    result = torch.empty(images.shape, device=images.device, memory_format=layout)
    at_once = max(1, VALUES_AT_ONCE // images.shape[1:].numel())
    for source, target in zip(torch.split(images, at_once), torch.split(result, at_once), strict=True):
        # Planes are ten times faster to scale than pixels of three channels, so the layout changes last.
        target.copy_(source.float().mul_(scale).add_(offset))
    return result
