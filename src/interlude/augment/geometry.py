"""Where each pixel comes from: flip, crop, rotate, shear and translate, each pixel as Pillow would place it.

The last three say for every image which affine map `warp` shall follow. Magnitudes are float64 arrays with
one value per image; images are uint8 (N, C, H, W) on any device.
"""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Generator, Tensor
from torch.nn import functional

from interlude.augment.draw import Draw, Numbers, fold, uniform

FRACTION_BITS = 16  # of the fixed-point coordinates in Pillow's nearest-neighbour transform
IDENTITY = np.eye(2, 3)
ENTRIES = np.eye(6).reshape(2, 3, 2, 3)  # for each entry of a map, a one in its place
(_, SHEAR_X, MOVE_X), (SHEAR_Y, _, MOVE_Y) = ENTRIES
ON_FRAMED = np.array((0, 0, 1 << FRACTION_BITS), np.int32).reshape(3, 1, 1, 1, 1)  # moves a map by a pixel
INDICES_AT_ONCE = 2**20  # positions worked on together; larger tables of them cost page faults


def warp(images: Tensor, maps: Numbers) -> Tensor:
    """Pixel (x, y) of image i becomes its pixel `maps[i] @ (x, y, 1)`, black if that lies outside.

    The maps (N, 2, 3) are taken at the centres of pixels and, as in Pillow, with 16 bits after the point.
    """
    folded, maps = fold(images, maps)
    height, width = images.shape[-2:]
    fixed = fixed_point(maps).transpose(2, 1, 0)[..., None, None] + ON_FRAMED
    along_x, along_y, start = torch.from_numpy(fixed).to(images.device)
    across, down = (torch.arange(size, dtype=torch.int32, device=images.device) for size in (width, height))
    position = along_x * across + (along_y * down[:, None] + start)
    columns, rows = position.bitwise_right_shift_(FRACTION_BITS)
    views = _read(_framed(folded), rows.clamp_(0, height + 1), columns.clamp_(0, width + 1))
    return views.view(images.shape)


def fixed_point(maps: Numbers) -> Numbers:
    """Maps (N, 2, 3) at the centres of pixels, as whole numbers of 1/65536."""
    along_x, along_y, start = np.moveaxis(maps, 2, 0)
    exact = np.stack((along_x, along_y, start + along_x * 0.5 + along_y * 0.5), axis=2)
    fixed: Numbers = np.floor(exact * 2**FRACTION_BITS + 0.5).astype(np.int32)
    return fixed


def rotate(images: Tensor, degrees: Numbers) -> Numbers:
    """Turn counter-clockwise about the centre; not for right angles, which Pillow transposes instead."""
    height, width = images.shape[-2:]
    angle = np.deg2rad(degrees)
    cos, sin = np.cos(angle), np.sin(angle)
    x, y = width / 2, height / 2
    numbers = (cos, -sin, x - (cos * x - sin * y), sin, cos, y - (sin * x + cos * y))
    return np.stack(numbers, axis=1).reshape(-1, 2, 3)


def shear_x(images: Tensor, share: Numbers) -> Numbers:
    """Shift every row by `share` times its distance from the top."""
    return _map(share, SHEAR_X)


def shear_y(images: Tensor, share: Numbers) -> Numbers:
    """Shift every column by `share` times its distance from the left."""
    return _map(share, SHEAR_Y)


def translate_x(images: Tensor, share: Numbers) -> Numbers:
    """Move to the left by a share of the width, rounded to the nearest pixel."""
    return _map(np.floor(share * images.shape[-1] + 0.5), MOVE_X)


def translate_y(images: Tensor, share: Numbers) -> Numbers:
    """Move up by a share of the height, rounded to the nearest pixel."""
    return _map(np.floor(share * images.shape[-2] + 0.5), MOVE_Y)


def translate_x_whole(images: Tensor, share: Numbers) -> Numbers:
    """Move to the left by a share of the width, cut to whole pixels as in the released code."""
    return _map(np.trunc(share * images.shape[-1]), MOVE_X)


def translate_y_whole(images: Tensor, share: Numbers) -> Numbers:
    """Move up by a share of the height, cut to whole pixels as in the released code."""
    return _map(np.trunc(share * images.shape[-2]), MOVE_Y)


@dataclass(frozen=True)
class FlipCrop:
    """Mirror left and right, then cut the image's size out of a padded version of it."""

    flip: float = 0.5  # probability
    padding: float = 0.125  # on each side, as a share of the image's extent in that direction
    reflect: bool = True  # pad with the mirrored image; otherwise with black

    def draw(self, n: int, generator: Generator) -> Draw:
        return {
            "flip": uniform(n, generator=generator) < self.flip,
            "crop": uniform(n, 2, generator=generator),  # where the cut begins: down, across
        }

    def apply(self, images: Tensor, draw: Draw) -> Tensor:
        height, width = images.shape[-2:]
        folded, cuts = fold(images, self.cuts(draw, height, width))
        top, left, flip = cuts.T[..., None]
        rows, columns = np.arange(height) + top, np.arange(width) + left
        if self.reflect:
            rows, columns = _reflect(rows, height), _reflect(columns, width)
        columns = np.where(flip, width - 1 - columns, columns)
        if not self.reflect:
            folded = _framed(folded)
            rows, columns = (rows + 1).clip(0, height + 1), (columns + 1).clip(0, width + 1)
        down, across = (torch.from_numpy(places).to(images.device) for places in (rows, columns))
        return _read(folded, down[:, :, None], across[:, None, :]).view(images.shape)

    def cuts(self, draw: Draw, height: int, width: int) -> Numbers:
        """The first pixel of each cut, down and across, from -pad to +pad; whether it is mirrored: (N, 3)."""
        pad = np.array((int(height * self.padding), int(width * self.padding)))
        start = np.floor(draw["crop"].numpy().astype(np.float64) * (2 * pad + 1)).astype(np.int64) - pad
        return np.column_stack((start, draw["flip"].numpy()))


def _reflect(position: Numbers, size: int) -> Numbers:
    """Positions outside 0..size-1 mirrored at the first and the last pixel."""
    mirrored: Numbers = (size - 1) - abs(size - 1 - abs(position))
    return mirrored


def _read(images: Tensor, rows: Tensor, columns: Tensor) -> Tensor:
    """The pixels at (rows, columns), which broadcast to (N, H, W) and lie inside the image."""
    channels, size = images.shape[1], (rows.shape[1], columns.shape[2])
    pixels = images.new_empty(len(images), channels, size[0] * size[1])
    at_once = max(1, INDICES_AT_ONCE // pixels.shape[2])
    parts = (torch.split(tensor, at_once) for tensor in (images.flatten(2), rows, columns, pixels))
    for source, down, across, target in zip(*parts, strict=True):
        index = torch.add(across, down, alpha=images.shape[3]).long().flatten(1)
        torch.gather(source, 2, index[:, None].expand(-1, channels, -1), out=target)
    return pixels.view(len(images), channels, *size)


def _framed(images: Tensor) -> Tensor:
    """Images in a black frame of one pixel, which answers every position outside: cheaper than a mask."""
    return functional.pad(images, (1, 1, 1, 1))


def _map(value: Numbers, entry: Numbers) -> Numbers:
    """Maps (N, 2, 3) that move nothing, except for the value of one entry."""
    maps: Numbers = IDENTITY + value.reshape(-1, 1, 1) * entry
    return maps
