"""Compiled loops over tiles; what they compute is said in `tiles.py`.

Loops are vectorised where each writes to one place, and where numba knows by its type that a place is in one
piece: a line of an array, not a part of several lines.
"""

import numpy as np
from numba import prange

from interlude.loops import Array, Number, at, inlined, kept, shared
from interlude.models.compiled.kernels import stretch

real: Number = np.float32
TWO, FOUR, EIGHT = real(2), real(4), real(8)
Lines = tuple[Array, ...]


@kept
@shared
def spread(x: Array, threads: int, sums: Array) -> None:
    """Pixels of images (N, H, W, C) to the sums (6, 6, tiles, C) of all tiles."""
    count, height, width, channels = x.shape
    down, across = height // 4, width // 4
    for t in prange(threads):
        begin, end = stretch(count * down, threads, t)
        nothing = np.zeros(width * channels, np.float32)
        lines = np.zeros((6, (width + 2) * channels), np.float32)  # with nothing to the left and to the right
        for band in range(begin, end):
            pixels, y = x[at(band // down)].reshape(height, width * channels), 4 * (band % down) - 1
            above = nothing if y < 0 else pixels[at(y)]
            below = nothing if y + 5 >= height else pixels[at(y + 5)]
            six = above, pixels[at(y + 1)], pixels[at(y + 2)], pixels[at(y + 3)], pixels[at(y + 4)], below
            spread_six(six, six_lines(lines, channels))
            for tile in range(across):
                for r in range(6):
                    neighbours = six_pixels(lines[at(r)], 4 * tile * channels, channels)
                    spread_six(neighbours, six_lines_of(sums[at(r)], band * across + tile))


@kept
@shared
def spread_gradients(x: Array, threads: int, sums: Array) -> None:
    """Gradients of images (N, H, W, O) to the sums (6, 6, tiles, O) of all tiles."""
    count, height, width, channels = x.shape
    down, across = height // 4, width // 4
    for t in prange(threads):
        begin, end = stretch(count * down, threads, t)
        lines = np.empty((6, 4 * channels), np.float32)
        for band in range(begin, end):
            four = four_of(x[at(band // down)], 4 * (band % down))
            for tile in range(across):
                place = 4 * tile * channels
                spread_four(four_lines(four, place, 4 * channels), six_lines(lines, 0))
                for r in range(6):
                    to = six_lines_of(sums[at(r)], band * across + tile)
                    spread_four(four_pixels(lines[at(r)], channels), to)


@kept
@shared
def collect(products: Array, threads: int, y: Array) -> None:
    """Products (6, 6, tiles, O) of all tiles to images (N, H, W, O)."""
    count, height, width, channels = y.shape
    down, across = height // 4, width // 4
    for t in prange(threads):
        begin, end = stretch(count * down, threads, t)
        lines = np.empty((6, 4 * channels), np.float32)
        for band in range(begin, end):
            four = four_of(y[at(band // down)], 4 * (band % down))
            for tile in range(across):
                for r in range(6):
                    six = six_lines_of(products[at(r)], band * across + tile)
                    collect_six(six, four_pixels(lines[at(r)], channels))
                place = 4 * tile * channels
                collect_six(six_lines(lines, 0), four_lines(four, place, 4 * channels))


@inlined
def spread_six(six: Lines, to: Lines) -> None:
    """Six neighbours to six sums."""
    a, b, c, d, e, f = six
    s, t, u, v, w, x = to
    for i in range(len(a)):
        s[at(i)] = (e[at(i)] - c[at(i)]) + FOUR * (a[at(i)] - c[at(i)])
    for i in range(len(a)):
        t[at(i)] = (e[at(i)] - FOUR * c[at(i)]) + (d[at(i)] - FOUR * b[at(i)])
    for i in range(len(a)):
        u[at(i)] = (e[at(i)] - FOUR * c[at(i)]) - (d[at(i)] - FOUR * b[at(i)])
    for i in range(len(a)):
        v[at(i)] = (e[at(i)] - c[at(i)]) + TWO * (d[at(i)] - b[at(i)])
    for i in range(len(a)):
        w[at(i)] = (e[at(i)] - c[at(i)]) - TWO * (d[at(i)] - b[at(i)])
    for i in range(len(a)):
        x[at(i)] = (f[at(i)] - d[at(i)]) - FOUR * (d[at(i)] - b[at(i)])


@inlined
def spread_four(four: Lines, to: Lines) -> None:
    """The gradients of four neighbours to those of six products."""
    a, b, c, d = four
    s, t, u, v, w, x = to
    for i in range(len(a)):
        s[at(i)] = a[at(i)]
    for i in range(len(a)):
        t[at(i)] = (a[at(i)] + c[at(i)]) + (b[at(i)] + d[at(i)])
    for i in range(len(a)):
        u[at(i)] = (a[at(i)] + c[at(i)]) - (b[at(i)] + d[at(i)])
    for i in range(len(a)):
        v[at(i)] = (a[at(i)] + FOUR * c[at(i)]) + TWO * (b[at(i)] + FOUR * d[at(i)])
    for i in range(len(a)):
        w[at(i)] = (a[at(i)] + FOUR * c[at(i)]) - TWO * (b[at(i)] + FOUR * d[at(i)])
    for i in range(len(a)):
        x[at(i)] = d[at(i)]


@inlined
def collect_six(six: Lines, to: Lines) -> None:
    """Six products to four neighbours."""
    a, b, c, d, e, f = six
    s, t, u, v = to
    for i in range(len(a)):
        s[at(i)] = (a[at(i)] + (b[at(i)] + c[at(i)])) + (d[at(i)] + e[at(i)])
    for i in range(len(a)):
        t[at(i)] = (b[at(i)] - c[at(i)]) + TWO * (d[at(i)] - e[at(i)])
    for i in range(len(a)):
        u[at(i)] = (b[at(i)] + c[at(i)]) + FOUR * (d[at(i)] + e[at(i)])
    for i in range(len(a)):
        v[at(i)] = ((b[at(i)] - c[at(i)]) + EIGHT * (d[at(i)] - e[at(i)])) + f[at(i)]


@inlined
def six_lines(lines: Array, place: int) -> Lines:
    """Lines (6, n) from a place on."""
    return (
        lines[0][place:],
        lines[1][place:],
        lines[2][place:],
        lines[3][place:],
        lines[4][place:],
        lines[5][place:],
    )


@inlined
def six_lines_of(lines: Array, tile: int) -> Lines:
    """The lines of a tile (6, tiles, n)."""
    return lines[0, tile], lines[1, tile], lines[2, tile], lines[3, tile], lines[4, tile], lines[5, tile]


@inlined
def six_pixels(line: Array, place: int, size: int) -> Lines:
    """Six neighbouring pixels of a line."""
    six = line[place : place + 6 * size]
    return (
        six[:size],
        six[size : 2 * size],
        six[2 * size : 3 * size],
        six[3 * size : 4 * size],
        six[4 * size : 5 * size],
        six[5 * size :],
    )


@inlined
def four_of(pixels: Array, first: int) -> Array:
    """Four lines of an image (H, W, C) below each other, each in one piece (4, W * C)."""
    height, width, channels = pixels.shape
    return pixels.reshape(height, width * channels)[first : first + 4]


@inlined
def four_pixels(line: Array, size: int) -> Lines:
    """Four neighbouring pixels."""
    return line[:size], line[size : 2 * size], line[2 * size : 3 * size], line[3 * size :]


@inlined
def four_lines(lines: Array, place: int, size: int) -> Lines:
    """So much of four lines from a place on."""
    return (
        lines[0][place : place + size],
        lines[1][place : place + size],
        lines[2][place : place + size],
        lines[3][place : place + size],
    )
