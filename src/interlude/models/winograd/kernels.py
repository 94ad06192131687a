"""Compiled loops over tiles; what they compute is said in `tiles.py`.

Channels are taken a vector at a time. All sums or products of one place in a tile are a line of their own, a
little longer than they need, or they would all fall on the same few lines of a processor's cache.
"""

import numpy as np
from numba import prange

from interlude.loops import Array, Number, at, inlined, kept, kernel, shared
from interlude.models.compiled.kernels import Norm, activate, running_terms, stretch
from interlude.models.winograd.tiles import MOST_TERMS, SUMS
from interlude.registers import (
    COLUMNS,
    LANES,
    ROWS,
    Vector,
    everywhere,
    load,
    multiply,
    multiply_and_add,
    store,
)

real: Number = np.float32
ZERO, TWO, FOUR, EIGHT = real(0), real(2), real(4), real(8)
Four = tuple[Vector, Vector, Vector, Vector]
Six = tuple[Vector, Vector, Vector, Vector, Vector, Vector]


@kept
@shared
def convolve(x: Array, norm: Norm, weights: Array, bands: int, threads: int, y: Array) -> None:
    """Images (N, H, W, C) by spread weights (36, C, O) to images (N, H, W, O), some bands of tiles at a time.

    A norm that has channels comes first, by its running statistics, and its activation.
    """
    count, height, width, channels = x.shape
    down, across, width_out = height // 4, width // 4, weights.shape[2]
    factor, offset = running_terms(norm)
    slope, tiles = real(norm.slope), whole_rows(bands * across)
    for t in prange(threads):
        begin, end = stretch(count * down, threads, t)
        active = np.zeros((6, width * channels), np.float32)
        lines = framed_lines(bands, width, channels)
        sums, products = room(6, tiles, channels), room(6, tiles, width_out)
        columns = room(24, tiles, width_out)
        for first in range(begin, end, bands):
            last = min(first + bands, end)
            for band in range(first, last):
                image, top = x[at(band // down)], 4 * (band % down) - 1
                if len(factor):
                    activate_lines(image, top, factor, offset, slope, active)
                    spread_lines(active, 0, lines[band - first], channels)
                else:
                    pixels = image.reshape(height, width * channels)
                    spread_lines(pixels, top, lines[band - first], channels)
            used = whole_rows((last - first) * across)
            for r in range(6):  # what stands in a line of six places stays in the innermost cache
                for band in range(last - first):
                    spread_tiles(lines[band], r, channels, band * across, sums)
                multiply_line(sums, weights[6 * r : 6 * r + 6], used, products)
                collect_line(products, r, used * width_out, columns)
            for band in range(first, last):
                image, top = y[at(band // down)].reshape(height, width * width_out), 4 * (band % down)
                collect_columns(columns, (band - first) * across, width_out, image[top : top + 4])


@kept
@shared
def differentiate(x: Array, dy: Array, images: int, threads: int, total: Array) -> None:
    """Add what images (N, H, W, C) and the gradients (N, H, W, O) of results give to that of spread weights.

    `total` (36, O, C) grows by some images at a time.
    """
    count, height, width, channels = x.shape
    down, across, width_out = height // 4, width // 4, dy.shape[3]
    tiles = images * down * across
    sums, gradients = room(SUMS, tiles, channels), room(SUMS, tiles, width_out)
    for first in range(0, count, images):
        last = min(first + images, count)
        for t in prange(threads):
            begin, end = stretch((last - first) * down, threads, t)
            lines = framed_lines(1, width, channels)[0]
            for band in range(begin, end):
                image, top = first + band // down, 4 * (band % down)
                pixels = x[at(image)].reshape(height, width * channels)
                spread_lines(pixels, top - 1, lines, channels)
                for r in range(6):
                    to = sums[6 * r : 6 * r + 6]
                    spread_tiles(lines, r, channels, band * across, to)
                results = dy[at(image)].reshape(height, width * width_out)
                spread_gradients(results[top : top + 4], width_out, band * across, gradients)
        for t in prange(threads):
            for place in range(*stretch(SUMS, threads, t)):
                used = (last - first) * down * across
                one, other = matrix(gradients, place, used, width_out).T, matrix(sums, place, used, channels)
                result = total[place]
                for column in range(0, channels, COLUMNS):
                    for row in range(0, width_out, ROWS):
                        for begin in range(0, used, MOST_TERMS):
                            end = min(begin + MOST_TERMS, used)
                            multiply_and_add(one, row, other, column, begin, end, result)


@kernel
def multiply_line(sums: Array, weights: Array, tiles: int, products: Array) -> None:
    """The sums of so many tiles at six places by the spread weights (6, C, O) of these."""
    _, channels, width_out = weights.shape
    for place in range(6):
        one, other = matrix(sums, place, tiles, channels), weights[place]
        result = matrix(products, place, tiles, width_out)
        for column in range(0, width_out, COLUMNS):
            for row in range(0, tiles, ROWS):
                multiply(one, row, other, column, 0, min(MOST_TERMS, channels), result)
                for begin in range(MOST_TERMS, channels, MOST_TERMS):
                    end = min(begin + MOST_TERMS, channels)
                    multiply_and_add(one, row, other, column, begin, end, result)


@kernel
def activate_lines(image: Array, top: int, factor: Array, offset: Array, slope: float, lines: Array) -> None:
    """Six lines of an image (H, W, C) through a norm and an activation; nothing where there is no line."""
    height, width, channels = image.shape
    for i in range(6):
        if 0 <= top + i < height:
            line = lines[at(i)].reshape(width, channels)
            activate(image[at(top + i)], factor, offset, slope, line)
        else:
            lines[at(i)] = ZERO


@kernel
def spread_lines(pixels: Array, top: int, lines: Array, frame: int) -> None:
    """Six of the lines (H, n) of an image, from `top` on, to six lines of sums inside their frame."""
    above, below = top >= 0, top + 5 < len(pixels)
    for place in range(0, pixels.shape[1], LANES):
        a = load(pixels, (top, place)) if above else everywhere(ZERO)
        f = load(pixels, (top + 5, place)) if below else everywhere(ZERO)
        b, c, d, e = load_four(pixels, top + 1, place)
        store_six(lines, 0, place + frame, spread_six((a, b, c, d, e, f)))


@kernel
def spread_tiles(lines: Array, r: int, channels: int, first: int, sums: Array) -> None:
    """One of six lines of sums to the sums at six places of a band of tiles, from the first on."""
    for tile in range(lines.shape[1] // channels // 4):
        for c in range(0, channels, LANES):
            six = load_six_beside(lines, r, 4 * tile * channels + c, channels)
            store_six(sums, 0, (first + tile) * channels + c, spread_six(six))


@kernel
def spread_gradients(results: Array, channels: int, first: int, gradients: Array) -> None:
    """Likewise the gradients (4, W * O) of four lines of results to those of the products of their tiles."""
    lines = np.empty((6, 4 * LANES), np.float32)
    for tile in range(results.shape[1] // channels // 4):
        for c in range(0, channels, LANES):
            for i in range(4):
                four = load_four(results, 0, (4 * tile + i) * channels + c)
                store_six(lines, 0, i * LANES, spread_four(four))
            for r in range(6):
                four = load_four_beside(lines, r, 0, LANES)
                store_six(gradients, 6 * r, (first + tile) * channels + c, spread_four(four))


@kernel
def collect_line(products: Array, r: int, size: int, columns: Array) -> None:
    """Products at the six places of a line, of so many numbers each, to four neighbours in their columns."""
    for place in range(0, size, LANES):
        store_four(columns, r, 6, place, collect_six(load_six(products, 0, place)))


@kernel
def collect_columns(columns: Array, first: int, channels: int, results: Array) -> None:
    """The columns of a band of tiles, from the first on, to four lines of results (4, W * O)."""
    for tile in range(results.shape[1] // channels // 4):
        for i in range(4):
            for c in range(0, channels, LANES):
                six = load_six(columns, 6 * i, (first + tile) * channels + c)
                store_four(results, 0, 1, (4 * tile + i) * channels + c, collect_six(six))


@inlined
def spread_six(six: Six) -> Six:
    """Six neighbours to six sums."""
    a, b, c, d, e, f = six
    two, four = everywhere(TWO), everywhere(FOUR)
    near, far = d - four * b, e - four * c
    left, right = d - b, e - c
    return (
        right + four * (a - c),
        far + near,
        far - near,
        right + two * left,
        right - two * left,
        (f - d) - four * left,
    )


@inlined
def spread_four(four: Four) -> Six:
    """The gradients of four neighbours to those of six products."""
    a, b, c, d = four
    twice, fourfold = everywhere(TWO), everywhere(FOUR)
    even, odd = a + c, b + d
    near, far = a + fourfold * c, b + fourfold * d
    return a, even + odd, even - odd, near + twice * far, near - twice * far, d


@inlined
def collect_six(six: Six) -> Four:
    """Six products to four neighbours."""
    a, b, c, d, e, f = six
    two, four, eight = everywhere(TWO), everywhere(FOUR), everywhere(EIGHT)
    near, far = b + c, d + e
    left, right = b - c, d - e
    return (a + near) + far, left + two * right, near + four * far, (left + eight * right) + f


@inlined
def load_four(lines: Array, row: int, place: int) -> Four:
    """Vectors of four lines, one below the other."""
    return (
        load(lines, (row, place)),
        load(lines, (row + 1, place)),
        load(lines, (row + 2, place)),
        load(lines, (row + 3, place)),
    )


@inlined
def load_six(lines: Array, row: int, place: int) -> Six:
    """Likewise of six lines."""
    a, b, c, d = load_four(lines, row, place)
    return a, b, c, d, load(lines, (row + 4, place)), load(lines, (row + 5, place))


@inlined
def load_four_beside(lines: Array, row: int, place: int, step: int) -> Four:
    """Four vectors of one line, a step apart."""
    return (
        load(lines, (row, place)),
        load(lines, (row, place + step)),
        load(lines, (row, place + 2 * step)),
        load(lines, (row, place + 3 * step)),
    )


@inlined
def load_six_beside(lines: Array, row: int, place: int, step: int) -> Six:
    """Likewise six."""
    a, b, c, d = load_four_beside(lines, row, place, step)
    return a, b, c, d, load(lines, (row, place + 4 * step)), load(lines, (row, place + 5 * step))


@inlined
def store_four(lines: Array, row: int, step: int, place: int, four: Four) -> None:
    """Into four lines, a step apart, from a row on."""
    a, b, c, d = four
    store(lines, (row, place), a)
    store(lines, (row + step, place), b)
    store(lines, (row + 2 * step, place), c)
    store(lines, (row + 3 * step, place), d)


@inlined
def store_six(lines: Array, row: int, place: int, six: Six) -> None:
    """Into six lines, one below the other, from a row on."""
    a, b, c, d, e, f = six
    store(lines, (row, place), a)
    store(lines, (row + 1, place), b)
    store(lines, (row + 2, place), c)
    store(lines, (row + 3, place), d)
    store(lines, (row + 4, place), e)
    store(lines, (row + 5, place), f)


@kernel
def room(places: int, tiles: int, channels: int) -> Array:
    """For what stands at some places of so many tiles."""
    return np.zeros((places, tiles * channels + LANES), np.float32)


@kernel
def matrix(numbers: Array, place: int, tiles: int, channels: int) -> Array:
    """What stands at one place of so many tiles."""
    return numbers[place, : tiles * channels].reshape(tiles, channels)


@kernel
def framed_lines(bands: int, width: int, channels: int) -> Array:
    """Room for six lines of each band, with nothing to the left and to the right."""
    return np.zeros((bands, 6, (width + 2) * channels), np.float32)


@kernel
def whole_rows(tiles: int) -> int:
    """So many tiles or a few more, such that products can be made of them."""
    return -(-tiles // ROWS) * ROWS
