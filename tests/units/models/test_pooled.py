"""A convolution and its pool, some images at a time, are what they are for all images at once."""

import pytest
import torch
from torch import nn

from interlude.models import pooled, use
from interlude.models.layers import halved
from interlude.models.pooled import halved_convolution

BACKENDS = pytest.mark.parametrize("backend", ["torch", "numba"])


@pytest.fixture(autouse=True)
def three_images_at_once(monkeypatch):
    monkeypatch.setattr(pooled, "images_at_once", lambda layer, x: 3)
    yield
    use("auto")


def layer_and_maps(count=8, channels=16, size=(36, 40)):
    """A layer of as many channels out as in, and maps large enough for compiled loops."""
    torch.manual_seed(0)
    layer = nn.Conv2d(channels, 32, 3, padding=1, bias=False).to(memory_format=torch.channels_last)
    x = torch.randn(count, channels, *size).to(memory_format=torch.channels_last).requires_grad_()
    return layer, x


def gradients(y, layer, x, **how):
    return torch.autograd.grad(y.sin().sum(), (x, layer.weight), **how)


@BACKENDS
def test_maps_are_the_same_to_the_bit(backend):
    use(backend)
    layer, x = layer_and_maps()
    found = halved_convolution(layer, x)
    assert "HalvedConvolution" in type(found.grad_fn).__name__
    assert torch.equal(found, halved(layer(x)))
    assert found.is_contiguous(memory_format=torch.channels_last)


@BACKENDS
def test_gradients_are_those_of_all_images_at_once(backend):
    use(backend)
    layer, x = layer_and_maps()
    found = gradients(halved_convolution(layer, x), layer, x)
    expected = gradients(halved(layer(x)), layer, x)
    assert torch.equal(found[0], expected[0])
    torch.testing.assert_close(found[1], expected[1], rtol=1e-5, atol=1e-3)
    assert found[0].is_contiguous(memory_format=torch.channels_last)


def test_both_back_ends_give_the_same_bits():
    layer, x = layer_and_maps()
    results = []
    for backend in ("torch", "numba"):
        use(backend)
        y = halved_convolution(layer, x)
        results.append([y, *gradients(y, layer, x)])
    assert all(map(torch.equal, *results))


def test_a_gradient_can_be_differentiated_again():
    layer, x = layer_and_maps(size=(4, 4))
    twice = []
    for y in (halved_convolution(layer, x), halved(layer(x))):
        first = gradients(y, layer, x, create_graph=True)
        twice.append(torch.autograd.grad(sum(g.square().sum() for g in first), (x, layer.weight)))
    for found, expected in zip(*twice, strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("which", ["x", "weight"])
def test_only_gradients_that_are_asked_for_are_computed(which):
    layer, x = layer_and_maps(size=(4, 4))
    (layer.weight if which == "x" else x).requires_grad_(False)
    wanted = x if which == "x" else layer.weight
    (found,) = torch.autograd.grad(halved_convolution(layer, x).sum(), wanted)
    (expected,) = torch.autograd.grad(halved(layer(x)).sum(), wanted)
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)


PLAIN = {
    "few images": lambda layer, x: (layer, x[:3]),
    "double precision": lambda layer, x: (layer.double(), x.double()),
    "planes apart": lambda layer, x: (layer, x.contiguous()),
    "odd sides": lambda layer, x: (layer, x[:, :, :35]),
    "a hook": lambda layer, x: (layer.register_forward_hook(lambda *_: None) and layer, x),
}


@pytest.mark.parametrize("how", PLAIN)
def test_what_is_not_of_the_usual_kind_is_left_to_torch(how):
    layer, x = PLAIN[how](*layer_and_maps())
    found = halved_convolution(layer, x)
    assert "HalvedConvolution" not in type(found.grad_fn).__name__
    assert torch.equal(found, halved(layer(x)))


def test_without_a_gradient_nothing_is_cut():
    layer, x = layer_and_maps()
    with torch.no_grad():
        assert torch.equal(halved_convolution(layer, x), halved(layer(x)))


def test_so_many_images_are_taken_as_fill_a_cache(monkeypatch):
    monkeypatch.undo()
    layer, x = layer_and_maps(count=1, size=(16, 16))
    assert pooled.images_at_once(layer, x) == 2**21 * torch.get_num_threads() // (32 * 16 * 16 * 4)
    assert pooled.images_at_once(layer, x.expand(1, 16, 16, 16).new_empty(1, 16, 4096, 4096)) == 1
