"""Where each pixel comes from: flip, crop, rotate, shear and translate, each pixel as Pillow would place it.

The last three say for every image which affine map `warp` shall follow. Magnitudes are float64 tensors on the
CPU with one value per image; images are uint8 (N, C, H, W) on any device.
"""

from dataclasses import dataclass

import torch
from torch import Generator, Tensor
from torch.nn import functional

from interlude.augment.draw import Draw, fold, uniform

FRACTION_BITS = 16  # of the fixed-point coordinates in Pillow's nearest-neighbour transform
IDENTITY = torch.eye(2, 3, dtype=torch.float64)
ENTRIES = torch.eye(6, dtype=torch.float64).view(2, 3, 2, 3)  # for each entry of a map, a one in its place
(_, SHEAR_X, MOVE_X), (SHEAR_Y, _, MOVE_Y) = ENTRIES
INDICES_AT_ONCE = 2**20  # positions worked on together; larger tables of them cost page faults


def warp(images: Tensor, maps: Tensor) -> Tensor:
    """Pixel (x, y) of image i becomes its pixel `maps[i] @ (x, y, 1)`, black if that lies outside.

    The maps (N, 2, 3) are float64 on the CPU. They are taken at the centres of pixels and, as in Pillow, with
    16 bits after the point.
    """
    folded, maps = fold(images, maps)
    fixed = fixed_point(maps).to(images.device)
    along_x, along_y, start = fixed.transpose(0, 1)[..., None, None].unbind(2)
    position = along_x * _across(images) + (along_y * _down(images) + start)
    columns, rows = position.bitwise_right_shift_(FRACTION_BITS)
    return _read_or_black(folded, rows, columns).view(images.shape)


def fixed_point(maps: Tensor) -> Tensor:
    """Maps (N, 2, 3) at the centres of pixels, as whole numbers of 1/65536."""
    along_x, along_y, start = maps.unbind(2)
    exact = torch.stack((along_x, along_y, start + along_x * 0.5 + along_y * 0.5), dim=2)
    return torch.floor(exact * 2**FRACTION_BITS + 0.5).to(torch.int32)


def rotate(images: Tensor, degrees: Tensor) -> Tensor:
    """Turn counter-clockwise about the centre; not for right angles, which Pillow transposes instead."""
    height, width = images.shape[-2:]
    angle = torch.deg2rad(degrees)
    cos, sin = torch.cos(angle), torch.sin(angle)
    x, y = width / 2, height / 2
    numbers = (cos, -sin, x - (cos * x - sin * y), sin, cos, y - (sin * x + cos * y))
    return torch.stack(numbers, dim=1).view(-1, 2, 3)


def shear_x(images: Tensor, share: Tensor) -> Tensor:
    """Shift every row by `share` times its distance from the top."""
    return _map(share, SHEAR_X)


def shear_y(images: Tensor, share: Tensor) -> Tensor:
    """Shift every column by `share` times its distance from the left."""
    return _map(share, SHEAR_Y)


def translate_x(images: Tensor, share: Tensor) -> Tensor:
    """Move to the left by a share of the width, rounded to the nearest pixel."""
    return _map(torch.floor(share * images.shape[-1] + 0.5), MOVE_X)


def translate_y(images: Tensor, share: Tensor) -> Tensor:
    """Move up by a share of the height, rounded to the nearest pixel."""
    return _map(torch.floor(share * images.shape[-2] + 0.5), MOVE_Y)


def translate_x_whole(images: Tensor, share: Tensor) -> Tensor:
    """Move to the left by a share of the width, cut to whole pixels as in the released code."""
    return _map(torch.trunc(share * images.shape[-1]), MOVE_X)


def translate_y_whole(images: Tensor, share: Tensor) -> Tensor:
    """Move up by a share of the height, cut to whole pixels as in the released code."""
    return _map(torch.trunc(share * images.shape[-2]), MOVE_Y)


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
        folded, numbers = fold(images, torch.column_stack((draw["crop"], draw["flip"])).double())
        down, across = self.start(numbers[:, :2], height, width).to(images.device)[..., None, None].unbind(1)
        rows, columns = _down(images) + down, _across(images) + across
        if self.reflect:
            rows, columns = _reflect(rows, height), _reflect(columns, width)
        flip = numbers[:, 2, None, None].to(images.device) > 0
        columns = torch.where(flip, width - 1 - columns, columns)
        read = _read if self.reflect else _read_or_black
        return read(folded, rows, columns).view(images.shape)

    def start(self, position: Tensor, height: int, width: int) -> Tensor:
        """The first pixel of the cut, from -pad to +pad, for positions (N, 2) on [0, 1): down, across."""
        pad = torch.tensor((int(height * self.padding), int(width * self.padding)), dtype=torch.int32)
        return torch.floor(position * (2 * pad + 1)).int() - pad


def _reflect(position: Tensor, size: int) -> Tensor:
    """Positions outside 0..size-1 mirrored at the first and the last pixel."""
    return (size - 1) - (size - 1 - position.abs()).abs()


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


def _read_or_black(images: Tensor, rows: Tensor, columns: Tensor) -> Tensor:
    """The pixels at (rows, columns), black outside the image; overwrites both to save memory traffic."""
    height, width = images.shape[-2:]
    # A black frame of one pixel answers every position outside, which is cheaper than masking the result.
    framed = functional.pad(images, (1, 1, 1, 1))
    return _read(framed, rows.add_(1).clamp_(0, height + 1), columns.add_(1).clamp_(0, width + 1))


def _map(value: Tensor, entry: Tensor) -> Tensor:
    """Maps (N, 2, 3) that move nothing, except for the value of one entry."""
    return IDENTITY + value.view(-1, 1, 1) * entry


def _down(images: Tensor) -> Tensor:
    return torch.arange(images.shape[-2], device=images.device, dtype=torch.int32)[None, :, None]


def _across(images: Tensor) -> Tensor:
    return torch.arange(images.shape[-1], device=images.device, dtype=torch.int32)[None, None, :]
