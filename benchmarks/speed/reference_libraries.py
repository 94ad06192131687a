"""Reference side: torchvision v2, kornia and albumentations as they are, given the same job.

None of them is exact to Pillow, and each has operations of its own under the same names. What is not
installed is left out.
"""

import importlib.util
import os
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from reference_pillow import MEAN, PADDING, STD
from torch import Tensor
from torchvision.transforms import v2

OPERATIONS = 14  # in the authors' list, of which a view takes two, each with probability one half


def sides(pixels: Tensor, *, group: int) -> dict[str, Callable[[], Any]]:
    """Weak and strong views of uint8 images (N, 3, H, W), by every library that is there."""
    found = {
        "torchvision-image": lambda: torchvision_views(pixels, 1),
        "torchvision-group": lambda: torchvision_views(pixels, group),
    }
    if importlib.util.find_spec("kornia"):
        found["kornia"] = kornia_views(pixels)
    if importlib.util.find_spec("albumentations"):
        found["albumentations"] = albumentations_views(pixels)
    return found


def torchvision_views(pixels: Tensor, group: int) -> tuple[Tensor, Tensor]:
    """One draw for each `group` images, on tensors."""
    size = pixels.shape[-1]

    def crop() -> list[Any]:
        return [
            v2.RandomHorizontalFlip(),
            v2.RandomCrop(size, padding=int(size * PADDING), padding_mode="reflect"),
        ]

    ends = [v2.ToDtype(torch.float32, scale=True), v2.Normalize(MEAN, STD)]
    square = v2.RandomErasing(p=1, scale=(0.25, 0.25), ratio=(1, 1), value=[127, 127, 127])
    weak = v2.Compose([*crop(), *ends])
    strong = v2.Compose([*crop(), v2.RandAugment(2), square, *ends])
    parts = torch.split(pixels, group)
    return torch.cat([weak(part) for part in parts]), torch.cat([strong(part) for part in parts])


def kornia_views(pixels: Tensor) -> Callable[[], Any]:
    """Draws of each image's own, on the whole batch: every operation with the probability it has there."""
    import kornia.augmentation as K

    size = pixels.shape[-1]
    share = 2 * 0.5 / OPERATIONS

    def crop() -> list[Any]:
        return [
            K.RandomHorizontalFlip(p=0.5),
            K.RandomCrop((size, size), padding=int(size * PADDING), padding_mode="reflect"),
        ]

    operations = [
        K.RandomBrightness((0.05, 0.95), p=share),
        K.RandomSaturation((0.05, 0.95), p=share),
        K.RandomContrast((0.05, 0.95), p=share),
        K.RandomSharpness(0.9, p=share),
        K.RandomEqualize(p=share),
        K.RandomAutoContrast(p=share),
        K.RandomPosterize((4, 8), p=share),
        K.RandomSolarize((0, 1), p=share),
        K.RandomRotation(30.0, p=share),
        K.RandomAffine(0, shear=(-17.0, 17.0, 0.0, 0.0), p=share),
        K.RandomAffine(0, shear=(0.0, 0.0, -17.0, 17.0), p=share),
        K.RandomAffine(0, translate=(0.3, 0.0), p=share),
        K.RandomAffine(0, translate=(0.0, 0.3), p=share),
    ]
    normalise = K.Normalize(torch.tensor(MEAN), torch.tensor(STD))
    weak = K.ImageSequential(*crop(), normalise)
    square = K.RandomErasing(scale=(0.25, 0.25), ratio=(1.0, 1.0), value=0.5, p=1.0)
    strong = K.ImageSequential(*crop(), *operations, square, normalise)

    def views() -> tuple[Tensor, Tensor]:
        images = pixels.float().div_(255)
        return weak(images), strong(images)

    return views


def albumentations_views(pixels: Tensor) -> Callable[[], Any]:
    """Image by image, on arrays."""
    os.environ["NO_ALBUMENTATIONS_UPDATE"] = "1"  # it would look for a newer version of itself
    import albumentations as A
    import cv2

    cv2.setNumThreads(1)
    size, pad = pixels.shape[-1], int(pixels.shape[-1] * PADDING)
    arrays = np.ascontiguousarray(pixels.permute(0, 2, 3, 1).numpy())

    def crop() -> list[Any]:
        reflected = A.Pad(padding=pad, border_mode=cv2.BORDER_REFLECT_101, p=1)
        return [A.HorizontalFlip(p=0.5), reflected, A.RandomCrop(size, size)]

    def operation() -> Any:
        choices = [
            A.AutoContrast(p=1),
            A.Equalize(p=1),
            A.NoOp(p=1),
            A.ColorJitter(brightness=(0.05, 0.95), contrast=(1, 1), saturation=(1, 1), hue=(0, 0), p=1),
            A.ColorJitter(brightness=(1, 1), contrast=(0.05, 0.95), saturation=(1, 1), hue=(0, 0), p=1),
            A.ColorJitter(brightness=(1, 1), contrast=(1, 1), saturation=(0.05, 0.95), hue=(0, 0), p=1),
            A.Sharpen(p=1),
            A.Posterize((4, 8), p=1),
            A.Solarize(p=1),
            A.Rotate(30, interpolation=cv2.INTER_NEAREST, p=1),
            A.Affine(shear={"x": (-17, 17), "y": (0, 0)}, interpolation=cv2.INTER_NEAREST, p=1),
            A.Affine(shear={"x": (0, 0), "y": (-17, 17)}, interpolation=cv2.INTER_NEAREST, p=1),
            A.Affine(translate_percent={"x": (-0.3, 0.3), "y": (0, 0)}, interpolation=cv2.INTER_NEAREST, p=1),
            A.Affine(translate_percent={"x": (0, 0), "y": (-0.3, 0.3)}, interpolation=cv2.INTER_NEAREST, p=1),
        ]
        return A.OneOf(choices, p=0.5)

    normalise = A.Normalize(MEAN, STD)
    square = A.CoarseDropout((1, 1), (0.5, 0.5), (0.5, 0.5), fill=127, p=1)
    weak = A.Compose([*crop(), normalise])
    strong = A.Compose([*crop(), operation(), operation(), square, normalise])

    def views() -> tuple[Tensor, Tensor]:
        parts = [np.stack([chain(image=array)["image"] for array in arrays]) for chain in (weak, strong)]
        return torch.from_numpy(parts[0]), torch.from_numpy(parts[1])

    return views
