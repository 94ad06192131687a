"""Cuts out of lines laid out for them, and what groups of images share."""

import numpy as np
import pytest
import torch
from pillow_reference import pictures

from interlude.augment import Chain, Cutout, FlipCrop, Identity, build, take
from interlude.augment import groups as groups_module
from interlude.augment.groups import Groups, views_of
from interlude.augment.strips import Strips


def padded(images, pad, mirrored, **how):
    """Each image, mirrored or not, with more pixels around it."""
    images = images.flip(-1) if mirrored else images
    return np.pad(images.numpy(), [(0, 0)] * (images.ndim - 2) + [(pad, pad)] * 2, **how)


@pytest.mark.parametrize("mirrored", [False, True])
@pytest.mark.parametrize("size", [(6, 6), (4, 7), (2, 2)], ids=str)
def test_every_cut_of_a_reflected_image_is_that_of_the_padded_one(size, mirrored):
    images = pictures(3, *size)[None, :2]
    height, width = size
    wanted = padded(images, width - 1, mirrored, mode="reflect")[..., width - 1 : width - 1 + height, :]
    for first in range(1 - width, width):
        cut = Strips(images).cut(np.arange(height)[None], np.array([first]), np.array([mirrored]))
        start = width - 1 + first
        assert np.array_equal(cut, wanted[..., start : start + width]), f"cut from {first} on"


@pytest.mark.parametrize("mirrored", [False, True])
def test_every_cut_of_an_image_in_black_is_that_of_the_padded_one(mirrored):
    images = pictures(3, 5, 8)[None, :2]
    wanted = padded(images, 3, mirrored)
    for top in range(7):
        for first in range(-3, 4):
            rows = top + np.arange(5)[None]
            cut = Strips(images, (3, 3)).cut(rows, np.array([first]), np.array([mirrored]))
            assert np.array_equal(cut, wanted[..., top : top + 5, first + 3 : first + 11])


def test_lines_are_taken_in_any_order():
    images = pictures(1, 4, 4)[None, :1]
    cut = Strips(images).cut(np.array([[3, 3, 0, 1]]), np.array([0]), np.array([False]))
    assert torch.equal(cut, images[..., [3, 3, 0, 1], :])


def test_all_views_of_groups_are_cut_out_of_the_same_lines():
    groups = Groups(pictures(3, 8, 8)[:4].view(2, 2, 3, 8, 8))
    assert groups.strips(None) is groups.strips(None)
    assert groups.strips((1, 1)) is not groups.strips(None)


class Shifted:
    """An augmentation of somebody else's, which knows no groups."""

    def draw(self, n, generator):
        return {"shift": torch.randint(1, 99, (n,), generator=generator)}

    def apply(self, images, draw):
        return images + draw["shift"].view(-1, 1, 1, 1).to(torch.uint8)


def known_and_unknown():
    strong = build()["strong"]
    return [Identity(), FlipCrop(reflect=False), Shifted(), strong, Chain(Shifted(), *strong.parts)]


@pytest.mark.parametrize("augmentation", known_and_unknown(), ids=lambda found: type(found).__name__)
def test_a_group_is_treated_like_its_images_one_by_one(augmentation):
    images = pictures(3, 16, 16)[-12:].reshape(4, 3, 3, 16, 16)
    draw = augmentation.draw(4, torch.Generator().manual_seed(0))
    group_of_row = torch.arange(12) // 3
    alone = augmentation.apply(images.flatten(0, 1), take(draw, group_of_row))
    assert torch.equal(views_of(augmentation, Groups(images), draw).flatten(0, 1), alone)


@pytest.fixture
def every_group_is_large(monkeypatch):
    monkeypatch.setattr(groups_module, "LARGE", 0)


@pytest.mark.parametrize("reflect", [True, False])
@pytest.mark.parametrize("padding", [0.0, 0.125, 0.49])
@pytest.mark.parametrize("size", [(9, 12), (12, 9), (2, 5), (4, 4)], ids=str)
def test_large_groups_are_cut_as_small_ones(size, padding, reflect, monkeypatch):
    crop = FlipCrop(padding=padding, reflect=reflect)
    images = pictures(3, *size).repeat(40, 1, 1, 1)[:80].view(40, 2, 3, *size)
    draw = crop.draw(40, torch.Generator().manual_seed(0))
    wanted = crop.views(Groups(images), draw)
    monkeypatch.setattr(groups_module, "LARGE", 0)
    assert torch.equal(crop.views(Groups(images), draw), wanted)


@pytest.mark.usefixtures("every_group_is_large")
def test_large_groups_padded_by_half_an_image_are_cut_out_of_lines():
    crop = FlipCrop(padding=0.9)
    images = pictures(3, 8, 8)[None, :2]
    draw = {"flip": torch.tensor([True]), "crop": torch.tensor([[0.999, 0.0]])}
    wanted = padded(images, 7, True, mode="reflect")[..., 14:22, 0:8]
    assert np.array_equal(crop.views(Groups(images), draw), wanted)


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("cutout", [Cutout(), Cutout(0.0, 0.9, fill=(1, 2, 3)), Cutout(0.0, 0.0)], ids=str)
def test_large_groups_are_painted_as_small_ones(cutout, channels, monkeypatch):
    images = pictures(channels, 9, 12).repeat(40, 1, 1, 1)[:80].view(40, 2, channels, 9, 12)
    draw = cutout.draw(40, torch.Generator().manual_seed(0))
    wanted = cutout.overwrite(images.clone(), draw)
    monkeypatch.setattr(groups_module, "LARGE", 0)
    assert torch.equal(cutout.overwrite(images.clone(), draw), wanted)
