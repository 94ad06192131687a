"""RandAugment: a few operations per image, picked at random from a list, each at its own random strength."""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import groupby, pairwise
from typing import NamedTuple

import torch
from torch import Generator, Tensor

from interlude.augment import color, geometry
from interlude.augment.draw import Draw, uniform

TOP_LEVEL = 10  # a magnitude is `low` at level 0 and `high` at this level


def replace(images: Tensor, results: Tensor) -> Tensor:
    """What to do with a plan that is the result already."""
    return results


def identity(images: Tensor, _: Tensor) -> Tensor:
    """The images as they are."""
    return images


class Operation(NamedTuple):
    """One entry of a list: `plan` says what to do with each image, `carry_out` does it to all at once.

    Neighbours in a list with the same `carry_out` (`geometry.warp`, `color.look_up`, `replace`) share a pass.
    """

    name: str
    plan: Callable[[Tensor, Tensor], Tensor]  # images, magnitudes -> one row of numbers per image
    carry_out: Callable[[Tensor, Tensor], Tensor]  # images, plans -> images
    low: float = 0.0
    high: float = 0.0
    signed: bool = False  # whether the magnitude takes a random sign


GEOMETRY = (
    Operation("Rotate", geometry.rotate, geometry.warp, 0, 30, signed=True),
    Operation("ShearX", geometry.shear_x, geometry.warp, 0, 0.3, signed=True),
    Operation("ShearY", geometry.shear_y, geometry.warp, 0, 0.3, signed=True),
    Operation("TranslateX", geometry.translate_x, geometry.warp, 0, 0.3, signed=True),
    Operation("TranslateY", geometry.translate_y, geometry.warp, 0, 0.3, signed=True),
)
TABLES = (
    Operation("AutoContrast", color.autocontrast, color.look_up),
    Operation("Equalize", color.equalize, color.look_up),
)
VALUES = (
    Operation("Brightness", color.brightness, replace, 0.05, 0.95),
    Operation("Color", color.color, replace, 0.05, 0.95),
    Operation("Contrast", color.contrast, replace, 0.05, 0.95),
    Operation("Identity", identity, replace),
    Operation("Posterize", color.posterize, replace, 4, 8),
    Operation("Sharpness", color.sharpness, replace, 0.05, 0.95),
    Operation("Solarize", color.solarize, replace, 256, 0),
)
OPERATIONS = {operation.name: operation for operation in (*GEOMETRY, *TABLES, *VALUES)}


@dataclass(frozen=True)
class RandAugment:
    """`count` operations one after the other, drawn with replacement, each applied with a probability."""

    operations: tuple[Operation, ...] = tuple(OPERATIONS.values())
    count: int = 2
    probability: float = 0.5
    continuous: bool = False  # levels anywhere on [0, 10) instead of the whole numbers 1..9

    def draw(self, n: int, generator: Generator) -> Draw:
        shape = (n, self.count)
        level = uniform(*shape, generator=generator)
        return {
            "operation": torch.randint(len(self.operations), shape, generator=generator),
            "level": level * TOP_LEVEL if self.continuous else torch.floor(level * (TOP_LEVEL - 1)) + 1,
            "sign": torch.randint(2, shape, generator=generator) * 2 - 1,
            "applied": uniform(*shape, generator=generator) < self.probability,
        }

    def magnitude(self, draw: Draw) -> Tensor:
        """What each level of a draw means for its operation: float64, of the shape of the levels."""
        ranges = torch.tensor([operation[3:] for operation in self.operations], dtype=torch.float64)
        low, high, signed = ranges[draw["operation"]].unbind(-1)
        magnitude = low + draw["level"].double() * (high - low) / TOP_LEVEL
        return torch.where(signed > 0, magnitude * draw["sign"], magnitude)

    def apply(self, images: Tensor, draw: Draw) -> Tensor:
        chosen = torch.where(draw["applied"], draw["operation"], len(self.operations))
        magnitude = self.magnitude(draw)
        place = torch.arange(len(images))
        for slot in range(self.count):
            # Sorted by operation, the images of one operation are a slice, and each runs once per slot.
            order = chosen[:, slot].argsort(stable=True)
            chosen, magnitude, place = chosen[order], magnitude[order], place[order]
            images = images.index_select(0, order.to(images.device))
            self._run(images, chosen[:, slot], magnitude[:, slot])
        return images.index_select(0, place.argsort().to(images.device))

    def _run(self, images: Tensor, chosen: Tensor, magnitude: Tensor) -> None:
        """Transform, in place, images that are sorted by the operation chosen for them."""
        ends = torch.bincount(chosen, minlength=len(self.operations) + 1).cumsum(0).tolist()
        slices = [slice(start, end) for start, end in pairwise([0, *ends])]
        pairs = zip(self.operations, slices, strict=False)  # the last slice is of images left alone
        busy = [(operation, rows) for operation, rows in pairs if rows.start < rows.stop]
        for carry_out, members in groupby(busy, key=lambda member: member[0].carry_out):
            group = list(members)
            rows = slice(group[0][1].start, group[-1][1].stop)
            plans = [operation.plan(images[own], magnitude[own]) for operation, own in group]
            images[rows] = carry_out(images[rows], torch.cat(plans))
