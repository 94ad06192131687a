"""Convolutions by tiles with torch's own operations.

Where pixels, gradients and products are spread and collected they meet only factors that are powers of two,
and these round nothing. So it makes no difference whether a processor rounds between a product and a sum:
compiled loops give the same bits. The products of matrices are sums over few enough numbers that torch adds
them up one after the other, as the loops do.
"""

from collections.abc import Iterable, Iterator, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from interlude.models.layers import activated

SIDE = 4  # of a tile of results
PIXELS = SIDE**2
SUMS = 36  # of a tile, for each channel
VALUES_AT_ONCE = 2**13  # channels of tiles: with their sums, few enough to stay in a processor's cache
ACTIVATED_AT_ONCE = 4  # times as many images: it is less work
MOST_TERMS = 128  # of a sum of products; longer ones torch would make out of several as it likes


def convolve(x: Tensor, weights: Tensor, norm: nn.Module | None, y: Tensor) -> None:
    """Maps (N, C, H, W) by spread weights (36, C, O) to maps (N, O, H, W), some images at a time.

    If there is a norm, in evaluation, it and its activation come first: their result stays in the cache.
    """
    at_once = max(1, VALUES_AT_ONCE * torch.get_num_threads() * PIXELS // x[0].numel())
    for maps, results in zip(_activated_parts(x, norm, at_once), _parts(y, at_once), strict=True):
        sums = _room(maps)
        spread(maps, sums)
        collect(multiply(sums, weights), results)


def multiply(sums: Tensor, weights: Tensor) -> Tensor:
    """The products (36, tiles, O) of sums (36, tiles, C) and spread weights, added up by some channels."""
    (first, *rest), (of_first, *of_rest) = sums.split(MOST_TERMS, 2), weights.split(MOST_TERMS, 1)
    products = torch.bmm(first, of_first)
    for more, of_more in zip(rest, of_rest, strict=True):
        products.baddbmm_(more, of_more)
    return products


def differentiate(x: Tensor, dy: Tensor, total: Tensor) -> None:
    """Add the gradient of spread weights to `total` (36, O, C), that of some images at a time."""
    at_once = images_at_once(x)
    for maps, gradients in zip(_parts(x, at_once), _parts(dy, at_once), strict=True):
        sums, of_products = _room(maps), _room(gradients)
        spread(maps, sums)
        spread_gradients(gradients, of_products)
        for some, of_some in zip(of_products.split(MOST_TERMS, 1), sums.split(MOST_TERMS, 1), strict=True):
            total.baddbmm_(some.mT, of_some)


def images_at_once(x: Tensor) -> int:
    """How many images' tiles are added up together in the gradient of weights."""
    tiles = min(MOST_TERMS, VALUES_AT_ONCE // x.shape[1])
    return max(1, tiles * PIXELS // x[0, 0].numel())


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


def _activated_parts(x: Tensor, norm: nn.Module | None, at_once: int) -> Iterator[Tensor]:
    """The activation of a norm, or the maps themselves, some images at a time."""
    if norm is None:
        yield from _parts(x, at_once)
    else:
        for images in x.split(ACTIVATED_AT_ONCE * at_once):
            yield from _parts(activated(norm, images), at_once)


def _parts(x: Tensor, at_once: int) -> Iterator[Tensor]:
    """Maps in channels-last order: (N, H, W, C), some images at a time."""
    return iter(x.permute(0, 2, 3, 1).split(at_once))


def _room(maps: Tensor) -> Tensor:
    """For the sums (36, tiles, C) of maps (N, H, W, C)."""
    return maps.new_empty(SUMS, maps.shape[:3].numel() // PIXELS, maps.shape[3])
