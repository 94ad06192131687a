"""Cutout: a square of one colour somewhere on the image."""

from dataclasses import dataclass, replace

import torch
from torch import Generator, Tensor

from interlude.augment.color import luma
from interlude.augment.draw import Draw, fold, uniform


@dataclass(frozen=True)
class Cutout:
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

    def apply(self, images: Tensor, draw: Draw) -> Tensor:
        height, width = images.shape[-2:]
        folded, numbers = fold(images, torch.column_stack((draw["centre"], draw["side"])).double())
        down, across, side = numbers.unbind(1)
        side = (self.smallest + (self.largest - self.smallest) * side) * width
        side = side.trunc() if self.whole_pixels else side
        rows = _painted(down * height, side, height).to(images.device)
        columns = _painted(across * width, side, width).to(images.device)
        box = (rows[:, :, None] & columns[:, None, :])[:, None]
        fill = self._color(images).repeat(1, folded.shape[1] // images.shape[1], 1, 1)
        # Bits select faster than torch.where: the box is 255 inside and 0 outside.
        return (folded & ~box).bitwise_or_(fill & box).view(images.shape)

    def _color(self, images: Tensor) -> Tensor:
        fill = torch.tensor(self.fill, dtype=torch.uint8, device=images.device).view(1, 3, 1, 1)
        return fill if images.shape[1] == 3 else luma(fill).to(torch.uint8)


def _painted(centre: Tensor, side: Tensor, size: int) -> Tensor:
    """255 from the first to the last painted position of an axis, 0 elsewhere: uint8 (N, size)."""
    first = (centre - side / 2).clamp(min=0).trunc()
    last = torch.where(side > 0, (first + side).trunc(), -1.0)
    position = torch.arange(size)
    return ((position >= first[:, None]) & (position <= last[:, None])).to(torch.uint8) * 255
