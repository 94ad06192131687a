"""Which operation meets which image: every order, every number of them, however draws are shared."""

import pytest
import torch
from pillow_reference import (
    FOURTEEN,
    cutout,
    differences,
    each,
    flip_crop,
    operate,
    pictures,
    released_magnitude,
)

from interlude.augment import AugmentConfig, Chain, Identity, build, check_augmentation, take
from interlude.augment.groups import Groups, Overwriting

GREY = (127, 127, 127)


def strong(operations=2):
    return build(AugmentConfig(operations=operations))["strong"]


def by_pillow(augmentation, images, draw):
    """The strong views of the policy `natural`, one image at a time."""
    names = [operation.name for operation in augmentation.parts[1].operations]

    def one(image, i):
        image = flip_crop(image, draw["flip"][i], draw["crop"][i].tolist())
        slots = zip(
            *(draw[key][i].tolist() for key in ("operation", "level", "sign", "applied")), strict=True
        )
        for index, level, sign, applied in slots:
            if applied:
                magnitude = released_magnitude(names[index], int(level), sign, image.size)
                image = operate(image, names[index], magnitude)
        return cutout(image, image.size[0] // 2, draw["centre"][i].tolist(), GREY)

    return each(images, one)


def assert_equal_to_pillow(augmentation, images, draw):
    views, wanted = augmentation.apply(images, draw), by_pillow(augmentation, images, draw)
    assert torch.equal(views, wanted), differences(views, wanted)


def drawn(augmentation, n):
    return augmentation.draw(n, torch.Generator().manual_seed(0))


@pytest.mark.parametrize("size", [(32, 32), (17, 23)], ids=["even", "odd"])
@pytest.mark.parametrize("channels", [1, 3])
def test_every_operation_after_every_other_equals_pillow(channels, size):
    augmentation, kinds = strong(), len(FOURTEEN)
    pairs = torch.cartesian_prod(torch.arange(kinds), torch.arange(kinds))
    draw = drawn(augmentation, len(pairs))
    draw |= {"operation": pairs, "applied": torch.ones_like(pairs, dtype=torch.bool)}
    images = pictures(channels, *size)[-6:].repeat(33, 1, 1, 1)[: len(pairs)]
    assert_equal_to_pillow(augmentation, images, draw)


@pytest.mark.parametrize("count", [0, 1, 3])
def test_any_number_of_operations_equals_pillow(count):
    augmentation = strong(count)
    images = pictures(3, 32, 32).repeat(8, 1, 1, 1)
    assert_equal_to_pillow(augmentation, images, drawn(augmentation, len(images)))


@pytest.mark.parametrize("lengths", [[8] * 5, [1, 7, 7, 7], [4, 2, 6, 2], [5, 1, 9], [1]], ids=str)
@pytest.mark.parametrize("size", [(32, 32), (96, 96)], ids=["small", "large"])
def test_groups_of_any_lengths_equal_pillow(size, lengths):
    augmentation = strong()
    group_of_row = torch.arange(len(lengths)).repeat_interleave(torch.tensor(lengths))
    draw = take(drawn(augmentation, len(lengths)), group_of_row)
    draw["applied"] = torch.ones_like(draw["applied"])
    images = pictures(3, *size).repeat(3, 1, 1, 1)[-len(group_of_row) :]
    assert_equal_to_pillow(augmentation, images, draw)


def test_pixels_laid_out_channels_last_give_the_same_views():
    augmentation = strong()
    images = pictures(3, 32, 32).repeat(4, 1, 1, 1)
    draw = drawn(augmentation, len(images))
    turned = images.contiguous(memory_format=torch.channels_last)
    for part in (augmentation, *augmentation.parts, Chain(Identity(), *augmentation.parts[1:])):
        assert torch.equal(part.apply(turned, draw), part.apply(images, draw)), f"{part} saw another layout"


@pytest.mark.parametrize("part", strong().parts, ids=lambda part: type(part).__name__)
def test_a_part_alone_keeps_the_contract(part):
    check_augmentation(part)


def test_a_part_that_can_overwrite_gives_what_it_gives_otherwise():
    augmentation = strong()
    images = pictures(3, 32, 32).repeat(4, 1, 1, 1)[:, None]
    draw = drawn(augmentation, len(images))
    overwriting = [part for part in augmentation.parts if isinstance(part, Overwriting)]
    assert len(overwriting) == 2, "operations and cutout need no memory of their own"
    for part in overwriting:
        wanted, lost = part.views(Groups(images), draw), images.clone()
        views = part.overwrite(lost, draw)
        assert torch.equal(views, wanted)
        assert views.data_ptr() == lost.data_ptr(), f"{part} took new memory"


def test_a_chain_may_hold_parts_that_cannot_overwrite():
    weak, operations, _ = strong().parts
    chain = Chain(operations, weak)
    images = pictures(3, 32, 32)
    draw = drawn(chain, len(images))
    assert torch.equal(chain.apply(images, draw), weak.apply(operations.apply(images, draw), draw))


def test_views_can_be_changed_and_trained_on():
    images = pictures(3, 32, 32)
    views = strong().apply(images, drawn(strong(), len(images)))
    weight = torch.ones(3, 1, 1, requires_grad=True)
    (weight * views.add_(1).float()).sum().backward()
    assert weight.grad is not None
