"""Where each pixel comes from: flip, crop, rotate, shear and translate, each pixel as Pillow would place it.

The last three say for every group which affine map `warp` shall follow. Magnitudes are float64 arrays with
one value per group; images are uint8 (..., C, H, W) on any device, groups along the first axis.
"""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Generator, Tensor

from interlude.augment.draw import Draw, Numbers, uniform
from interlude.augment.groups import Groups, OfGroups, are_large
from interlude.augment.strips import Margin

FRACTION_BITS = 16  # of the fixed-point coordinates in Pillow's nearest-neighbour transform
IDENTITY = np.eye(2, 3)
ENTRIES = np.eye(6).reshape(2, 3, 2, 3)  # for each entry of a map, a one in its place
(_, SHEAR_X, MOVE_X), (SHEAR_Y, _, MOVE_Y) = ENTRIES
INDICES_AT_ONCE = 2**20  # positions worked on together; larger tables of them cost page faults


def warp(images: Tensor, maps: Numbers) -> Tensor:
    """Pixel (x, y) in group i becomes the image's `maps[i] @ (x, y, 1)`, black if that lies outside.

    The maps (G, 2, 3) are taken at the centres of pixels and, as in Pillow, with 16 bits after the point.
    """
    height, width = images.shape[-2:]
    fixed = torch.from_numpy(fixed_point(maps).transpose(2, 1, 0)[..., None, None].copy()).to(images.device)
    along_x, along_y, start = fixed
    across, down = (torch.arange(size, dtype=torch.int32, device=images.device) for size in (width, height))
    position = along_x * across + (along_y * down[:, None] + start)
    columns, rows = position.bitwise_right_shift_(FRACTION_BITS)
    views = _read(images.flatten(1, -3), rows.clamp(0, height - 1), columns.clamp(0, width - 1))
    return views.bitwise_and_(_inside(rows, height) & _inside(columns, width)).view(images.shape)


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
class FlipCrop(OfGroups):
    """Mirror left and right, then cut the image's size out of a padded version of it."""

    flip: float = 0.5  # probability
    padding: float = 0.125  # on each side, as a share of the image's extent in that direction
    reflect: bool = True  # pad with the mirrored image; otherwise with black

    def draw(self, n: int, generator: Generator) -> Draw:
        return {
            "flip": uniform(n, generator=generator) < self.flip,
            "crop": uniform(n, 2, generator=generator),  # where the cut begins: down, across
        }

    def views(self, groups: Groups, draw: Draw) -> Tensor:
        height, width = groups.images.shape[-2:]
        top, left, flip = self.cuts(draw, height, width).T
        if are_large(groups.images) and self.padding < 0.5:  # else mirrored pixels may lie outside of the cut
            return self._one_by_one(groups, top.tolist(), left.tolist(), flip.tolist())
        rows = np.arange(height) + top[:, None]
        if self.reflect:
            return groups.strips(None).cut(_reflect(rows, height), left, flip)
        margin = self.pad(height, width)
        return groups.strips(margin).cut(rows + margin[0], left, flip)

    def _one_by_one(self, groups: Groups, top: list[int], left: list[int], flip: list[int]) -> Tensor:
        """The same for large groups."""
        sources = groups.images.numpy(), groups.mirrored.numpy()
        views = np.empty_like(sources[0])
        for number, (y, x, mirrored) in enumerate(zip(top, left, flip, strict=True)):
            source, target = sources[mirrored][number], views[number]
            inside = _stretch(y, target.shape[-2])
            target[..., inside, _stretch(x, target.shape[-1])] = source[
                ..., _stretch(-y, target.shape[-2]), _stretch(-x, target.shape[-1])
            ]
            self._fill(target[..., inside, :].swapaxes(-1, -2), x)
            self._fill(target, y)
        return torch.from_numpy(views)

    def _fill(self, lines: Numbers, start: int) -> None:
        """Of lines (..., L, W) that were cut from `start` on, those that lie outside the image."""
        outside, last = abs(start), lines.shape[-2] - 1
        if start < 0:
            within = lines[..., outside + 1 : 2 * outside + 1, :]
            lines[..., :outside, :] = within[..., ::-1, :] if self.reflect else 0
        elif start > 0:
            within = lines[..., last - 2 * outside : last - outside, :]
            lines[..., last + 1 - outside :, :] = within[..., ::-1, :] if self.reflect else 0

    def pad(self, height: int, width: int) -> Margin:
        """Pixels on each side: above and below, left and right."""
        return int(height * self.padding), int(width * self.padding)

    def cuts(self, draw: Draw, height: int, width: int) -> Numbers:
        """The first pixel of each cut, down and across, from -pad to +pad; whether it is mirrored: (N, 3)."""
        pad = np.array(self.pad(height, width))
        start = np.floor(draw["crop"].numpy().astype(np.float64) * (2 * pad + 1)).astype(np.int64) - pad
        return np.column_stack((start, draw["flip"].numpy()))


def _stretch(start: int, size: int) -> slice:
    """Where in a cut from `start` on the pixels lie that are inside an axis."""
    return slice(max(0, -start), size - max(0, start))


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


def _inside(position: Tensor, size: int) -> Tensor:
    """255 where positions (G, H, W) lie on the axis and 0 elsewhere, for all planes of a group."""
    # Bits select faster than a mask: the sign bit, spread, of what is below zero at either end.
    beyond = position.bitwise_or(size - 1 - position).bitwise_right_shift_(31)
    return beyond.to(torch.uint8).bitwise_not_()[:, None]


def _map(value: Numbers, entry: Numbers) -> Numbers:
    """Maps (N, 2, 3) that move nothing, except for the value of one entry."""
    maps: Numbers = IDENTITY + value.reshape(-1, 1, 1) * entry
    return maps
