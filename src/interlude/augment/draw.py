"""Draws (the random numbers of an augmentation, one row per image), and what every augmentation offers.

An augmentation makes all its random numbers first and then transforms a batch without any chance, so that
sharing one realisation inside a group is nothing but indexing: `apply(images, take(draw, group_of_row))`.
Those of this package can be told of groups and then do for a group at once what they would do for each image.
"""

from typing import Any, Protocol, runtime_checkable

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


def take(draw: Draw, rows: Tensor) -> Draw:
    """The given rows of a draw; a row named twice is one realisation shared by two images."""
    return {name: values.index_select(0, rows) for name, values in draw.items()}


def uniform(*shape: int, generator: Generator) -> Tensor:
    """Numbers on [0, 1) with 24 bits, so that their float64 products with image sizes are exact."""
    return torch.rand(*shape, generator=generator)
