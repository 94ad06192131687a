"""Every operation, at every strength, against Pillow: not one value may differ."""

import numpy as np
import pytest
import torch
from pillow_reference import (
    FOURTEEN,
    SIGNED,
    SIZES,
    differences,
    each,
    operate,
    pictures,
    released_magnitude,
    to_pillow,
    to_tensor,
)

from interlude.augment import OPERATIONS, AugmentConfig, build
from interlude.augment.color import luma
from interlude.augment.geometry import translate_x, translate_y

ON_SIZES = pytest.mark.parametrize("size", SIZES, ids=lambda size: "x".join(map(str, size)))
ON_CHANNELS = pytest.mark.parametrize("channels", [1, 3])


def run(operation, images, magnitude):
    magnitudes = np.full(len(images), magnitude, np.float64)
    return operation.carry_out(images, operation.plan(images, magnitudes))


def natural():
    """The operations of the policy `natural` by name."""
    _, randaugment, _ = build(AugmentConfig("natural"))["strong"].parts
    return {operation.name: operation for operation in randaugment.operations}


def test_natural_has_the_fourteen_operations():
    assert sorted(natural()) == sorted(FOURTEEN)


@ON_SIZES
@ON_CHANNELS
@pytest.mark.parametrize("name", FOURTEEN)
def test_an_operation_equals_pillow_at_every_level(name, channels, size):
    images = pictures(channels, *size)
    operation = natural()[name]
    for level in range(1, 10) if operation.high else [1]:
        for sign in (-1, 1) if name in SIGNED else (1,):
            ours = operation.low + level * (operation.high - operation.low) / 10
            theirs = released_magnitude(name, level, sign, (size[1], size[0]))
            views = run(operation, images, sign * ours)
            wanted = each(images, lambda image, _, theirs=theirs: operate(image, name, theirs))
            assert torch.equal(views, wanted), f"{name} level {sign * level}: {differences(views, wanted)}"


@ON_SIZES
@ON_CHANNELS
@pytest.mark.parametrize("name", ["Brightness", "Color", "Contrast", "Sharpness"])
def test_enhancing_beyond_the_original_clips_like_pillow(name, channels, size):
    images = pictures(channels, *size)
    for factor in (0.0, 1.0, 1.2, 1.7, 3.0):
        views = run(OPERATIONS[name], images, factor)
        wanted = each(images, lambda image, _, factor=factor: operate(image, name, factor))
        assert torch.equal(views, wanted), f"factor {factor}: {differences(views, wanted)}"


@ON_SIZES
@pytest.mark.parametrize("name", ["Rotate", "ShearX", "ShearY"])
def test_any_magnitude_of_a_warp_equals_pillow(name, size):
    images = pictures(1, *size)
    highest = OPERATIONS[name].high
    spread = highest * (
        2 * torch.rand(60, generator=torch.Generator().manual_seed(1), dtype=torch.float64) - 1
    )
    for magnitude in [0.0, highest, -highest, *spread.tolist()]:
        views = run(OPERATIONS[name], images, magnitude)
        wanted = each(images, lambda image, _, value=magnitude: operate(image, name, value))
        assert torch.equal(views, wanted), f"{name} by {magnitude}: {differences(views, wanted)}"


@pytest.mark.parametrize(("name", "plan"), [("TranslateX", translate_x), ("TranslateY", translate_y)])
def test_a_translation_by_parts_of_a_pixel_equals_pillow(name, plan):
    images = pictures(3, 32, 32)
    just_below_half = 0.5 - 2**-18  # a 16-bit fraction would round this up
    for pixels in (0.0, 0.2, 0.5, just_below_half, 1.49, 3 - just_below_half, 9.6, -0.5, -0.51, -2.3, -9.6):
        views = run(OPERATIONS[name], images, pixels / 32)
        wanted = each(images, lambda image, _, pixels=pixels: operate(image, name, pixels))
        assert torch.equal(views, wanted), f"{pixels} pixels: {differences(views, wanted)}"


def test_the_grey_of_every_color_is_that_of_pillow():
    green, blue = torch.meshgrid(torch.arange(256), torch.arange(256), indexing="ij")
    for red in range(256):
        image = torch.stack([torch.full_like(green, red), green, blue]).to(torch.uint8)
        wanted = to_tensor(to_pillow(image).convert("L"))
        assert torch.equal(luma(image[None].float())[0], wanted.float()), f"wrong for red = {red}"


def test_autocontrast_equals_pillow_for_many_ranges_of_values():
    ramp = torch.arange(256).view(16, 16)
    ranges = [(low, high) for low in range(0, 256, 7) for high in range(low, 256, 2)]
    images = torch.stack([ramp.clamp(low, high) for low, high in ranges]).to(torch.uint8)[:, None]
    views = run(OPERATIONS["AutoContrast"], images, 0.0)
    wanted = each(images, lambda image, _: operate(image, "AutoContrast", 0))
    assert torch.equal(views, wanted), differences(views, wanted)


@pytest.mark.parametrize("name", ["AutoContrast", "Equalize"])
@pytest.mark.parametrize("value", [0, 1, 128, 255])
def test_a_constant_image_stays_constant(name, value):
    images = torch.full((2, 3, 8, 8), value, dtype=torch.uint8)
    assert torch.equal(run(OPERATIONS[name], images, 0.0), images)


def test_a_constant_channel_stays_while_the_others_are_stretched():
    images = pictures(3, 32, 32)[-1:].clone()
    images[:, 1] = 77
    views = run(OPERATIONS["AutoContrast"], images, 0.0)
    assert (views[:, 1] == 77).all()
    assert views[:, 0].min() == 0
    assert views[:, 0].max() == 255


def test_color_leaves_grey_images_alone():
    images = pictures(1, 32, 32)
    assert torch.equal(run(OPERATIONS["Color"], images, 0.3), images)


@pytest.mark.parametrize("size", [(1, 1), (1, 7), (7, 1), (2, 2), (3, 3), (2, 9)])
@pytest.mark.parametrize("name", FOURTEEN)
def test_tiny_images_come_out_as_from_pillow(name, size):
    images = pictures(3, 32, 32)[:, :, 8 : 8 + size[0], 8 : 8 + size[1]].contiguous()
    theirs = released_magnitude(name, 7, 1, (size[1], size[0]))
    operation = natural()[name]
    views = run(operation, images, operation.low + 7 * (operation.high - operation.low) / 10)
    wanted = each(images, lambda image, _: operate(image, name, theirs))
    assert torch.equal(views, wanted), differences(views, wanted)
