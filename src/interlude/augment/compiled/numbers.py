"""What the compiled loops need to know of an augmentation and its draw, worked out by its own formulas."""

from collections.abc import Sequence
from functools import cache, lru_cache
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from interlude.augment import color, geometry
from interlude.augment.compiled import kernels
from interlude.augment.cutout import Cutout
from interlude.augment.draw import Augmentation, Draw
from interlude.augment.geometry import FlipCrop
from interlude.augment.groups import Chain, Identity
from interlude.augment.randaugment import TOP_LEVEL, Operation, RandAugment, identity, replace
from interlude.augment.views import scaling

Array = NDArray[Any]

WARPS = (
    geometry.rotate,
    geometry.shear_x,
    geometry.shear_y,
    geometry.translate_x,
    geometry.translate_y,
    geometry.translate_x_whole,
    geometry.translate_y_whole,
)
KINDS: dict[tuple[Any, Any], int] = {  # of an operation's plan and how it is carried out
    **{(plan, geometry.warp): kernels.WARP for plan in WARPS},
    (color.autocontrast, color.look_up): kernels.AUTOCONTRAST,
    (color.equalize, color.look_up): kernels.EQUALIZE,
    (identity, replace): kernels.LEAVE,
    (color.brightness, replace): kernels.BRIGHTNESS,
    (color.contrast, replace): kernels.CONTRAST,
    (color.color, replace): kernels.COLOR,
    (color.posterize, replace): kernels.POSTERIZE,
    (color.sharpness, replace): kernels.SHARPNESS,
    (color.solarize, replace): kernels.SOLARIZE,
}


class Parts(NamedTuple):
    """An augmentation that the loops know: some of these, in this order."""

    crop: FlipCrop | None = None
    operations: RandAugment | None = None
    cutout: Cutout | None = None


def take_apart(augmentation: Augmentation) -> Parts | None:
    """The parts of an augmentation, or None if it is not one that the loops know."""
    chain = augmentation.parts if type(augmentation) is Chain else (augmentation,)
    found = [part for part in chain if type(part) is not Identity]
    by_type: dict[type, Any] = {type(part): part for part in found}
    parts = Parts(by_type.get(FlipCrop), by_type.get(RandAugment), by_type.get(Cutout))
    known = (
        [part for part in parts if part is not None] == found
        and (parts.crop is None or parts.crop.padding < 0.5)
        and (parts.operations is None or None not in map(kind_of, parts.operations.operations))
    )
    return parts if known else None


def kind_of(operation: Operation) -> int | None:
    """What the loops call an operation."""
    return KINDS.get((operation.plan, operation.carry_out))


def numbers_of(
    parts: Parts, images: Tensor, draw: Draw, mean: Sequence[float], std: Sequence[float]
) -> kernels.Numbers:
    """What becomes of each image under a draw."""
    n, channels, height, width = images.shape
    crop, operations, cutout = parts
    return kernels.Numbers(
        _crops(crop, draw, height, width) if crop else np.zeros((n, 3), np.int64),
        crop is not None and crop.reflect,
        *(_operations(operations, images, draw) if operations else _no_operations(n)),
        _boxes(cutout, draw, height, width) if cutout else np.zeros((n, 4), np.int64),
        _fill(cutout, channels) if cutout else np.zeros(channels, np.uint8),
        *_scaling(tuple(mean), tuple(std), channels),
    )


@cache
def _scaling(mean: tuple[float, ...], std: tuple[float, ...], channels: int) -> tuple[Array, ...]:
    return tuple(values.expand(channels).contiguous().numpy() for values in scaling(mean, std))


@lru_cache(maxsize=32)
def _fill(cutout: Cutout, channels: int) -> Array:
    fill: Array = cutout.color(torch.empty(0, channels, 1, 1)).flatten().numpy()
    return fill


def _crops(crop: FlipCrop, draw: Draw, height: int, width: int) -> Array:
    return np.ascontiguousarray(crop.cuts(draw, height, width))


def _operations(augment: RandAugment, images: Tensor, draw: Draw) -> tuple[Array, Array, Array]:
    """Kinds, magnitudes and maps."""
    operation, level, sign, applied = (
        draw[name].numpy() for name in ("operation", "level", "sign", "applied")
    )
    whole = level.astype(np.int64)
    if (whole == level).all() and whole.min(initial=0) >= 0 and whole.max(initial=0) <= TOP_LEVEL:
        place = operation, whole, np.maximum(sign, 0)
        kinds, magnitudes, maps = (numbers[place] for numbers in _catalogue(augment, *images.shape[-2:]))
    else:
        kinds, magnitudes, maps = _worked_out(augment, images, draw)
    return np.where(applied, kinds, kernels.LEAVE), magnitudes, maps


@lru_cache(maxsize=32)
def _catalogue(augment: RandAugment, height: int, width: int) -> tuple[Array, Array, Array]:
    """The numbers of each operation at each whole level with either sign, on images of one size."""
    axes = (torch.arange(size) for size in (len(augment.operations), TOP_LEVEL + 1, 2))
    operation, level, sign = torch.meshgrid(*axes, indexing="ij")
    draw = {"operation": operation, "level": level.float(), "sign": 2 * sign - 1}
    return _worked_out(augment, torch.empty(0, 1, height, width), draw)


def _worked_out(augment: RandAugment, images: Tensor, draw: Draw) -> tuple[Array, Array, Array]:
    """The numbers of operations as drawn, by their own formulas."""
    chosen, magnitudes = draw["operation"].numpy(), np.ascontiguousarray(augment.magnitude(draw))
    kinds = np.array([*map(kind_of, augment.operations)], np.int64)
    maps = np.zeros((*chosen.shape, 6), np.int32)
    for number in np.flatnonzero(kinds == kernels.WARP):
        own = chosen == number
        exact = augment.operations[number].plan(images, magnitudes[own])
        maps[own] = geometry.fixed_point(exact).reshape(-1, 6)
    return kinds[chosen], magnitudes, maps


def _no_operations(n: int) -> tuple[Array, Array, Array]:
    return np.zeros((n, 0), np.int64), np.zeros((n, 0)), np.zeros((n, 0, 6), np.int32)


def _boxes(cutout: Cutout, draw: Draw, height: int, width: int) -> Array:
    corners = cutout.corners(draw, height, width).astype(np.int64, order="C")
    boxes: Array = np.minimum(corners + np.array((0, 0, 1, 1)), np.array((height, width, height, width)))
    return boxes
