"""Vectors in registers: the words that compiled loops say them by mean what they mean for numbers."""

import numba
import numpy as np
import pytest

from interlude.registers import (
    COLUMNS,
    LANES,
    ROWS,
    everywhere,
    fetch,
    fma,
    load,
    multiply,
    multiply_and_add,
    store,
)

DEPTH, TERMS = 7, slice(1, 6)


@numba.njit
def combine(x, y, z):
    store(z, (1, 2), load(x, (0, 1)) * load(y, (1, 0)) + everywhere(np.float32(3)) - load(x, (1, 0)))


@numba.njit
def multiplied(a, row, b, column, begin, end, c):
    multiply(a, row, b, column, begin, end, c)


@numba.njit
def multiplied_and_added(a, row, b, column, begin, end, c):
    multiply_and_add(a, row, b, column, begin, end, c)


@numba.njit
def combine_at_once(x, y, z):
    fetch(x, (0, 10**6))
    store(z, (0, 0), fma(load(x, (0, 0)), load(y, (0, 0)), load(z, (0, 0))))


def numbers(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape, dtype=np.float32)


def test_vectors_are_loaded_combined_and_stored_where_they_are_said_to_be():
    x, y, z = numbers(2, LANES + 1), numbers(2, LANES, seed=1), numbers(3, LANES + 4, seed=2)
    wanted = z.copy()
    wanted[1, 2 : LANES + 2] = x[0, 1:] * y[1] + 3 - x[1, :LANES]
    combine(x, y, z)
    np.testing.assert_array_equal(z, wanted)


def test_a_product_and_a_sum_are_rounded_once():
    x, y, z = (numbers(1, LANES, seed=seed) for seed in range(3))
    wanted = (x.astype(float) * y + z).astype(np.float32)
    combine_at_once(x, y, z)
    np.testing.assert_array_equal(z, wanted)


def chained(a, b):
    """A product of matrices, its terms added one after the other, each rounded once with its sum."""
    total = np.zeros((len(a), b.shape[1]))
    for k in range(a.shape[1]):  # in double precision a product is exact
        total = (total + np.outer(a[:, k].astype(float), b[k])).astype(np.float32).astype(float)
    return total.astype(np.float32)


@pytest.mark.parametrize("turned", [False, True], ids=["in order", "turned"])
@pytest.mark.parametrize("add", [False, True], ids=["alone", "added"])
def test_a_block_of_a_product_is_added_up_term_by_term(turned, add):
    a, b, c = numbers(3 * ROWS, DEPTH), numbers(DEPTH, 2 * COLUMNS, seed=1), numbers(3 * ROWS, 2 * COLUMNS)
    wanted, rows, columns = c.copy(), slice(ROWS, 2 * ROWS), slice(COLUMNS, None)
    block = chained(a[rows, TERMS], b[TERMS, columns])
    wanted[rows, columns] = c[rows, columns] + block if add else block
    product = multiplied_and_added if add else multiplied
    product(np.asfortranarray(a) if turned else a, ROWS, b, COLUMNS, TERMS.start, TERMS.stop, c)
    np.testing.assert_array_equal(c, wanted)
