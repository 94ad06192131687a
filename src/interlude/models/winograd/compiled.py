"""Convolutions by tiles in compiled loops: for a CPU with numba (`interlude-ssl[fast]`)."""

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor, nn

from interlude.models.compiled import (
    OTHER_BITS,
    array,
    can_share_out,
    is_plain,
    maps,
    numbers_of,
    start_threads,
    threads,
)
from interlude.models.compiled.kernels import Norm
from interlude.models.layers import SLOPE, activated
from interlude.models.winograd import kernels, tiles

__all__ = ["can_share_out", "compile", "convolve", "differentiate"]

VALUES_AT_ONCE = 2**11  # channels of tiles: their sums and products stay in a processor's cache
FEWEST_TILES = 32  # at once, or the weights would be fetched too often

Convolve = Callable[[Tensor, Tensor, nn.Module | None, Tensor], None]
Differentiate = Callable[[Tensor, Tensor, Tensor], None]

_none = np.empty(0, np.float32)
NO_NORM = Norm(_none, _none, _none, _none, momentum=0.0, eps=0.0, slope=SLOPE)


def convolve(x: Tensor, weights: Tensor, norm: nn.Module | None, y: Tensor) -> None:
    """As `tiles.convolve`."""
    at_once = max(FEWEST_TILES, VALUES_AT_ONCE // x.shape[1])
    bands = max(1, at_once * tiles.SIDE // x.shape[3])
    if norm is None:
        numbers = NO_NORM
    elif is_plain(norm):
        numbers = numbers_of(norm, SLOPE)
    else:
        x, numbers = activated(norm, x), NO_NORM
    kernels.convolve(maps(x), numbers, array(weights), bands, threads(), maps(y))


def differentiate(x: Tensor, dy: Tensor, total: Tensor) -> None:
    """As `tiles.differentiate`."""
    kernels.differentiate(maps(x), maps(dy), tiles.images_at_once(x), threads(), array(total))


def compile() -> str | None:
    """Compile the loops, or load what an earlier process compiled; what is wrong with them, if anything."""
    start_threads()
    found = zip(_tried(convolve, differentiate), _tried(tiles.convolve, tiles.differentiate), strict=True)
    return None if all(torch.equal(*pair) for pair in found) else OTHER_BITS


@torch.inference_mode()
def _tried(convolve: Convolve, differentiate: Differentiate) -> list[Tensor]:
    """What becomes of some random numbers, with and without a norm; their sums have as many terms as any."""
    generator = torch.Generator().manual_seed(0)
    channels, width_out = 2 * tiles.MOST_TERMS, 32

    def numbers(*shape: int) -> Tensor:
        return torch.randn(shape, generator=generator)

    x, y = (
        numbers(5, width, 16, 32).contiguous(memory_format=torch.channels_last)
        for width in (channels, width_out)
    )
    norm = nn.BatchNorm2d(channels).eval()
    norm.weight.copy_(numbers(channels))
    norm.bias.copy_(numbers(channels))
    weights, total = numbers(tiles.SUMS, channels, width_out), numbers(tiles.SUMS, width_out, width_out)
    with_norm, without = torch.empty_like(y), torch.empty_like(y)
    convolve(x, weights, norm, with_norm)
    convolve(x, weights, None, without)
    differentiate(y, without, total)
    return [with_norm, without, total]
