"""Draws (the random numbers of an augmentation, one row per image), and what every augmentation offers.

An augmentation makes all its random numbers first and then transforms a batch without any chance, so that
sharing one realisation inside a group is nothing but indexing: `apply(images, take(draw, group_of_row))`.
"""

from math import gcd
from typing import Any, Protocol, runtime_checkable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Generator, Tensor

Draw = dict[str, Tensor]
Numbers = NDArray[Any]  # what follows from a draw, a row per image: numpy is faster than torch at a few rows


@runtime_checkable
class Augmentation(Protocol):
    """Anything that can draw its random numbers and then apply them."""

    def draw(self, n: int, generator: Generator) -> Draw:
        """Small CPU tensors with `n` rows each, one realisation per row; they fit images of any size."""
        ...

    def apply(self, images: Tensor, draw: Draw) -> Tensor:
        """New uint8 images (N, C, H, W): row i of the draw on image i, the same result every time."""
        ...


@runtime_checkable
class Overwriting(Augmentation, Protocol):
    """An augmentation that can also work in the memory of the images it is given."""

    def overwrite(self, images: Tensor, draw: Draw) -> Tensor:
        """The same views as from `apply`; the images may be lost."""
        ...


def take(draw: Draw, rows: Tensor) -> Draw:
    """The given rows of a draw; a row named twice is one realisation shared by two images."""
    return {name: values.index_select(0, rows) for name, values in draw.items()}


def fold(images: Tensor, numbers: Numbers) -> tuple[Tensor, Numbers]:
    """Neighbours with the same numbers as one image of more channels, and the numbers without repeats.

    What moves or hides pixels is thus worked out once for a whole group that shares a realisation. The runs
    must be of equal length to be joined; otherwise both come back as they are.
    """
    differs = (numbers[1:] != numbers[:-1]).any(axis=tuple(range(1, numbers.ndim)))
    changes = np.flatnonzero(differs) + 1
    run = gcd(len(numbers), *changes.tolist()) or 1
    return images.reshape(-1, run * images.shape[1], *images.shape[2:]), numbers[::run]


def uniform(*shape: int, generator: Generator) -> Tensor:
    """Numbers on [0, 1) with 24 bits, so that their float64 products with image sizes are exact."""
    return torch.rand(*shape, generator=generator)


class Identity:
    """The image as it is."""

    def draw(self, n: int, generator: Generator) -> Draw:
        return {}

    def apply(self, images: Tensor, draw: Draw) -> Tensor:
        return images.clone()


class Chain:
    """Augmentations one after the other, under one draw."""

    def __init__(self, *parts: Augmentation) -> None:
        self.parts = parts

    def draw(self, n: int, generator: Generator) -> Draw:
        draw: Draw = {}
        for part in self.parts:
            numbers = part.draw(n, generator)
            assert not draw.keys() & numbers.keys(), (
                f"two parts of a chain draw {draw.keys() & numbers.keys()}"
            )
            draw |= numbers
        return draw

    def apply(self, images: Tensor, draw: Draw) -> Tensor:
        first, *others = self.parts
        views = first.apply(images, draw)
        for part in others:
            views = part.overwrite(views, draw) if isinstance(part, Overwriting) else part.apply(views, draw)
        return views
