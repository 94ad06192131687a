"""Convolutions by tiles: torch's own but for rounding, and the same bits with compiled loops."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from interlude.arrival import Arrival
from interlude.models import layers, winograd
from interlude.models.compiled import OTHER_BITS
from interlude.models.registry import ModelConfig, build
from interlude.models.winograd import compiled, tiles

SHAPES = ((16, 8, 8), (5, 16, 16), (3, 12, 32), (70, 4, 4), (1, 80, 80))  # the last: over more tiles
WIDTHS = ((64, 64), (96, 64), (64, 160), (288, 64))  # the last has sums over more channels than go at once
ON_BOTH = pytest.mark.parametrize("backend", ["torch", "numba"])
ON_SHAPES = pytest.mark.parametrize("shape", SHAPES, ids=str)
ON_WIDTHS = pytest.mark.parametrize("widths", WIDTHS, ids=str)


@pytest.fixture(autouse=True)
def back_to_auto():
    yield
    layers.use("auto")
    torch.set_num_threads(1)


@pytest.fixture
def by_tiles(monkeypatch):
    """The number of channels of each convolution that was made by tiles."""
    seen, convolve = [], winograd.convolve
    monkeypatch.setattr(
        winograd, "convolve", lambda x, *rest: (seen.append(x.shape[1]), convolve(x, *rest))[1]
    )
    return seen


def maps(channels, shape, seed=0):
    count, height, width = shape
    values = torch.randn(count, channels, height, width, generator=torch.Generator().manual_seed(seed))
    return values.to(memory_format=torch.channels_last)


def convolution(width_in, width_out, seed=1):
    layer = winograd.Convolution(width_in, width_out).to(memory_format=torch.channels_last)
    with torch.no_grad():
        layer.weight.normal_(generator=torch.Generator().manual_seed(seed))
    return layer


def passed(layer, x, dy):
    """The result there, and the gradients of maps and weights back."""
    x, layer.weight.grad = x.clone().requires_grad_(), None
    y = layer(x)
    y.backward(dy)
    return y.detach(), x.grad, layer.weight.grad


def assert_close(made, wanted):
    """Each number to five digits of the largest."""
    for one, other in zip(made, wanted, strict=True):
        torch.testing.assert_close(one.double(), other, rtol=0, atol=2e-5 * float(other.detach().abs().max()))


@ON_BOTH
@ON_WIDTHS
@ON_SHAPES
def test_results_and_gradients_are_those_of_a_plain_convolution(shape, widths, backend, by_tiles):
    layers.use(backend)
    layer, x, dy = convolution(*widths), maps(widths[0], shape), maps(widths[1], shape, seed=2)
    made = passed(layer, x, dy)
    assert by_tiles == list(widths)
    plain = nn.Conv2d(*widths, 3, padding=1, bias=False).double()
    plain.load_state_dict(layer.state_dict())
    assert_close(made, passed(plain, x.double(), dy.double()))


@pytest.mark.parametrize("threads", [1, 2, 3])
@ON_WIDTHS
@ON_SHAPES
def test_compiled_loops_give_torchs_bits(shape, widths, threads):
    torch.set_num_threads(threads)
    layer, x, dy = convolution(*widths), maps(widths[0], shape), maps(widths[1], shape, seed=2)
    made = {}
    for backend in ("torch", "numba"):
        layers.use(backend)
        made[backend] = passed(layer, x, dy)
    for name, one, other in zip(("y", "dx", "dw"), *made.values(), strict=True):
        assert torch.equal(one, other), f"{name} differs"


def test_a_tile_is_spread_multiplied_and_collected_along_both_axes():
    generator = torch.Generator().manual_seed(0)
    pixels, weight = torch.randn(6, 6, generator=generator), torch.randn(3, 3, generator=generator)
    lines, sums, columns, results = (torch.zeros(size) for size in ((6, 6), (6, 6), (6, 4), (4, 4)))
    tiles.spread_six(pixels, lines)
    tiles.spread_six(lines.unbind(1), sums.unbind(1))
    products = sums * winograd.spread_weights(weight[None, None]).view(6, 6)
    tiles.collect_six(products.unbind(1), columns.unbind(1))
    tiles.collect_six(columns, results)
    wanted = F.conv2d(pixels[None, None], weight[None, None])[0, 0]
    torch.testing.assert_close(results, wanted, rtol=0, atol=2e-5)


def test_gradients_have_the_order_of_the_weights():
    layer = convolution(128, 128)
    _, dx, dw = passed(layer, maps(128, (16, 8, 8)), maps(128, (16, 8, 8), seed=2))
    assert dw.stride() == layer.weight.stride()
    assert dx.is_contiguous(memory_format=torch.channels_last)


def test_a_gradient_can_be_differentiated_again(by_tiles):
    layer, x = convolution(128, 128), maps(128, (16, 8, 8)).requires_grad_()
    plain = nn.Conv2d(128, 128, 3, padding=1, bias=False).double()
    plain.load_state_dict(layer.state_dict())

    def twice(network, x):
        (dx,) = torch.autograd.grad(network(x).square().sum(), x, create_graph=True)
        return torch.autograd.grad(dx.square().sum(), (x, network.weight))

    made = twice(layer, x)
    assert by_tiles
    assert_close(made, twice(plain, x.detach().double().requires_grad_()))


@pytest.mark.parametrize(
    ("width", "shape"),
    [(32, (16, 8, 8)), (80, (16, 8, 8)), (64, (16, 7, 8)), (64, (16, 8, 6)), (64, (15, 8, 8))],
    ids=str,
)
def test_training_has_torchs_own_convolutions_where_tiles_do_not_pay(width, shape, by_tiles):
    layer, x = convolution(width, width), maps(width, shape)
    assert torch.equal(layer(x), F.conv2d(x, layer.weight, padding=1))
    assert not by_tiles


def test_passes_without_gradient_give_the_bits_of_those_with_it(by_tiles):
    layer, x = convolution(32, 32), maps(32, (16, 8, 8))
    with torch.no_grad():
        assert torch.equal(layer(x), layer(x.requires_grad_()).detach())
    assert not by_tiles


def test_evaluation_is_by_tiles_with_fewer_channels(by_tiles):
    layer, x = convolution(32, 64), maps(32, (16, 8, 8))
    with torch.inference_mode():
        made = layer(x)
    assert by_tiles == [32]
    assert_close([made], [F.conv2d(x.double(), layer.weight.double(), padding=1)])


def test_other_precisions_are_torchs_own(by_tiles):
    layer, x = convolution(128, 128), maps(128, (16, 8, 8))
    with torch.autocast("cpu", torch.bfloat16):
        layer(x)
    layer.double()(x.double())
    assert not by_tiles


def test_whoever_counts_sees_plain_convolutions():
    layer, x = convolution(128, 128), maps(128, (16, 8, 8))
    with FlopCounterMode(display=False) as counter:
        layer(x)
    assert counter.get_total_flops() == 2 * 16 * 8 * 8 * 128 * 128 * 9


@pytest.fixture
def wide_resnet():
    torch.manual_seed(0)
    model = build(ModelConfig(name="wrn-16-2"), channels=3, image_size=(32, 32), num_classes=10)
    for part in model.modules():
        if isinstance(part, nn.BatchNorm2d):
            nn.init.normal_(part.bias)
            nn.init.normal_(part.running_mean)
    return model.to(memory_format=torch.channels_last).eval()


@ON_BOTH
@torch.inference_mode()
def test_a_wide_resnet_evaluates_as_by_plain_convolutions(backend, wide_resnet, by_tiles, monkeypatch):
    layers.use(backend)
    images = maps(3, (16, 32, 32))
    made = wide_resnet(images)
    assert set(by_tiles) == {32, 64, 128}
    monkeypatch.setattr(winograd, "pays", lambda *_: False)
    torch.testing.assert_close(made, wide_resnet(images), rtol=0, atol=1e-4 * float(made.abs().max()))


@torch.inference_mode()
def test_a_wide_resnet_evaluates_to_the_same_bits_with_either_back_end(wide_resnet):
    made = []
    for backend in ("torch", "numba"):
        layers.use(backend)
        made.append(wide_resnet(maps(3, (16, 32, 32))))
    assert torch.equal(*made)


def test_loops_that_give_other_bits_are_not_used(monkeypatch):
    monkeypatch.setattr(compiled.tiles, "spread", lambda _, to: to.zero_())
    arrival = Arrival("interlude.models.winograd.compiled", worth=0)
    assert arrival.send_for().result() == OTHER_BITS
