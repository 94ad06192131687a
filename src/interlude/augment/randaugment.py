"""RandAugment: a few operations per image, picked at random from a list, each at its own random strength."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Generator, Tensor

from interlude.augment import color, geometry
from interlude.augment.draw import Draw, Numbers, uniform
from interlude.augment.groups import Overwriting

TOP_LEVEL = 10  # a magnitude is `low` at level 0 and `high` at this level


def replace(images: Tensor, results: Tensor) -> Tensor:
    """What to do with a plan that is the result already."""
    return results


def identity(images: Tensor, _: Numbers) -> Tensor:
    """The images as they are."""
    return images


class Operation(NamedTuple):
    """One entry of a list: `plan` says what to do with each group, `carry_out` does it to all at once.

    Neighbours in a list with the same `carry_out` (`geometry.warp`, `color.look_up`, `replace`) share a pass.
    """

    name: str
    plan: Callable[[Tensor, Numbers], Any]  # images, magnitudes -> an array or tensor, one row per group
    carry_out: Callable[[Tensor, Any], Tensor]  # images, plans -> images
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
class RandAugment(Overwriting):
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

    def magnitude(self, draw: Draw) -> Numbers:
        """What each level of a draw means for its operation: float64, of the shape of the levels."""
        operation, level, sign = (draw[name].numpy() for name in ("operation", "level", "sign"))
        low, high, signed = np.moveaxis(self._ranges[operation], -1, 0)
        magnitude: Numbers = low + level.astype(np.float64) * (high - low) / TOP_LEVEL
        magnitude[signed > 0] *= sign[signed > 0]
        return magnitude

    @cached_property
    def _ranges(self) -> Numbers:
        """Low, high and whether signed, for each operation."""
        return np.array([operation[3:] for operation in self.operations], np.float64)

    def overwrite(self, images: Tensor, draw: Draw) -> Tensor:
        images = images.contiguous()
        chosen, magnitude = self._to_do(draw)
        for slot in range(self.count):
            self._run(images, chosen[:, slot], magnitude[:, slot])
        return images

    def _to_do(self, draw: Draw) -> tuple[Numbers, Numbers]:
        """Numbers of operations and their magnitudes; what changes images comes first, in its order."""
        operation, magnitude = draw["operation"].numpy(), self.magnitude(draw)
        idle = ~draw["applied"].numpy() | self._idle[operation]
        order = idle.argsort(axis=1, kind="stable")
        chosen = np.where(idle, len(self.operations), operation)
        return np.take_along_axis(chosen, order, 1), np.take_along_axis(magnitude, order, 1)

    @cached_property
    def _idle(self) -> Numbers:
        """Whether an operation leaves all images as they are."""
        return np.array([operation.plan is identity for operation in self.operations])

    def _run(self, images: Tensor, chosen: Numbers, magnitude: Numbers) -> None:
        """Let each operation change, in place, all the groups it was chosen for."""
        order = chosen.argsort()
        ends = np.bincount(chosen, minlength=len(self.operations)).cumsum()
        # Behind those of the last operation are groups to be left alone.
        shares = zip(self.operations, np.split(order, ends), strict=False)
        busy = [(operation, rows) for operation, rows in shares if len(rows)]
        for carry_out, group in groupby(busy, key=lambda share: share[0].carry_out):
            operations, rows = zip(*group, strict=True)
            own = torch.from_numpy(np.concatenate(rows)).to(images.device)
            part = images.index_select(0, own)
            members = zip(operations, part.split([*map(len, rows)]), rows, strict=True)
            plans = [operation.plan(piece, magnitude[share]) for operation, piece, share in members]
            _put(images, own, carry_out(part, _joined(plans)))


def _joined(plans: list[Any]) -> Any:
    return np.concatenate(plans) if isinstance(plans[0], np.ndarray) else torch.cat(plans)


def _put(images: Tensor, rows: Tensor, views: Tensor) -> None:
    """`images[rows] = views`, for speed in words of sixteen bytes where groups consist of those."""
    word = torch.uint8 if images[0].numel() % 16 else torch.complex128
    images.flatten(1).view(word).index_copy_(0, rows, views.flatten(1).view(word))
