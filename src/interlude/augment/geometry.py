"""Where each pixel comes from: flip, crop, rotate, shear and translate, each pixel as Pillow would place it.

The last three say for every image which six whole numbers `warp` shall use. Magnitudes are float64 tensors on
the CPU with one value per image; images are uint8 (N, C, H, W) on any device.
"""

from dataclasses import dataclass

import torch
from torch import Generator, Tensor
from torch.nn import functional

from interlude.augment.draw import Draw, uniform

FRACTION_BITS = 16  # of the fixed-point coordinates in Pillow's nearest-neighbour transform
INDICES_AT_ONCE = (
    2**20
)  # positions worked on together: larger tables of them leave the cache and cost page faults


def warp(images: Tensor, coefficients: Tensor) -> Tensor:
    """Pixel (x, y) of image i becomes its pixel (a x + b y + c, d x + e y + f), black if that lies outside.

    `coefficients` (N, 6) are a to f in fixed point, as `rotate` and the other four make them.
    """
    a, b, c, d, e, f = coefficients.to(images.device)[:, :, None, None].unbind(1)
    x, y = _across(images), _down(images)
    columns = (a * x + (b * y + c)).bitwise_right_shift_(FRACTION_BITS)
    rows = (d * x + (e * y + f)).bitwise_right_shift_(FRACTION_BITS)
    return _read_or_black(images, rows, columns)


def rotate(images: Tensor, degrees: Tensor) -> Tensor:
    """Turn counter-clockwise about the centre; not for right angles, which Pillow transposes instead."""
    height, width = images.shape[-2:]
    angle = torch.deg2rad(degrees)
    cos, sin = torch.cos(angle), torch.sin(angle)
    x, y = width / 2, height / 2
    return _fixed_point(cos, -sin, x - (cos * x - sin * y), sin, cos, y - (sin * x + cos * y))


def shear_x(images: Tensor, share: Tensor) -> Tensor:
    """Shift every row by `share` times its distance from the top."""
    zero, one = torch.zeros_like(share), torch.ones_like(share)
    return _fixed_point(one, share, zero, zero, one, zero)


def shear_y(images: Tensor, share: Tensor) -> Tensor:
    """Shift every column by `share` times its distance from the left."""
    zero, one = torch.zeros_like(share), torch.ones_like(share)
    return _fixed_point(one, zero, zero, share, one, zero)


def translate_x(images: Tensor, share: Tensor) -> Tensor:
    """Move to the left by a share of the width, rounded to the nearest pixel."""
    return _shift(torch.floor(share * images.shape[-1] + 0.5), torch.zeros_like(share))


def translate_y(images: Tensor, share: Tensor) -> Tensor:
    """Move up by a share of the height, rounded to the nearest pixel."""
    return _shift(torch.zeros_like(share), torch.floor(share * images.shape[-2] + 0.5))


def translate_x_whole(images: Tensor, share: Tensor) -> Tensor:
    """Move to the left by a share of the width, cut to whole pixels as in the released code."""
    return _shift(torch.trunc(share * images.shape[-1]), torch.zeros_like(share))


def translate_y_whole(images: Tensor, share: Tensor) -> Tensor:
    """Move up by a share of the height, cut to whole pixels as in the released code."""
    return _shift(torch.zeros_like(share), torch.trunc(share * images.shape[-2]))


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
        down, across = draw["crop"].double().unbind(1)
        rows = _down(images) + self._start(down, height).to(images.device)[:, None, None]
        columns = _across(images) + self._start(across, width).to(images.device)[:, None, None]
        flip = draw["flip"].to(images.device)[:, None, None]
        if self.reflect:
            columns = _reflect(columns, width)
            return _read(images, _reflect(rows, height), torch.where(flip, width - 1 - columns, columns))
        return _read_or_black(images, rows, torch.where(flip, width - 1 - columns, columns))

    def _start(self, position: Tensor, size: int) -> Tensor:
        """The first pixel of the cut, from -pad to +pad, for a position on [0, 1)."""
        pad = int(size * self.padding)
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


def _fixed_point(*matrix: Tensor) -> Tensor:
    """Pillow's integers for the six coefficients of an affine map between centres of pixels."""
    a, b, c, d, e, f = matrix
    exact = torch.stack((a, b, c + a * 0.5 + b * 0.5, d, e, f + d * 0.5 + e * 0.5), dim=1)
    return torch.floor(exact * 2**FRACTION_BITS + 0.5).int()


def _shift(left: Tensor, up: Tensor) -> Tensor:
    zero, one = torch.zeros_like(left), torch.ones_like(left)
    return _fixed_point(one, zero, left, zero, one, up)


def _down(images: Tensor) -> Tensor:
    return torch.arange(images.shape[-2], device=images.device, dtype=torch.int32)[None, :, None]


def _across(images: Tensor) -> Tensor:
    return torch.arange(images.shape[-1], device=images.device, dtype=torch.int32)[None, None, :]
