"""Whole views, from the draw to the last pixel, against Pillow one image at a time."""

import pytest
import torch
from pillow_reference import (
    SIZES,
    cutout,
    differences,
    each,
    flip_crop,
    operate,
    pictures,
    released_magnitude,
    usb_magnitude,
)

from interlude.augment import AugmentConfig, build, take

ON_SIZES = pytest.mark.parametrize("size", SIZES, ids=lambda size: "x".join(map(str, size)))
ON_CHANNELS = pytest.mark.parametrize("channels", [1, 3])
ON_GROUPS = pytest.mark.parametrize("group", [1, 5, 7], ids="groups_of_{}".format)  # 300 / 7 leaves a rest
REPEATS = 20  # times the 15 pictures


def batch(channels, size):
    return pictures(channels, *size).repeat(REPEATS, 1, 1, 1)


def drawn(augmentation, n, seed=0, group=1):
    """A draw of n rows, in which `group` neighbours at a time share one realisation."""
    draw = augmentation.draw(-(-n // group), torch.Generator().manual_seed(seed))
    return take(draw, torch.arange(n) // group)


def names_of(strong):
    return [operation.name for operation in strong.parts[1].operations]


def slots(draw, row):
    """(operation, level, sign, applied) of every operation of one row, as Python numbers."""
    return list(
        zip(*(draw[key][row].tolist() for key in ("operation", "level", "sign", "applied")), strict=True)
    )


@ON_SIZES
@ON_CHANNELS
@ON_GROUPS
def test_weak_views_of_natural_images_equal_pillow(group, channels, size):
    weak = build()["weak"]
    images = batch(channels, size)
    draw = drawn(weak, len(images), group=group)
    wanted = each(images, lambda image, i: flip_crop(image, draw["flip"][i], draw["crop"][i].tolist()))
    views = weak.apply(images, draw)
    assert torch.equal(views, wanted), differences(views, wanted)


@ON_SIZES
@ON_CHANNELS
@ON_GROUPS
def test_strong_views_of_natural_images_equal_pillow(group, channels, size):
    strong = build()["strong"]
    images = batch(channels, size)
    draw = drawn(strong, len(images), group=group)

    def one(image, i):
        image = flip_crop(image, draw["flip"][i], draw["crop"][i].tolist())
        for index, level, sign, applied in slots(draw, i):
            if applied:
                name = names_of(strong)[index]
                image = operate(image, name, released_magnitude(name, int(level), sign, image.size))
        return cutout(image, image.size[0] // 2, draw["centre"][i].tolist(), (127, 127, 127))

    views, wanted = strong.apply(images, draw), each(images, one)
    assert torch.equal(views, wanted), differences(views, wanted)


@ON_SIZES
@ON_CHANNELS
def test_strong_views_of_usb_equal_pillow(channels, size):
    strong = build(AugmentConfig("usb"))["strong"]
    images = batch(channels, size)
    draw = drawn(strong, len(images))

    def one(image, i):
        image = flip_crop(image, draw["flip"][i], draw["crop"][i].tolist())
        for index, level, sign, applied in slots(draw, i):
            assert applied, "USB applies all its operations"
            name = names_of(strong)[index]
            image = operate(image, name, usb_magnitude(name, level / 10, sign, image.size))
        side = draw["side"][i].item() * 0.5 * image.size[0]
        return cutout(image, side, draw["centre"][i].tolist(), (125, 123, 114))

    views, wanted = strong.apply(images, draw), each(images, one)
    assert torch.equal(views, wanted), differences(views, wanted)


@ON_SIZES
@ON_CHANNELS
@pytest.mark.parametrize(("policy", "border"), [("digits", "constant"), ("grayscale-medical", "reflect")])
def test_strong_views_of_the_gentle_policies_equal_pillow(policy, border, channels, size):
    strong = build(AugmentConfig(policy))["strong"]
    operations = strong.parts[1].operations
    images = batch(channels, size)
    draw = drawn(strong, len(images))

    def one(image, i):
        image = flip_crop(image, draw["flip"][i], draw["crop"][i].tolist(), mode=border)
        for index, level, sign, applied in slots(draw, i):
            name, _, _, low, high, signed = operations[index]
            magnitude = (low + level * (high - low) / 10) * (sign if signed else 1)
            if name.startswith("Translate"):
                magnitude *= image.size[name == "TranslateY"]
            image = operate(image, name, magnitude) if applied else image
        return cutout(image, int(0.3 * image.size[0]), draw["centre"][i].tolist(), (127, 127, 127))

    views, wanted = strong.apply(images, draw), each(images, one)
    assert torch.equal(views, wanted), differences(views, wanted)


@pytest.mark.parametrize("view", ["weak", "strong"])
def test_group_members_share_their_draw(view):
    augmentation = build()[view]
    one_image = pictures(3, 32, 32)[-1:]
    group_of_row = torch.arange(8 * 6) // 6
    views = augmentation.apply(one_image.expand(48, -1, -1, -1), take(drawn(augmentation, 8), group_of_row))
    groups = views.unflatten(0, (8, 6))
    assert (groups == groups[:, :1]).all(), "six copies of one image with one draw must look the same"
    assert len(groups[:, 0].unique(dim=0)) > 4, (
        "different groups have different draws and should look different"
    )


def test_weak_and_strong_views_have_draws_of_their_own():
    views = build()
    generator = torch.Generator().manual_seed(0)
    weak, strong = (views[kind].draw(64, generator) for kind in ("weak", "strong"))
    assert not torch.equal(weak["crop"], strong["crop"])


def test_one_draw_fits_images_of_any_size():
    weak = build()["weak"]
    draw = drawn(weak, 15)
    for size in ((32, 32), (64, 64)):
        images = pictures(1, *size)
        wanted = each(images, lambda image, i: flip_crop(image, draw["flip"][i], draw["crop"][i].tolist()))
        assert torch.equal(weak.apply(images, draw), wanted)
