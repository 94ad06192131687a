"""How tiles are spread and collected, by torch.

Pixels, gradients and products meet only factors that are powers of two, and these round nothing. So it makes
no difference where a processor rounds between a product and a sum: compiled loops give the same bits.
"""

from collections.abc import Iterable, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

SIDE = 4  # of a tile of results


def spread(maps: Tensor, sums: Tensor) -> None:
    """Pixels (N, H, W, C), with nothing around them, to the sums (36, tiles, C) of all tiles."""
    count, height, width, channels = maps.shape
    framed = F.pad(maps, (0, 0, 1, 1, 1, 1))
    lines = maps.new_empty(6, count, height // SIDE, width + 2, channels)
    spread_six([framed[:, i : i + height - 3 : SIDE] for i in range(6)], lines)
    of_tiles = sums.view(6, 6, count, height // SIDE, width // SIDE, channels)
    spread_six([lines[..., i : i + width - 3 : SIDE, :] for i in range(6)], of_tiles.unbind(1))


def spread_gradients(maps: Tensor, sums: Tensor) -> None:
    """The gradients (N, H, W, O) of results to those of products (36, tiles, O): the reverse of `collect`."""
    count, height, width, channels = maps.shape
    lines = maps.new_empty(6, count, height // SIDE, width // SIDE, SIDE, channels)
    bands = maps.view(count, height // SIDE, SIDE, width, channels).unbind(2)
    spread_four(bands, lines.flatten(-3, -2))
    of_tiles = sums.view(6, 6, count, height // SIDE, width // SIDE, channels)
    spread_four(lines.unbind(-2), of_tiles.unbind(1))


def collect(products: Tensor, maps: Tensor) -> None:
    """Products (36, tiles, O) of all tiles to the maps (N, H, W, O) that they make up."""
    count, height, width, channels = maps.shape
    of_tiles = products.view(6, 6, count, height // SIDE, width // SIDE, channels)
    lines = maps.new_empty(6, count, height // SIDE, width // SIDE, SIDE, channels)
    collect_six(of_tiles.unbind(1), lines.unbind(-2))
    collect_six(lines.flatten(-3, -2), maps.view(count, height // SIDE, SIDE, width, channels).unbind(2))


def spread_six(pixels: Iterable[Tensor], to: Iterable[Tensor]) -> None:
    """Six neighbouring pixels to six sums."""
    a, b, c, d, e, f = pixels
    s, t, u, v, w, x = to
    near, far = torch.sub(d, b, alpha=4), torch.sub(e, c, alpha=4)
    left, right = d - b, e - c
    torch.add(right, a - c, alpha=4, out=s)
    torch.add(far, near, out=t)
    torch.sub(far, near, out=u)
    torch.add(right, left, alpha=2, out=v)
    torch.sub(right, left, alpha=2, out=w)
    torch.sub(f - d, left, alpha=4, out=x)


def spread_four(gradients: Sequence[Tensor], to: Iterable[Tensor]) -> None:
    """The gradients of four neighbouring results to those of six products."""
    a, b, c, d = gradients
    s, t, u, v, w, x = to
    s.copy_(a)
    even, odd = a + c, b + d
    torch.add(even, odd, out=t)
    torch.sub(even, odd, out=u)
    even, odd = torch.add(a, c, alpha=4), torch.add(b, d, alpha=4)
    torch.add(even, odd, alpha=2, out=v)
    torch.sub(even, odd, alpha=2, out=w)
    x.copy_(d)


def collect_six(products: Iterable[Tensor], to: Iterable[Tensor]) -> None:
    """Six products to four neighbouring results."""
    a, b, c, d, e, f = products
    s, t, u, v = to
    near, far = b + c, d + e
    left, right = b - c, d - e
    torch.add(a + near, far, out=s)
    torch.add(left, right, alpha=2, out=t)
    torch.add(near, far, alpha=4, out=u)
    torch.add(torch.add(left, right, alpha=8), f, out=v)
