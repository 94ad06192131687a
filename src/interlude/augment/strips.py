"""Lines of images laid out so that any cut of one, plain or mirrored, is one stretch of memory."""

import numpy as np
import torch
from torch import Tensor

from interlude.augment.draw import Numbers

Margin = tuple[int, int]  # pixels above and below, left and right


class Strips:
    """A line `abcd` kept as `abcdcbabcd`: plain, mirrored, plain, each beginning with the last one's end.

    What a cut shows beyond the end of a line, reflected, lies beside that end, so that a cut is a copy of
    bytes instead of a search for each pixel. With a `margin` it is kept as `..abcd..dcba..`, in black.
    """

    def __init__(self, images: Tensor, margin: Margin | None = None) -> None:
        self.shape = images.shape
        height, width = self.shape[-2:]
        planes = images.reshape(-1, height, width)
        mirrored = planes.flip(2)
        down, across = margin or (0, 0)
        if margin is None:
            self.plain, self.mirrored, self.plain_again = 0, width - 1, 2 * width - 2
            self.lines = planes.new_empty(len(planes), height, 3 * width - 2)
        else:
            self.plain = self.plain_again = across
            self.mirrored = 2 * across + width
            self.lines = planes.new_zeros(len(planes), height + 2 * down, 2 * width + 3 * across)
        for start, source in {self.plain: planes, self.mirrored: mirrored, self.plain_again: planes}.items():
            self.lines[:, down : down + height, start : start + width] = source

    def cut(self, rows: Numbers, first: Numbers, mirrored: Numbers) -> Tensor:
        """For each group which of its lines (G, H), from which pixel on (G,), and whether mirrored (G,)."""
        if not len(rows):
            return self.lines.new_empty(self.shape)
        planes, height, length = self.lines.shape
        start = np.where(mirrored, self.mirrored, np.where(first < 0, self.plain_again, self.plain)) + first
        within = torch.from_numpy(rows * length + start[:, None]).to(self.lines.device)
        origin = torch.arange(0, planes * height * length, height * length, device=self.lines.device)
        index = origin.view(len(rows), -1, 1) + within[:, None]
        return self._stretches().index_select(0, index.flatten()).view(self.shape)

    def _stretches(self) -> Tensor:
        """As many pixels as a line has, from each pixel on: they overlap, and take no memory."""
        width = self.shape[-1]
        return self.lines.as_strided((self.lines.numel() - width + 1, width), (1, 1))
