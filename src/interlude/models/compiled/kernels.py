"""Compiled loops over the maps of a network, float32 and channels last: a pixel is a row, a channel a column.

They give torch's bits. A channel is summed as torch sums it: each thread has a stretch of neighbouring rows
and adds them up one by one in single precision, and the sums of the threads are added in double. What is
known of a channel is worked out from them in the same order of operations.
"""

from typing import NamedTuple

import numpy as np
from numba import prange

from interlude.loops import Array, Number, at, fused, inlined, kept, kernel, shared
from interlude.registers import LANES, Vector, everywhere, fetch, fma, load, store

real: Number = np.float32
double: Number = np.float64
byte: Number = np.uint8
ZERO, ONE = real(0), real(1)
FETCHED_AHEAD = 512  # weights, half a page: a processor looks no further than to the end of one
AT_ONCE = 8  # rows between two looks at a sum: fewer would wait for memory, more for registers


class Norm(NamedTuple):
    """A BatchNorm and the leaky ReLU behind it; the numbers of a channel are float32 (C,)."""

    weight: Array
    bias: Array
    mean: Array  # the running statistics
    variance: Array
    momentum: float
    eps: float
    slope: float


class Known(NamedTuple):
    """What is known of each channel of a batch, float32 (C,)."""

    mean: Array
    inverse: Array  # 1 / standard deviation
    factor: Array  # the norm as a product and a sum
    offset: Array


@kept
@shared
def normalize(x: Array, norm: Norm, threads: int, y: Array) -> Known:
    """`x` (N, C) to `y` by the statistics of the batch, which the running statistics move towards."""
    count, channels = x.shape
    # not in a tuple yet: numba would not see that what is written into one is read by the loops that follow
    mean, inverse, factor, offset = room(channels), room(channels), room(channels), room(channels)
    slope = real(norm.slope)
    sums = np.zeros((threads, channels), np.float32)
    for t in prange(threads):
        begin, end = stretch(count, threads, t)
        add_up(x[begin:end], sums[t])
    for c in range(channels):
        mean[c] = total(sums, c) / count
    sums[:] = ZERO
    for t in prange(threads):
        begin, end = stretch(count, threads, t)
        add_up_squares(x[begin:end], mean, sums[t])
    for c in range(channels):
        squares = real(total(sums, c))
        inverse[c] = 1 / np.sqrt(double(squares / real(count)) + norm.eps)
        follow_statistics(norm, c, mean[c], squares / real(count - 1))
    linear_terms(norm, mean, inverse, factor, offset)
    for t in prange(threads):
        begin, end = stretch(count, threads, t)
        activate(x[begin:end], factor, offset, slope, y[begin:end])
    return Known(mean, inverse, factor, offset)


@kept
@shared
def differentiate(
    x: Array, dy: Array, norm: Norm, known: Known, threads: int, dx: Array, dw: Array, db: Array
) -> None:
    """The gradients of `normalize`: of its result, `dy`, to those of its input, its weight and its bias."""
    count, channels = x.shape
    sums, products = np.zeros((threads, channels), np.float32), np.zeros((threads, channels), np.float32)
    for t in prange(threads):
        begin, end = stretch(count, threads, t)
        add_up_gradients(x[begin:end], dy[begin:end], known, real(norm.slope), sums[t], products[t])
    along, centre = room(channels), room(channels)
    for c in range(channels):
        db[c] = total(sums, c)
        product = real(total(products, c))
        dw[c] = product * known.inverse[c]
        along[c] = product * known.inverse[c] * known.inverse[c] / real(count)
        centre[c] = db[c] / real(count)
    for t in prange(threads):
        begin, end = stretch(count, threads, t)
        carry_back(x[begin:end], dy[begin:end], norm, known, along, centre, dx[begin:end])


@kept
@shared
def rescale(x: Array, norm: Norm, threads: int, y: Array) -> None:
    """`x` (N, C) to `y` by the running statistics, as in evaluation."""
    factor, offset = running_terms(norm)
    for t in prange(threads):
        begin, end = stretch(len(x), threads, t)
        activate(x[begin:end], factor, offset, real(norm.slope), y[begin:end])


@kept
@shared
def pool(x: Array, threads: int, y: Array, which: Array) -> None:
    """The largest of each 2x2 pixels of maps (N, H, W, C), H and W even, and which of the four it was.

    It is the first of equals; what is no number counts as largest.
    """
    count, height, width, channels = y.shape
    for t in prange(threads):  # numba vectorises these loops here, but not in a function of their own
        begin, end = stretch(count, threads, t)
        for n in range(begin, end):
            for i in range(height):
                for j in range(width):
                    for c in range(channels):
                        largest, found = x[at(n), at(2 * i), at(2 * j), at(c)], byte(0)
                        value = x[at(n), at(2 * i), at(2 * j + 1), at(c)]
                        if (value > largest) | (value != value):
                            largest, found = value, byte(1)
                        value = x[at(n), at(2 * i + 1), at(2 * j), at(c)]
                        if (value > largest) | (value != value):
                            largest, found = value, byte(2)
                        value = x[at(n), at(2 * i + 1), at(2 * j + 1), at(c)]
                        if (value > largest) | (value != value):
                            largest, found = value, byte(3)
                        y[at(n), at(i), at(j), at(c)] = largest
                        which[at(n), at(i), at(j), at(c)] = found


@kept
@shared
def unpool(dy: Array, which: Array, threads: int, dx: Array) -> None:
    """The gradient of `pool`: what comes to the largest of four pixels goes to it, nothing to the others."""
    count, height, width, channels = dy.shape
    for t in prange(threads):
        begin, end = stretch(count, threads, t)
        for n in range(begin, end):
            for i in range(height):
                for j in range(width):
                    for c in range(channels):
                        gradient = dy[at(n), at(i), at(j), at(c)]
                        found = which[at(n), at(i), at(j), at(c)]
                        dx[at(n), at(2 * i), at(2 * j), at(c)] = gradient if found == 0 else ZERO
                        dx[at(n), at(2 * i), at(2 * j + 1), at(c)] = gradient if found == 1 else ZERO
                        dx[at(n), at(2 * i + 1), at(2 * j), at(c)] = gradient if found == 2 else ZERO
                        dx[at(n), at(2 * i + 1), at(2 * j + 1), at(c)] = gradient if found == 3 else ZERO


@kept
@kernel
def move_towards(old: Array, new: Array, share: float) -> None:
    """A share of the way, for as many numbers as fill vectors."""
    part = everywhere(real(share))
    whole = len(old) - len(old) % (4 * LANES)
    for begin in range(0, whole, 4 * LANES):
        for k in range(4):
            move_vector(old, new, part, begin + k * LANES)
    for i in range(whole, len(old), LANES):
        move_vector(old, new, part, i)


@inlined
def move_vector(old: Array, new: Array, part: Vector, i: int) -> None:
    """Those from the `i`th on, and let those come that will be next."""
    fetch(old, (i + FETCHED_AHEAD,))
    fetch(new, (i + FETCHED_AHEAD,))
    before = load(old, (i,))
    store(old, (i,), fma(part, load(new, (i,)) - before, before))


@kernel
def room(channels: int) -> Array:
    """For a number per channel; in a piece of its own, as loops over parts of one are not vectorised."""
    return np.empty(channels, np.float32)


@kernel
def stretch(count: int, threads: int, t: int) -> tuple[int, int]:
    """Where the rows of a thread begin and end."""
    size = (count + threads - 1) // threads
    return min(count, t * size), min(count, (t + 1) * size)


@kernel
def total(sums: Array, c: int) -> float:
    """Over the threads, in double precision."""
    result = 0.0
    for t in range(len(sums)):
        result += sums[t, c]
    return result


@fused
def add_up(x: Array, sums: Array) -> None:
    """Add rows to the sums of their channels, one by one."""
    count, channels = x.shape
    whole = count - count % AT_ONCE
    for row in range(0, whole, AT_ONCE):
        for c in range(channels):
            value = sums[at(c)]
            for k in range(AT_ONCE):
                value += x[at(row + k), at(c)]
            sums[at(c)] = value
    for row in range(whole, count):
        for c in range(channels):
            sums[at(c)] += x[at(row), at(c)]


@fused
def add_up_squares(x: Array, mean: Array, sums: Array) -> None:
    """Likewise the squares of their distances from the mean."""
    count, channels = x.shape
    whole = count - count % AT_ONCE
    for row in range(0, whole, AT_ONCE):
        for c in range(channels):
            value, middle = sums[at(c)], mean[at(c)]
            for k in range(AT_ONCE):
                distance = x[at(row + k), at(c)] - middle
                value += distance * distance
            sums[at(c)] = value
    for row in range(whole, count):
        for c in range(channels):
            distance = x[at(row), at(c)] - mean[at(c)]
            sums[at(c)] += distance * distance


@fused
def add_up_gradients(x: Array, dy: Array, known: Known, slope: float, sums: Array, products: Array) -> None:
    """Likewise the gradients that leave the activation, and their products with the distances."""
    mean, factor, offset = known.mean, known.factor, known.offset
    count, channels = x.shape
    whole = count - count % (AT_ONCE // 2)
    for row in range(0, whole, AT_ONCE // 2):
        for c in range(channels):
            value, product = sums[at(c)], products[at(c)]
            for k in range(AT_ONCE // 2):
                before = x[at(row + k), at(c)]
                gradient = passed(before * factor[at(c)] + offset[at(c)], dy[at(row + k), at(c)], slope)
                value += gradient
                product += (before - mean[at(c)]) * gradient
            sums[at(c)], products[at(c)] = value, product
    for row in range(whole, count):
        for c in range(channels):
            before = x[at(row), at(c)]
            gradient = passed(before * factor[at(c)] + offset[at(c)], dy[at(row), at(c)], slope)
            sums[at(c)] += gradient
            products[at(c)] += (before - mean[at(c)]) * gradient


@fused
def carry_back(x: Array, dy: Array, norm: Norm, known: Known, along: Array, centre: Array, dx: Array) -> None:
    """The gradient that leaves the norm: less its mean, and less what it has along the values."""
    weight, slope = norm.weight, real(norm.slope)
    mean, inverse, factor, offset = known.mean, known.inverse, known.factor, known.offset
    count, channels = x.shape
    for row in range(count):
        for c in range(channels):
            before = x[at(row), at(c)]
            gradient = passed(before * factor[at(c)] + offset[at(c)], dy[at(row), at(c)], slope)
            change = gradient - centre[at(c)] - (before - mean[at(c)]) * along[at(c)]
            dx[at(row), at(c)] = change * inverse[at(c)] * weight[at(c)]


@kernel
def passed(value: float, gradient: float, slope: float) -> float:
    """What a leaky ReLU at this value lets through of a gradient, rounded before anything is added to it."""
    return gradient if value > ZERO else gradient * slope


@fused
def linear_terms(norm: Norm, mean: Array, inverse: Array, factor: Array, offset: Array) -> None:
    """The norm of each channel as a product and a sum."""
    for c in range(len(mean)):
        factor[c] = inverse[c] * norm.weight[c]
        offset[c] = norm.bias[c] - mean[c] * factor[c]


@kernel
def running_terms(norm: Norm) -> tuple[Array, Array]:
    """Likewise, by the running statistics."""
    channels = len(norm.mean)
    inverse, factor, offset = room(channels), room(channels), room(channels)
    for c in range(channels):
        inverse[c] = ONE / np.sqrt(norm.variance[c] + real(norm.eps))
    linear_terms(norm, norm.mean, inverse, factor, offset)
    return factor, offset


@kernel
def follow_statistics(norm: Norm, c: int, mean: float, variance: float) -> None:
    """Move the running statistics of a channel; one product is double, as in torch, and no other."""
    share = real(norm.momentum)
    rest = ONE - share
    norm.mean[c] = share * mean + rest * norm.mean[c]
    norm.variance[c] = double(share) * double(variance) + double(rest * norm.variance[c])


@fused
def activate(x: Array, factor: Array, offset: Array, slope: float, y: Array) -> None:
    """The norm as a factor and an offset for each channel, and the activation."""
    count, channels = x.shape
    for row in range(count):
        for c in range(channels):
            value = x[at(row), at(c)] * factor[at(c)] + offset[at(c)]
            y[at(row), at(c)] = value if value > ZERO else value * slope
