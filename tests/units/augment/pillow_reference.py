"""Augmentation a second time: image after image, with Pillow, straight from the specification."""

from collections.abc import Callable
from functools import cache

import numpy as np
import torch
from PIL import Image, ImageDraw, ImageEnhance, ImageOps
from sklearn.datasets import load_sample_images
from torch import Tensor

ENHANCERS = ("Brightness", "Color", "Contrast", "Sharpness")
SIGNED = ("Rotate", "ShearX", "ShearY", "TranslateX", "TranslateY")
FOURTEEN = (*ENHANCERS, *SIGNED, "AutoContrast", "Equalize", "Identity", "Posterize", "Solarize")
SIZES = ((32, 32), (96, 96), (17, 23))


@cache
def pictures(channels: int, height: int, width: int) -> Tensor:
    """Noise, gradients, constants, two-valued images and crops of two photographs: uint8 (15, C, H, W)."""
    rng = np.random.default_rng(0)
    y, x = np.mgrid[:height, :width]
    waves = [x * 255 // (width - 1), y * 255 // (height - 1), (x + y) * 7 % 256, 90 + (x * y) % 40]
    plain = [np.full((height, width), value) for value in (0, 128, 255)]
    spots = [(x + y) % 2 * 200 + 20, (x * x + y * y < height * width // 8) * 255]
    grey = [np.repeat(image[:, :, None], 3, axis=2) for image in (*waves, *plain, *spots)]
    noise = rng.integers(0, 256, (2, height, width, 3))
    dim = rng.integers(60, 130, (1, height, width, 3))
    photos = [photo[i : i + height, j : j + width] for photo, i, j in _photos()]
    stack = np.concatenate([np.stack(grey), noise, dim, np.stack(photos)]).astype(np.uint8)
    colored = torch.from_numpy(stack).permute(0, 3, 1, 2)
    if channels == 3:
        return colored.contiguous()
    return torch.stack([to_tensor(to_pillow(image).convert("L")) for image in colored])


@cache
def _photos() -> list[tuple[np.ndarray, int, int]]:
    """Photographs, and where to cut a piece out of each."""
    china, flower = load_sample_images().images
    return [(china, 100, 50), (flower, 200, 300), (china[::3, ::3], 20, 40)]


def to_pillow(image: Tensor) -> Image.Image:
    array = image.permute(1, 2, 0).numpy()
    return Image.fromarray(np.ascontiguousarray(array[:, :, 0] if array.shape[2] == 1 else array))


def to_tensor(image: Image.Image) -> Tensor:
    array = np.array(image)
    return torch.from_numpy(array[:, :, None] if array.ndim == 2 else array).permute(2, 0, 1)


def each(images: Tensor, transform: Callable[[Image.Image, int], Image.Image]) -> Tensor:
    """The images after `transform(image, row)`, one at a time."""
    return torch.stack([to_tensor(transform(to_pillow(image), row)) for row, image in enumerate(images)])


def flip_crop(image: Image.Image, flip: bool, crop: tuple[float, float], *, padding=0.125, mode="reflect"):
    """Mirror, pad, cut; `crop` says where the cut begins (down, across), from 0 to 1 of what is possible."""
    image = ImageOps.mirror(image) if flip else image
    width, height = image.size
    down, across = int(height * padding), int(width * padding)
    array = np.asarray(image)
    padded = np.pad(array, ((down, down), (across, across), (0, 0))[: array.ndim], mode=mode)
    top, left = int(crop[0] * (2 * down + 1)), int(crop[1] * (2 * across + 1))
    return Image.fromarray(np.ascontiguousarray(padded[top : top + height, left : left + width]))


def operate(image: Image.Image, name: str, magnitude: float) -> Image.Image:
    """One RandAugment operation; a translation is given in pixels."""
    affine = {
        "ShearX": (1, magnitude, 0, 0, 1, 0),
        "ShearY": (1, 0, 0, magnitude, 1, 0),
        "TranslateX": (1, 0, magnitude, 0, 1, 0),
        "TranslateY": (1, 0, 0, 0, 1, magnitude),
    }
    if name in affine:
        return image.transform(image.size, Image.Transform.AFFINE, affine[name])
    if name in ENHANCERS:
        return getattr(ImageEnhance, name)(image).enhance(magnitude)
    plain = {
        "AutoContrast": ImageOps.autocontrast,
        "Equalize": ImageOps.equalize,
        "Identity": Image.Image.copy,
    }
    if name in plain:
        return plain[name](image)
    measured = {"Posterize": ImageOps.posterize, "Rotate": Image.Image.rotate, "Solarize": ImageOps.solarize}
    return measured[name](image, magnitude)


def released_magnitude(name: str, level: int, sign: int, size: tuple[int, int]) -> float:
    """The released code's table; `level` is 1..9 and `size` Pillow's (width, height)."""
    fraction = level * 0.3 / 10
    return {
        **dict.fromkeys(ENHANCERS, 0.05 + level * 0.9 / 10),
        "Posterize": 4 + int(level * 4 / 10),
        "Rotate": sign * int(level * 30 / 10),
        "ShearX": sign * fraction,
        "ShearY": sign * fraction,
        "Solarize": 256 - int(level * 256 / 10),
        "TranslateX": int(sign * fraction * size[0]),
        "TranslateY": int(sign * fraction * size[1]),
    }.get(name, 0)


def usb_magnitude(name: str, share: float, sign: int, size: tuple[int, int]) -> float:
    """USB's ranges, `share` of the way from the mild to the strong end, translations in parts of a pixel."""
    return {
        **dict.fromkeys(ENHANCERS, 0.05 + 0.9 * share),
        "Posterize": max(1, int(4 + 4 * share)),
        "Rotate": sign * 30 * share,
        "ShearX": sign * 0.3 * share,
        "ShearY": sign * 0.3 * share,
        "Solarize": 256 - 256 * share,
        "TranslateX": sign * 0.3 * share * size[0],
        "TranslateY": sign * 0.3 * share * size[1],
    }.get(name, 0)


def cutout(
    image: Image.Image, side: float, centre: tuple[float, float], fill: tuple[int, int, int]
) -> Image.Image:
    """A rectangle about `centre` (down, across, as shares of the image), both corners included."""
    width, height = image.size
    left = int(max(0, centre[1] * width - side / 2))
    top = int(max(0, centre[0] * height - side / 2))
    box = (left, top, min(width, left + side), min(height, top + side))
    image = image.copy()
    color = fill if image.mode == "RGB" else Image.new("RGB", (1, 1), fill).convert("L").getpixel((0, 0))
    ImageDraw.Draw(image).rectangle(box, color)
    return image


def differences(views: Tensor, wanted: Tensor) -> str:
    """What a failed comparison should say: which images differ, in how many pixels, by how much."""
    gap = (views.int() - wanted.int()).abs().flatten(1)
    rows = [
        f"image {i}: {int((row > 0).sum())} values, up to {int(row.max())}"
        for i, row in enumerate(gap)
        if row.any()
    ]
    return f"{len(rows)} of {len(gap)} images differ from Pillow: " + "; ".join(rows[:5])
