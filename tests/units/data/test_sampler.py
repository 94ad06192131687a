import time
import tracemalloc

import numpy as np
import pytest
import torch

from interlude.data.sampler import AT_ONCE, Sampler
from interlude.errors import UserError

SIZES = [1, 2, 3, 4, 5, 7, 16, 40, 99, 100, 101, 1437]


def sampler(size, seed=0, stream="unlabeled"):
    return Sampler(size, seed=seed, stream=stream)


@pytest.mark.parametrize("size", SIZES)
def test_each_epoch_visits_every_row_once(size):
    for epoch in (0, 1, 1000):
        assert sampler(size).rows(epoch * size, size).sort().values.tolist() == list(range(size))


@pytest.mark.parametrize("size", SIZES)
def test_a_stretch_is_part_of_the_whole(size):
    whole = sampler(size).rows(0, 3000)
    assert torch.equal(sampler(size).rows(1111, 500), whole[1111:1611])


def test_a_stretch_may_cross_what_is_worked_out_at_once():
    rows = sampler(99).rows(AT_ONCE - 5, 10)
    assert torch.equal(rows, torch.cat([sampler(99).rows(AT_ONCE - 5, 5), sampler(99).rows(AT_ONCE, 5)]))
    assert torch.equal(rows, sampler(99).rows(0, 3 * AT_ONCE)[AT_ONCE - 5 :][:10])


def test_who_changes_the_rows_of_a_step_does_not_change_the_next():
    rows = sampler(99).rows(0, 10)
    before = rows.clone()
    rows += 1
    assert torch.equal(sampler(99).rows(0, 10), before)


def test_rows_are_indices():
    rows = sampler(10).rows(5, 7)
    assert rows.dtype == torch.int64
    assert len(sampler(10).rows(5, 0)) == 0


def test_seeds_streams_and_epochs_have_their_own_order():
    orders = [sampler(50, seed, stream).rows(0, 50) for seed in (0, 1) for stream in ("labeled", "unlabeled")]
    orders += [sampler(50).rows(50, 50)]
    assert len({tuple(order.tolist()) for order in orders}) == len(orders)


def test_the_order_never_changes():
    assert sampler(10, seed=3, stream="labeled").rows(0, 20).tolist() == [
        6,
        8,
        7,
        4,
        5,
        9,
        1,
        3,
        0,
        2,
        6,
        1,
        4,
        8,
        0,
        5,
        9,
        7,
        3,
        2,
    ]


def test_nothing_to_draw_from_is_an_error():
    with pytest.raises(UserError, match="no unlabeled images"):
        sampler(0)


def test_a_hundred_million_rows_cost_no_more_than_a_few():
    large = sampler(10**8)
    start = time.perf_counter()
    rows = large.rows(10**12, 448)
    assert time.perf_counter() - start < 0.1
    assert len(rows.unique()) == 448
    assert rows.max() > 9 * 10**7


def test_a_hundred_million_rows_take_no_memory():
    tracemalloc.start()
    large = sampler(10**8)
    for step in range(20):
        large.rows(step * 448, 448)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 2**20, "a permutation would take 800 MB"


def test_a_large_epoch_visits_every_row_once_however_it_is_cut():
    size = 10**6 + 3
    seen = np.zeros(size, np.uint8)
    for start in range(0, size, 70_001):
        np.add.at(seen, sampler(size).rows(size + start, min(70_001, size - start)).numpy(), 1)
    assert (seen == 1).all()


def chi_square_excess(counts, expected):
    """How many standard deviations the counts are more uneven than chance."""
    freedom = counts.size - 1
    return (((counts - expected) ** 2 / expected).sum() - freedom) / np.sqrt(2 * freedom)


@pytest.mark.parametrize("size", [3, 4, 7, 16, 40])
def test_every_row_is_equally_likely_at_every_position(size):
    epochs = sampler(size, seed=5).rows(0, 5000 * size).numpy().reshape(5000, size)
    counts = np.stack([np.bincount(column, minlength=size) for column in epochs.T])
    assert chi_square_excess(counts, 5000 / size) < 4


@pytest.mark.parametrize("size", [3, 4, 7, 16, 40])
def test_every_pair_is_equally_likely_to_be_neighbours(size):
    epochs = sampler(size, seed=6).rows(0, 5000 * size).numpy().reshape(5000, size)
    pairs = np.bincount((epochs[:, :-1] * size + epochs[:, 1:]).ravel(), minlength=size * size)
    off_diagonal = pairs.reshape(size, size)[~np.eye(size, dtype=bool)]
    assert chi_square_excess(off_diagonal, 5000 / size) < 4


def test_orders_of_many_seeds_are_independent():
    first = torch.stack([sampler(1000, seed).rows(0, 1) for seed in range(1000)]).squeeze(1)
    assert len(first.unique()) > 580, "a thousand draws of a thousand rows hit about 632 different ones"
