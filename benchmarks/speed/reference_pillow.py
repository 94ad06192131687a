"""Reference side: the per-image Pillow pipelines of the authors' release and of USB.

Written by us from descriptions of what they do, not from their code: a PIL image for each index,
torchvision's flip and crop with reflection, RandAugment over PIL operations, a cutout by ImageDraw, then
`ToTensor` and `Normalize`, and the batch put together by stacking. Draws are each image's own: neither code
base shares them; operations are chosen by Python's generator, levels and squares by numpy's, as there.
"""

import random
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from PIL import Image, ImageDraw, ImageEnhance, ImageOps
from torch import Tensor

from interlude.compat import prepare_torchvision

prepare_torchvision()
from torchvision import transforms  # noqa: E402
from torchvision.transforms import functional  # noqa: E402

MEAN, STD = (0.4914, 0.4822, 0.4465), (0.2471, 0.2435, 0.2616)
PADDING = 0.125
TOP_LEVEL = 10
GREY, USB_GREY = (127, 127, 127), (125, 123, 114)

Picture = Image.Image
SIGNED = ("Rotate", "ShearX", "ShearY", "TranslateX", "TranslateY")
NAMES = ("AutoContrast", "Brightness", "Color", "Contrast", "Equalize", "Identity", "Posterize")
NAMES += ("Rotate", "Sharpness", "ShearX", "ShearY", "Solarize", "TranslateX", "TranslateY")
USB_RANGES = {
    **dict.fromkeys(("Brightness", "Color", "Contrast", "Sharpness"), (0.05, 0.95)),
    **dict.fromkeys(("ShearX", "ShearY", "TranslateX", "TranslateY"), (0.0, 0.3)),
    **dict.fromkeys(("AutoContrast", "Equalize", "Identity"), (0.0, 1.0)),
    "Posterize": (4.0, 8.0),
    "Rotate": (0.0, 30.0),
    "Solarize": (256.0, 0.0),
}


def affine(picture: Picture, *numbers: float) -> Picture:
    """Pillow's affine transform: nearest neighbour, black outside."""
    return picture.transform(picture.size, Image.Transform.AFFINE, numbers)


OPERATIONS: dict[str, Callable[[Picture, float], Picture]] = {
    "AutoContrast": lambda picture, _: ImageOps.autocontrast(picture),
    "Brightness": lambda picture, value: ImageEnhance.Brightness(picture).enhance(value),
    "Color": lambda picture, value: ImageEnhance.Color(picture).enhance(value),
    "Contrast": lambda picture, value: ImageEnhance.Contrast(picture).enhance(value),
    "Equalize": lambda picture, _: ImageOps.equalize(picture),
    "Identity": lambda picture, _: picture,
    "Posterize": lambda picture, value: ImageOps.posterize(picture, max(1, int(value))),
    "Rotate": lambda picture, value: picture.rotate(value),
    "Sharpness": lambda picture, value: ImageEnhance.Sharpness(picture).enhance(value),
    "ShearX": lambda picture, value: affine(picture, 1, value, 0, 0, 1, 0),
    "ShearY": lambda picture, value: affine(picture, 1, 0, 0, value, 1, 0),
    "Solarize": lambda picture, value: ImageOps.solarize(picture, value),
    "TranslateX": lambda picture, value: affine(picture, 1, 0, value, 0, 1, 0),
    "TranslateY": lambda picture, value: affine(picture, 1, 0, 0, 0, 1, value),
}


def authors_value(name: str, level: int, sign: int, size: tuple[int, int]) -> float:
    """What the authors' level 1..9 means for an operation on a picture of this width and height."""
    share = level / TOP_LEVEL
    if name.startswith("Translate"):
        return int(sign * 0.3 * share * size[name.endswith("Y")])
    if name.startswith("Shear"):
        return sign * 0.3 * share
    if name == "Rotate":
        return sign * int(30 * share)
    if name == "Posterize":
        return 4 + int(4 * share)
    if name == "Solarize":
        return 256 - int(256 * share)
    return 0.05 + 0.9 * share


def cutout(
    picture: Picture, side: float, centre: tuple[float, float], color: tuple[int, int, int]
) -> Picture:
    """A square of one colour about `centre` (across, down)."""
    width, height = picture.size
    left, top = (int(max(0, place - side / 2)) for place in centre)
    picture = picture.copy()
    ImageDraw.Draw(picture).rectangle((left, top, min(width, left + side), min(height, top + side)), color)
    return picture


def anywhere(picture: Picture) -> tuple[float, float]:
    """A place in the picture: across, down."""
    return np.random.uniform(0, picture.width), np.random.uniform(0, picture.height)  # noqa: NPY002


class AuthorsRandAugment:
    """Two operations at levels 1..9, each with probability one half, and a grey square of half the width."""

    def __call__(self, picture: Picture) -> Picture:
        for name in random.choices(NAMES, k=2):
            level = np.random.randint(1, TOP_LEVEL)  # noqa: NPY002
            if random.random() < 0.5:
                sign = 1 if random.random() < 0.5 else -1
                picture = OPERATIONS[name](picture, authors_value(name, level, sign, picture.size))
        return cutout(picture, int(picture.width * 0.5), anywhere(picture), GREY)


class UsbRandAugment:
    """Three operations of any magnitude, always, and a square of up to half the width."""

    def __call__(self, picture: Picture) -> Picture:
        for name in random.choices(NAMES, k=3):
            low, high = USB_RANGES[name]
            value = low + (high - low) * random.random()
            if name in SIGNED and random.random() < 0.5:
                value = -value
            if name.startswith("Translate"):
                value *= picture.size[name.endswith("Y")]
            picture = OPERATIONS[name](picture, value)
        return cutout(picture, 0.5 * random.random() * picture.width, anywhere(picture), USB_GREY)


class Pipeline:
    """Weak and strong view of one picture, as network inputs."""

    def __init__(self, size: int, strong: Callable[[Picture], Picture]) -> None:
        def crop() -> list[Any]:
            pad = int(size * PADDING)
            return [
                transforms.RandomHorizontalFlip(),
                transforms.RandomCrop(size, padding=pad, padding_mode="reflect"),
            ]

        ends = [transforms.ToTensor(), transforms.Normalize(MEAN, STD)]
        self.weak = transforms.Compose([*crop(), *ends])
        self.strong = transforms.Compose([*crop(), strong, *ends])

    def __call__(self, picture: Picture) -> tuple[Tensor, Tensor]:
        return self.weak(picture), self.strong(picture)


def views(pictures: np.ndarray, rows: Sequence[int], pipeline: Pipeline) -> tuple[Tensor, Tensor]:
    """Weak and strong views of some rows of an array (N, H, W, 3), picture by picture, then stacked."""
    pairs = [pipeline(Image.fromarray(pictures[row])) for row in rows]
    weak, strong = zip(*pairs, strict=True)
    return torch.stack(weak), torch.stack(strong)


def replay(array: np.ndarray, *, flip: bool, start: tuple[int, int], steps: Any, centre: Any) -> np.ndarray:
    """The authors' strong view of one picture for given parameters, before it becomes a tensor.

    `start` is where the crop begins in the padded picture (down, across), `steps` are (name, level, sign) of
    the operations that are applied, `centre` that of the cutout (across, down) in pixels.
    """
    picture = Image.fromarray(array)
    width, height = picture.size
    picture = functional.hflip(picture) if flip else picture
    picture = functional.pad(picture, int(width * PADDING), padding_mode="reflect")
    picture = functional.crop(picture, *start, height, width)
    for name, level, sign in steps:
        picture = OPERATIONS[name](picture, authors_value(name, level, sign, picture.size))
    return np.array(cutout(picture, int(width * 0.5), centre, GREY))
