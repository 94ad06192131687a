"""The small network for CPUs."""

import pytest
import torch

from interlude.models import ModelConfig, build


def test_it_stays_small(make):
    assert sum(x.numel() for x in make(num_classes=10).parameters()) == 147_138


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("size", [(8, 8), (16, 16), (28, 28), (33, 47), (96, 96), (1, 1)])
def test_it_takes_images_of_any_size(make, size, channels):
    cfg = ModelConfig(name="cnn")
    model = build(cfg, num_classes=3, channels=channels, image_size=size)
    logits = model(torch.randn(2, channels, *size))
    assert logits.shape == (2, 3)
    assert logits.isfinite().all()


@pytest.mark.parametrize(("size", "side"), [(16, 4), (23, 6), (24, 3), (32, 4)])
def test_its_stem_halves_all_but_tiny_images(make, size, side):
    seen = []
    make(size=size)(torch.randn(2, 3, size, size), midway=lambda x: seen.append(x.shape) or x, at="stage")
    assert seen == [(2, 64, side, side)]


def test_its_weights_come_in_channels_last_order(make, images):
    model = make()
    assert model.backbone.last.conv1.weight.is_contiguous(memory_format=torch.channels_last)
    seen = []
    model(images, midway=lambda maps: seen.append(maps) or maps, at="stage")
    assert seen[0].is_contiguous(memory_format=torch.channels_last)


def test_it_fits_a_handful_of_images(make, images):
    torch.manual_seed(0)
    model, y = make(num_classes=5), torch.arange(5)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    for _ in range(20):
        loss = torch.nn.functional.cross_entropy(model(images), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert loss < 0.05
