"""Normalisation and the contact sheet."""

import numpy as np
import pytest
import torch
from PIL import Image
from pillow_reference import pictures

from interlude.augment import normalize, sheet
from interlude.augment.views import scaling

MEAN, STD = (0.4914, 0.4822, 0.4465), (0.2471, 0.2435, 0.2616)


@pytest.mark.parametrize("channels", [1, 3])
def test_normalized_images_follow_the_formula(channels):
    images = pictures(channels, 32, 32)
    mean, std = MEAN[:channels], STD[:channels]
    wanted = np.stack([(images[:, c].numpy() / 255 - mean[c]) / std[c] for c in range(channels)], axis=1)
    normal = normalize(images, mean, std)
    assert normal.dtype == torch.float32
    assert np.abs(normal.numpy() - wanted).max() < 1e-6


def test_normalizing_can_put_the_channels_last():
    images = pictures(3, 17, 23)
    planar, last = normalize(images, MEAN, STD), normalize(images, MEAN, STD, channels_last=True)
    assert planar.is_contiguous()
    assert last.is_contiguous(memory_format=torch.channels_last)
    assert torch.equal(planar, last)


def test_normalizing_no_images_gives_none():
    assert normalize(torch.zeros(0, 3, 8, 8, dtype=torch.uint8), MEAN, STD).shape == (0, 3, 8, 8)


@pytest.mark.parametrize("channels_last", [False, True])
def test_a_large_batch_is_normalized_to_its_last_image(channels_last):
    images = pictures(3, 96, 96)
    normal = normalize(images, MEAN, STD, channels_last=channels_last)
    for row in (0, 6, 14):
        assert torch.equal(normal[row : row + 1], normalize(images[row : row + 1], MEAN, STD))


def test_normalizing_multiplies_once_and_adds_once():
    images = pictures(3, 32, 32)
    scale, offset = (numbers.view(3, 1, 1) for numbers in scaling(MEAN, STD))
    assert torch.equal(normalize(images, MEAN, STD, channels_last=True), images.float() * scale + offset)


def test_normalizing_leaves_the_bytes_alone():
    images = pictures(3, 32, 32)
    before = images.clone()
    normalize(images, MEAN, STD)
    assert torch.equal(images, before)


@pytest.mark.parametrize("channels", [1, 3])
def test_a_sheet_shows_every_image_enlarged(tmp_path, channels):
    images = torch.tensor([1, 9, 17, 25], dtype=torch.uint8).view(4, 1, 1, 1).expand(4, channels, 16, 16)
    sheet([{"original": images[:2], "strong": images[2:]}], tmp_path / "sheet.png")
    page = np.asarray(Image.open(tmp_path / "sheet.png"))
    for value in (1, 9, 17, 25):  # darker than any text
        assert (page == value).all(axis=2).sum() == 64 * 64, (
            f"the image of value {value} is not there once, 4 x 4"
        )


def test_a_sheet_grows_by_groups_and_keeps_large_images_at_their_size(tmp_path):
    group = {"weak": pictures(3, 96, 96)[:3]}
    sheet([group], tmp_path / "one.png", titles=["cats"])
    sheet([group] * 3, tmp_path / "three.png", titles=["cats", "dogs", "none"], columns=["labeled", "u", "u"])
    one, three = Image.open(tmp_path / "one.png"), Image.open(tmp_path / "three.png")
    assert one.width >= 3 * 96
    assert three.height > 2 * one.height
