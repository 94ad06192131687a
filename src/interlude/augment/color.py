"""What each pixel becomes: Pillow's tone, colour and sharpness operations, bit for bit.

AutoContrast and Equalize say for every image which tables of 256 values `look_up` shall use; the others give
the images themselves. Magnitudes are float64 arrays with one value per group; images are uint8 (..., C, H, W)
on any device, groups along the first axis, with one channel (grey) or three (red, green, blue).

Where a quotient must be exact, a tensor is divided by a tensor: with a number on either side torch may make
it a product, which is at times one value off.
"""

import numpy as np
import torch
from torch import Tensor

from interlude.augment.draw import Numbers

RED, GREEN, BLUE = 19595 / 65536, 38470 / 65536, 7471 / 65536  # weights in Pillow's grey
SMOOTH_CENTRE, SMOOTH_TOTAL = 5, 13  # Pillow's SMOOTH kernel: ones around a five


def look_up(images: Tensor, tables: Tensor) -> Tensor:
    """Value v in channel c of image i becomes `tables[i, c, v]`; the tables are uint8 (..., C, 256)."""
    return tables.gather(-1, images.flatten(-2).long()).view_as(images)


def brightness(images: Tensor, factor: Numbers) -> Tensor:
    """Scale towards black (factor 0)."""
    return _bytes(images.float().mul_(_factor(images, factor)))


def contrast(images: Tensor, factor: Numbers) -> Tensor:
    """Scale towards the mean grey of the image (factor 0)."""
    end = images.float()
    # Sums of lines are whole numbers below 2^24, exact in float32 and faster there.
    total = luma(end).sum(-1, keepdim=True).sum((-3, -2), keepdim=True, dtype=torch.float64)
    mean = torch.floor(total / torch.full_like(total, images.shape[-2:].numel()) + 0.5).float()
    return _blend(mean, end, _factor(images, factor))


def posterize(images: Tensor, bits: Numbers) -> Tensor:
    """Keep the highest bits (cut to a whole number, at least one)."""
    dropped = 8 - bits.astype(np.int64).clip(1, 8)
    return images & _per_group(images, (255 >> dropped << dropped).astype(np.uint8))


def solarize(images: Tensor, threshold: Numbers) -> Tensor:
    """Invert the values from the threshold on."""
    first = _per_group(images, np.ceil(threshold).astype(np.int16))
    # The sign bit, spread over a byte, says which values lie below; torch compares bytes slowly.
    below = images.short().sub_(first).bitwise_right_shift_(15).to(torch.uint8)
    return below.bitwise_not_().bitwise_xor_(images)


def autocontrast(images: Tensor, _: Numbers) -> Tensor:
    """Tables that stretch each channel to the full range; a constant channel stays."""
    planes = images.flatten(-2)
    low, high = planes.amin(-1, keepdim=True).double(), planes.amax(-1, keepdim=True).double()
    scale = torch.full_like(low, 255.0) / (high - low)
    values = _values(images)
    stretched = (values * scale + -low * scale).clamp(0, 255)
    return torch.where(high > low, stretched, values).to(torch.uint8)


def equalize(images: Tensor, _: Numbers) -> Tensor:
    """Tables that spread the values of each channel evenly; a channel with too little to spread stays."""
    planes = images.flatten(-2)
    ones = torch.ones_like(planes, dtype=torch.int32)  # a single one, expanded, would be added more slowly
    count = ones.new_zeros(*planes.shape[:-1], 256).scatter_add_(-1, planes.long(), ones).float()
    up_to = count.cumsum(-1)
    brightest = count.gather(-1, planes.amax(-1, keepdim=True).long())
    step = (images.shape[-2:].numel() - brightest).int() // 255
    # Whole numbers below 2^24 are exact in float32, and no quotient of two is rounded up to the next one.
    spread = (step // 2 + up_to).sub_(count).div_(step.clamp(min=1)).clamp_(max=255)
    return torch.where(step > 0, spread, _values(images)).to(torch.uint8)


def color(images: Tensor, factor: Numbers) -> Tensor:
    """Scale the colours towards grey (factor 0); a grey image stays."""
    if images.shape[-3] == 1:
        return images
    end = images.float()
    return _blend(luma(end), end, _factor(images, factor))


def sharpness(images: Tensor, factor: Numbers) -> Tensor:
    """Blend with a smoothed version (factor 0), whose outermost pixels are the image's own."""
    width = images.shape[-1]
    if min(images.shape[-2:]) < 3:
        return images
    # Neighbours of all pixels at once, lines and images laid end to end; only edges get wrong ones.
    fine = images.short().flatten()
    lines = fine[: -2 * width] + fine[width:-width] + fine[2 * width :]
    total = torch.empty_like(fine)
    inner = total[width + 1 : -width - 1]
    torch.add(lines[:-2], lines[1:-1], out=inner)
    inner.add_(lines[2:]).add_(fine[width + 1 : -width - 1], alpha=SMOOTH_CENTRE - 1)
    # total / 13 stays at least 1/26 away from any half, so rounding errors cannot reach the result.
    smooth = total.float().div_(SMOOTH_TOTAL).round_().view_as(images)
    end = images.float()
    for edge in (0, -1):
        smooth[..., edge, :] = end[..., edge, :]
        smooth[..., edge] = end[..., edge]
    return _blend(smooth, end, _factor(images, factor))


def luma(values: Tensor) -> Tensor:
    """Grey values (..., 1, H, W) as Pillow computes them, of values in float32: whole numbers."""
    if values.shape[-3] == 1:
        return values
    red, green, blue = torch.split(values, 1, dim=-3)
    # Exact: every product and sum is a whole number of 1/65536 below 256.
    return (red * RED).add_(green, alpha=GREEN).add_(blue, alpha=BLUE).add_(0.5).floor_()


def _blend(start: Tensor, end: Tensor, factor: Tensor) -> Tensor:
    """Pillow's blend: float32, two roundings, then cut; a factor above one may leave the range of a byte.

    It is worked out in the memory of the end.
    """
    return _bytes(end.sub_(start).mul_(factor).add_(start))


def _bytes(values: Tensor) -> Tensor:
    """Values cut to the range of a byte, then to whole numbers."""
    return values.clamp_(0, 255).to(torch.int16).to(torch.uint8)  # faster than in one step


def _values(images: Tensor) -> Tensor:
    return torch.arange(256, device=images.device)


def _factor(images: Tensor, factor: Numbers) -> Tensor:
    return _per_group(images, factor.astype(np.float32))


def _per_group(images: Tensor, numbers: Numbers) -> Tensor:
    return torch.from_numpy(numbers).to(images.device).view(-1, *[1] * (images.ndim - 1))
