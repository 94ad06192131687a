"""Cutout: a square of one colour somewhere on the image."""

from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Generator, Tensor

from interlude.augment.color import luma
from interlude.augment.draw import Draw, Numbers, uniform
from interlude.augment.groups import Overwriting, are_large


@dataclass(frozen=True)
class Cutout(Overwriting):
    """Paint a square whose side is uniform between two shares of the image's width.

    It is drawn as Pillow's rectangle, which includes both corners: a side of 16 paints 17 x 17 pixels. One
    that would begin left of the image or above it begins at the edge, in full size; one that would end
    outside is cut.
    """

    smallest: float = 0.5
    largest: float = 0.5
    fill: tuple[int, int, int] = (127, 127, 127)
    whole_pixels: bool = True  # cut the side to whole pixels, as in the released code

    def up_to(self, largest: float) -> "Cutout":
        """The same with another largest side; the smallest keeps its proportion."""
        ratio = self.smallest / self.largest if self.largest else 1.0
        return replace(self, smallest=ratio * largest, largest=largest)

    def draw(self, n: int, generator: Generator) -> Draw:
        return {
            "centre": uniform(n, 2, generator=generator),  # down, across
            "side": uniform(n, generator=generator),
        }

    def overwrite(self, images: Tensor, draw: Draw) -> Tensor:
        height, width = images.shape[-2:]
        corners = self.corners(draw, height, width)
        if are_large(images):
            color = self.color(images)[0].numpy()
            for group, (top, left, bottom, right) in zip(images.numpy(), corners.astype(int), strict=True):
                group[..., top : bottom + 1, left : right + 1] = color
            return images
        top, left, bottom, right = corners.T[..., None]
        rows = torch.from_numpy(_painted(top, bottom, height)).to(images.device)
        columns = torch.from_numpy(_painted(left, right, width)).to(images.device)
        box = (rows[:, :, None] & columns[:, None, :])[:, None, None]
        # Bits select faster than torch.where: the box is 255 inside and 0 outside.
        return images.bitwise_and_(~box).bitwise_or_(self.color(images) & box)

    def corners(self, draw: Draw, height: int, width: int) -> Numbers:
        """First and last painted row and column: top, left, bottom, right for each group, (G, 4)."""
        share, centre = (draw[name].numpy().astype(np.float64) for name in ("side", "centre"))
        side = (self.smallest + (self.largest - self.smallest) * share[:, None]) * width
        side = np.trunc(side) if self.whole_pixels else side
        first = np.trunc((centre * (height, width) - side / 2).clip(min=0))
        return np.hstack((first, np.where(side > 0, np.trunc(first + side), -1.0)))

    def color(self, images: Tensor) -> Tensor:
        """What is painted on such images, uint8 (1, C, 1, 1)."""
        fill = torch.tensor(self.fill, dtype=torch.uint8, device=images.device).view(1, 3, 1, 1)
        return fill if images.shape[-3] == 3 else luma(fill.float()).to(torch.uint8)


def _painted(first: Numbers, last: Numbers, size: int) -> Numbers:
    """255 from the first to the last painted position of an axis, 0 elsewhere: uint8 (N, size)."""
    position = np.arange(size)
    painted: Numbers = ((position >= first) & (position <= last)) * np.uint8(255)
    return painted
