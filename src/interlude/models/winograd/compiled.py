"""How tiles are spread and collected, by compiled loops: for a CPU with numba (`interlude-ssl[fast]`)."""

from collections.abc import Callable

import torch
from torch import Tensor

from interlude.loops import Array
from interlude.models.compiled import OTHER_BITS, array, can_share_out, start_threads, threads
from interlude.models.winograd import kernels, tiles

__all__ = ["can_share_out", "collect", "compile", "spread", "spread_gradients"]


def spread(maps: Tensor, sums: Tensor) -> None:
    """As `tiles.spread`."""
    kernels.spread(array(maps), threads(), _by_axes(sums))


def spread_gradients(maps: Tensor, sums: Tensor) -> None:
    """As `tiles.spread_gradients`."""
    kernels.spread_gradients(array(maps), threads(), _by_axes(sums))


def collect(products: Tensor, maps: Tensor) -> None:
    """As `tiles.collect`."""
    kernels.collect(_by_axes(products), threads(), array(maps))


def _by_axes(sums: Tensor) -> Array:
    return array(sums.view(6, 6, *sums.shape[1:]))


def compile() -> str | None:
    """Compile the loops, or load what an earlier process compiled; what is wrong with them, if anything."""
    start_threads()
    ways = (spread, tiles.spread), (spread_gradients, tiles.spread_gradients), (collect, tiles.collect)
    return None if all(_agree(*pair) for pair in ways) else OTHER_BITS


def _agree(*ways: Callable[[Tensor, Tensor], None]) -> bool:
    """Whether both make the same of some random numbers."""
    generator = torch.Generator().manual_seed(0)
    maps, sums = torch.randn(2, 8, 12, 16, generator=generator), torch.randn(36, 12, 16, generator=generator)
    given, wanted = (sums, maps) if collect in ways else (maps, sums)
    made = [torch.empty_like(wanted) for _ in ways]
    for way, to in zip(ways, made, strict=True):
        way(given, to)
    return torch.equal(*made)
