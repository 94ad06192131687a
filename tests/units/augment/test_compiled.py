"""The compiled loops against torch and against Pillow: not one bit may differ."""

import warnings
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from pillow_reference import SIZES, cutout, each, flip_crop, operate, pictures, released_magnitude

from interlude.adjacent import room, rooms
from interlude.augment import (
    OPERATIONS,
    AugmentConfig,
    Chain,
    Cutout,
    FlipCrop,
    Identity,
    RandAugment,
    build,
    compiled,
    normalize,
    policy_names,
    take,
)
from interlude.augment.geometry import translate_x_whole, translate_y_whole

MEAN, STD = (0.4914, 0.4822, 0.4465), (0.2471, 0.2435, 0.2616)
TINY = ((1, 1), (2, 3), (3, 2), (9, 5))
WHOLE = (
    OPERATIONS["TranslateX"]._replace(plan=translate_x_whole),
    OPERATIONS["TranslateY"]._replace(plan=translate_y_whole),
)

ON_SIZES = pytest.mark.parametrize("size", SIZES, ids=lambda size: "x".join(map(str, size)))
ON_CHANNELS = pytest.mark.parametrize("channels", [1, 3])


def by_torch(images, augmentation, draw):
    channels = images.shape[1]
    return normalize(augmentation.apply(images, draw), MEAN[:channels], STD[:channels], channels_last=True)


def by_loops(images, augmentation, draw):
    channels = images.shape[1]
    place = room(1, *images.shape, device=images.device)
    ready = compiled.prepare([images], [place], augmentation, draw, MEAN[:channels], STD[:channels])
    if ready is None:
        return None
    ready()
    return place[0]


def drawn(augmentation, n, seed=0, group=1):
    """A draw of n rows, in which `group` neighbours at a time share one realisation."""
    draw = augmentation.draw(-(-n // group), torch.Generator().manual_seed(seed))
    return take(draw, torch.arange(n) // group)


def bits(views):
    return views.contiguous().view(torch.int32)


def assert_same_bits(views, wanted):
    assert views is not None, "the loops do not know this augmentation"
    assert views.shape == wanted.shape
    assert views.stride() == wanted.stride() or not len(views)
    rows = (bits(views) != bits(wanted)).flatten(1).any(1).nonzero().flatten().tolist()
    assert not rows, f"{len(rows)} of {len(views)} views differ, first in row {rows[0]}"


def noise(n, channels, height, width, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(256, (n, channels, height, width), generator=generator, dtype=torch.uint8)


@ON_SIZES
@ON_CHANNELS
def test_every_operation_in_either_slot_at_every_level_equals_torch(channels, size):
    operations = (*OPERATIONS.values(), *WHOLE)
    randaugment = RandAugment(operations)
    numbers = [torch.arange(len(operations)), torch.arange(11), torch.tensor([-1, 1]), torch.arange(2)]
    operation, level, sign, slot = torch.cartesian_prod(*numbers).unbind(1)
    here = torch.arange(2) == slot[:, None]
    draw = {
        "operation": operation[:, None].repeat(1, 2),
        "level": level[:, None].float().repeat(1, 2),
        "sign": sign[:, None].repeat(1, 2),
        "applied": here,
    }
    for first in (0, 7):
        images = pictures(channels, *size)[(first + torch.arange(len(operation))) % 15]
        assert_same_bits(by_loops(images, randaugment, draw), by_torch(images, randaugment, draw))


@pytest.mark.parametrize("level", [0.25, -2.0, 12.0])
def test_levels_that_are_not_on_the_list_equal_torch(level):
    randaugment, images = RandAugment(), noise(28, 3, 9, 5)
    draw = drawn(randaugment, 28) | {
        "operation": (torch.arange(28) % 14)[:, None].expand(-1, 2),
        "level": torch.tensor([3.0, level]).expand(28, 2),
        "applied": torch.ones(28, 2, dtype=torch.bool),
    }
    assert_same_bits(by_loops(images, randaugment, draw), by_torch(images, randaugment, draw))


@ON_SIZES
@ON_CHANNELS
@pytest.mark.parametrize("policy", policy_names())
def test_every_view_of_every_policy_equals_torch(policy, channels, size):
    images = pictures(channels, *size).repeat(6, 1, 1, 1)
    for augmentation in build(AugmentConfig(policy)).values():
        for group in (1, 5):
            draw = drawn(augmentation, len(images), group=group)
            assert_same_bits(by_loops(images, augmentation, draw), by_torch(images, augmentation, draw))


@ON_SIZES
@ON_CHANNELS
def test_strong_views_of_natural_images_equal_pillow(channels, size):
    strong = build()["strong"]
    images = pictures(channels, *size).repeat(10, 1, 1, 1)
    draw = drawn(strong, len(images), seed=1)
    names = [operation.name for operation in strong.parts[1].operations]

    def one(image, i):
        image = flip_crop(image, draw["flip"][i], draw["crop"][i].tolist())
        for slot in draw["applied"][i].nonzero().flatten():
            name = names[draw["operation"][i, slot]]
            level, sign = int(draw["level"][i, slot]), int(draw["sign"][i, slot])
            image = operate(image, name, released_magnitude(name, level, sign, image.size))
        return cutout(image, image.size[0] // 2, draw["centre"][i].tolist(), (127, 127, 127))

    wanted = normalize(each(images, one), MEAN[:channels], STD[:channels], channels_last=True)
    assert_same_bits(by_loops(images, strong, draw), wanted)


@settings(max_examples=60, deadline=None)
@given(
    height=st.integers(1, 40),
    width=st.integers(1, 40),
    channels=st.sampled_from([1, 3]),
    group=st.integers(1, 4),
    count=st.integers(0, 4),
    padding=st.floats(0, 0.49),
    reflect=st.booleans(),
    stretch=st.floats(0.1, 4),
    largest=st.floats(0, 1.5),
    seed=st.integers(0, 2**32),
)
def test_any_strengths_and_sizes_equal_torch(
    height, width, channels, group, count, padding, reflect, stretch, largest, seed
):
    operations = tuple(
        operation._replace(low=operation.low * stretch, high=operation.high * stretch)
        for operation in (*OPERATIONS.values(), *WHOLE)
    )
    augmentation = Chain(
        FlipCrop(padding=padding, reflect=reflect),
        RandAugment(operations, count=count, probability=0.9, continuous=True),
        Cutout(0.0, largest, fill=(3, 120, 255), whole_pixels=False),
    )
    images = noise(24, channels, height, width, seed)
    draw = drawn(augmentation, len(images), seed, group)
    assert_same_bits(by_loops(images, augmentation, draw), by_torch(images, augmentation, draw))


@pytest.mark.parametrize("size", TINY, ids=lambda size: "x".join(map(str, size)))
@ON_CHANNELS
def test_the_smallest_images_equal_torch(channels, size):
    strong = build(AugmentConfig("usb"))["strong"]
    images = noise(200, channels, *size)
    draw = drawn(strong, len(images))
    assert_same_bits(by_loops(images, strong, draw), by_torch(images, strong, draw))


@pytest.mark.parametrize("n", [0, 1])
@pytest.mark.parametrize("view", ["plain", "weak", "strong"])
def test_few_images_equal_torch(view, n):
    augmentation, images = build()[view], noise(n, 3, 8, 8)
    draw = drawn(augmentation, n)
    assert_same_bits(by_loops(images, augmentation, draw), by_torch(images, augmentation, draw))


def test_a_map_of_the_image_before_is_used_again_only_if_it_is_the_same():
    rotate = RandAugment((OPERATIONS["Rotate"], OPERATIONS["Solarize"]), count=1)
    level = torch.tensor([[3.0], [3.0], [8.0], [3.0], [3.0], [3.0]])
    draw = {
        "operation": torch.tensor([[0], [0], [0], [0], [1], [0]]),
        "level": level,
        "sign": torch.ones_like(level).long(),
        "applied": torch.ones_like(level).bool(),
    }
    images = noise(6, 3, 32, 32)
    assert_same_bits(by_loops(images, rotate, draw), by_torch(images, rotate, draw))


LAYOUTS = {
    "channels last": lambda images: images.contiguous(memory_format=torch.channels_last),
    "every other row": lambda images: images.repeat_interleave(2, dim=0)[::2],
    "a window": lambda images: torch.nn.functional.pad(images, (1, 2, 3, 4))[:, :, 3:-4, 1:-2],
    "one image many times": lambda images: images[:1].expand(len(images), -1, -1, -1),
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_images_may_lie_anyhow_in_memory(layout):
    strong, images = build()["strong"], LAYOUTS[layout](noise(12, 3, 16, 20))
    draw = drawn(strong, len(images))
    assert_same_bits(by_loops(images, strong, draw), by_torch(images.contiguous(), strong, draw))


def test_images_may_be_a_memory_map_that_cannot_be_written(tmp_path):
    strong, images = build()["strong"], noise(12, 3, 16, 20)
    images.numpy().tofile(tmp_path / "pixels")
    pixels = np.memmap(tmp_path / "pixels", np.uint8, "r", shape=tuple(images.shape))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch warns that it cannot protect them
        mapped = torch.from_numpy(pixels)
    draw = drawn(strong, len(images))
    assert_same_bits(by_loops(mapped, strong, draw), by_torch(images, strong, draw))
    assert len(compiled.kernels.render.signatures) == 1


def test_views_of_several_steps_leave_what_lies_between_them_as_it_was():
    strong, images = build()["strong"], noise(12, 3, 16, 16)
    draw = drawn(strong, len(images))
    before, place, after = rooms(3, [2, 4, 1], images.shape[1:], images.device)
    before.zero_()
    after.zero_()
    compiled.prepare([images], [place], strong, draw, MEAN, STD)()
    assert_same_bits(torch.cat([*place]), by_torch(images, strong, draw))
    assert not before.any()
    assert not after.any()


def test_images_and_draws_are_left_as_they_were():
    strong, images = build()["strong"], noise(12, 3, 16, 16)
    draw = drawn(strong, len(images))
    before = {name: values.clone() for name, values in draw.items()}
    pixels = images.clone()
    by_loops(images, strong, draw)
    assert torch.equal(images, pixels)
    assert all(torch.equal(values, before[name]) for name, values in draw.items())


def test_no_input_makes_the_loops_compile_again():
    for channels in (1, 3):
        for augmentation in build().values():
            for layout in LAYOUTS.values():
                images = layout(noise(2, channels, 8, 8))
                shared = {
                    name: values[:1].expand(2, *values.shape[1:])
                    for name, values in drawn(augmentation, 1).items()
                }
                by_loops(images, augmentation, shared)
    assert len(compiled.kernels.render.signatures) == 1


class Custom:
    """An augmentation that nobody has heard of."""

    def draw(self, n, generator):
        return {}

    def apply(self, images, draw):
        return 255 - images


class CustomCrop(FlipCrop):
    """A crop that does something else."""

    def apply(self, images, draw):
        return 255 - super().apply(images, draw)


def another_warp(images, maps):
    return images


UNKNOWN = {
    "a class": Custom(),
    "a subclass": CustomCrop(),
    "a part": Chain(FlipCrop(), Custom()),
    "an order": Chain(Cutout(), FlipCrop()),
    "a chain in a chain": Chain(FlipCrop(), Chain(Cutout())),
    "a plan": RandAugment((OPERATIONS["Rotate"]._replace(plan=lambda images, degrees: degrees),)),
    "a way to carry out": RandAugment((OPERATIONS["Rotate"]._replace(carry_out=another_warp),)),
    "a pad of half the image": FlipCrop(padding=0.5),
}


@pytest.mark.parametrize("what", UNKNOWN)
def test_what_the_loops_do_not_know_they_leave_alone(what):
    augmentation = UNKNOWN[what]
    assert by_loops(noise(4, 3, 8, 8), augmentation, drawn(augmentation, 4)) is None


@pytest.mark.parametrize(
    "images", [noise(4, 2, 8, 8), noise(4, 3, 8, 8).float()], ids=["two channels", "floats"]
)
def test_images_the_loops_cannot_read_they_leave_alone(images):
    assert by_loops(images, Identity(), {}) is None


def test_a_draw_of_too_few_rows_is_not_read_beyond_its_end():
    weak = build()["weak"]
    assert by_loops(noise(8, 3, 8, 8), weak, drawn(weak, 4)) is None


def test_parts_may_be_missing():
    crop, operations, painted = build()["strong"].parts
    images = noise(60, 3, 16, 16)
    for parts in ((), (crop,), (operations,), (painted,), (crop, painted), (Identity(), operations, painted)):
        augmentation = Chain(*parts) if parts else Identity()
        draw = drawn(augmentation, len(images))
        assert_same_bits(by_loops(images, augmentation, draw), by_torch(images, augmentation, draw))


def test_without_a_folder_for_machine_code_there_are_loops_all_the_same():
    class NoFolder:
        def enable_caching(self):
            raise RuntimeError("cannot cache function: no locator available")

    loops = NoFolder()
    assert compiled.kernels.kept(loops) is loops


def test_replacing_a_range_keeps_an_operation_known():
    brighter = replace(RandAugment(), operations=(OPERATIONS["Brightness"]._replace(high=2.5),))
    images = noise(20, 3, 8, 8)
    draw = drawn(brighter, len(images))
    assert_same_bits(by_loops(images, brighter, draw), by_torch(images, brighter, draw))
