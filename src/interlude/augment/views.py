"""From bytes to what a network reads."""

from collections.abc import Sequence

import torch
from torch import Tensor


def normalize(
    images: Tensor, mean: Sequence[float], std: Sequence[float], *, channels_last: bool = False
) -> Tensor:
    """`(images / 255 - mean) / std` in float32 for uint8 images (N, C, H, W), mean and std per channel."""
    centre = torch.tensor(mean, dtype=torch.float64).view(1, -1, 1, 1)
    spread = torch.tensor(std, dtype=torch.float64).view(1, -1, 1, 1)
    scale, offset = (1 / (255 * spread)).float(), (-centre / spread).float()
    # Planes are ten times faster to scale than pixels of three channels, so the layout changes at the end.
    planar = images.float().mul_(scale.to(images.device)).add_(offset.to(images.device))
    return planar.contiguous(memory_format=torch.channels_last) if channels_last else planar
