"""3x3 convolutions with a quarter of the products, on a CPU where that is faster.

Winograd's F(4x4, 3x3) (Lavin and Gray, 2016, https://arxiv.org/abs/1509.09308): a tile of 4x4 results depends
on 6x6 pixels. Along either axis six pixels are spread into six sums, which meet the spread weights in
products, and six products are collected into four results. Over all channels these are 36 products of
matrices. Results are rounded ten times as much as by a plain convolution, to five digits instead of six.
"""

from types import ModuleType
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd import Function
from torch.nn.grad import conv2d_input, conv2d_weight

from interlude.arrival import Arrival
from interlude.models.layers import activated, compiled_for, is_recorded
from interlude.models.winograd import tiles

FEWEST_TILES = 64  # with fewer, spreading the weights takes as long as what is won
UNIT = 32  # compiled loops take so many channels at a time

# How many channels, in and out, it takes; in training, where rounding matters more, it must halve the time.
IN_EVALUATION, IN_TRAINING = 32, 64

# In numbers that went through without the compiled loops: those of some ten seconds on one core.
_arrival = Arrival("interlude.models.winograd.compiled", worth=2**30)
_OF_A_LINE = torch.tensor([[6, 0, 0], [-4, -4, -4], [-4, 4, -4], [1, 2, 4], [1, -2, 4], [0, 0, 24]])
_OF_WEIGHTS = torch.kron(_OF_A_LINE, _OF_A_LINE) / 24**2  # (36, 9)


class Convolution(nn.Conv2d):
    """A 3x3 convolution that keeps the size of the maps, without bias; by tiles where that is faster."""

    def __init__(self, width_in: int, width_out: int) -> None:
        super().__init__(width_in, width_out, 3, padding=1, bias=False)

    def forward(self, x: Tensor, norm: nn.Module | None = None) -> Tensor:
        """Of maps or, if there is a norm, of its activation."""
        by_tiles = pays(x, self.weight)
        if norm is not None and by_tiles and torch.is_inference_mode_enabled() and not norm.training:
            return convolve(x, spread_weights(self.weight), norm)
        if norm is not None:
            x = activated(norm, x)
        if not by_tiles:
            return super().forward(x)
        result: Tensor = _ByTiles.apply(x, self.weight)  # type: ignore[no-untyped-call]
        return result


def pays(x: Tensor, weight: Tensor) -> bool:
    """Whether tiles are faster than torch's own convolution, for maps and weights such as these."""
    if is_recorded():
        return False
    height, width = x.shape[2:]
    return (
        min(weight.shape[:2]) >= (IN_EVALUATION if torch.is_inference_mode_enabled() else IN_TRAINING)
        and weight.shape[0] % UNIT == weight.shape[1] % UNIT == 0
        and height % tiles.SIDE == width % tiles.SIDE == 0
        and len(x) * height * width >= FEWEST_TILES * tiles.PIXELS
        and x.dtype == weight.dtype == torch.float32
        and x.device.type == "cpu"
        and x.is_contiguous(memory_format=torch.channels_last)
        and not torch.is_autocast_enabled("cpu")
    )


class _ByTiles(Function):
    """The gradients of maps and of weights are made of tiles too."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor) -> Tensor:
        ctx.save_for_backward(x, weight)
        return convolve(x, spread_weights(weight))

    @staticmethod
    def backward(ctx: Any, dy: Tensor) -> tuple[Tensor | None, Tensor | None]:
        x, weight = ctx.saved_tensors
        of_x, of_weight = ctx.needs_input_grad
        if torch.is_grad_enabled():  # to be differentiated again
            dx = conv2d_input(x.shape, weight, dy, padding=1) if of_x else None
            dw = conv2d_weight(x, weight.shape, dy, padding=1) if of_weight else None
            return dx, dw
        dy = dy.contiguous(memory_format=torch.channels_last)
        dx = convolve(dy, spread_weights(weight.flip(2, 3).transpose(0, 1))) if of_x else None
        dw = differentiate(x, dy) if of_weight else None
        return dx, dw


def convolve(x: Tensor, weights: Tensor, norm: nn.Module | None = None) -> Tensor:
    """The convolution of maps (N, C, H, W), or of their norm's activation, by spread weights (36, C, O)."""
    count, _, height, width = x.shape
    y = torch.empty(count, weights.shape[2], height, width, memory_format=torch.channels_last)
    _loops(x).convolve(x, weights, norm, y)
    return y


def differentiate(x: Tensor, dy: Tensor) -> Tensor:
    """The gradient (O, C, 3, 3) of weights by which maps (N, C, H, W) became those with the gradient `dy`."""
    total = x.new_zeros(tiles.SUMS, dy.shape[1], x.shape[1])
    _loops(x).differentiate(x, dy, total)
    return collect_weights(total)


def spread_weights(weight: Tensor) -> Tensor:
    """Weights (O, C, 3, 3) as they meet the sums: (36, C, O)."""
    by_place = weight.permute(2, 3, 1, 0)
    return (_OF_WEIGHTS @ by_place.reshape(9, -1)).view(tiles.SUMS, *by_place.shape[2:])


def collect_weights(total: Tensor) -> Tensor:
    """The gradient (36, O, C) of spread weights as that of the weights (O, C, 3, 3)."""
    collected = (_OF_WEIGHTS.mT @ total.flatten(1)).view(3, 3, *total.shape[1:])
    return collected.permute(2, 3, 0, 1).contiguous(memory_format=torch.channels_last)


def _loops(x: Tensor) -> ModuleType:
    """What works with tiles: compiled loops, if they are there and can, or torch; same bits."""
    compiled = compiled_for(x, _arrival)
    return compiled if compiled and compiled.can_share_out() else tiles
