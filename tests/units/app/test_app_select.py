"""Which images are asked about first."""

import numpy as np
import pytest

from interlude.app import select

NOTHING = np.zeros(0, np.int64)


@pytest.fixture
def heaps(random):
    """Sixty points in three heaps, around 0, 10 and 20 on a line; which heap each is of."""
    heap = np.repeat([0, 1, 2], [30, 20, 10])
    points = random.normal(0, 0.3, (60, 2)) + 10 * np.stack([heap, 0 * heap], 1)
    return points.astype(np.float32), heap


def everything(points):
    return np.arange(len(points))


def test_distances_are_those_of_school(random):
    points, others = (random.normal(size=(n, 3)).astype(np.float32) for n in (5, 4))
    by_hand = [[sum((a - b) ** 2 for a, b in zip(p, o, strict=True)) for o in others] for p in points]
    np.testing.assert_allclose(select.distances(points, others), by_hand, atol=1e-4)


def test_clusters_are_the_heaps(heaps):
    points, heap = heaps
    cluster = select.clusters(points, 3)
    assert all(len(set(cluster[heap == number])) == 1 for number in range(3))
    assert len(set(cluster)) == 3


def test_clusters_of_equal_points_are_found_too():
    assert set(select.clusters(np.ones((8, 2), np.float32), 3)) <= {0, 1, 2}


def test_the_first_typical_images_are_one_of_each_heap_the_largest_first(heaps):
    points, heap = heaps
    chosen = select.typical(points, everything(points), NOTHING, 3)
    assert heap[chosen].tolist() == [0, 1, 2]


def test_a_typical_image_is_in_the_middle_of_its_heap(heaps):
    points, heap = heaps
    for row in select.typical(points, everything(points), NOTHING, 3):
        own = points[heap == heap[row]]
        apart = np.sqrt(((own - own.mean(0)) ** 2).sum(1))
        assert np.sqrt(((points[row] - own.mean(0)) ** 2).sum()) < np.median(apart)


def test_a_heap_with_a_label_waits_for_the_others(heaps):
    points, heap = heaps
    taken = np.array([0])
    chosen = select.typical(points, everything(points)[1:], taken, 2)
    assert sorted(heap[chosen]) == [1, 2]


def test_spread_images_are_of_different_heaps(heaps):
    points, heap = heaps
    assert set(heap[select.spread(points, everything(points), NOTHING, 3)]) == {0, 1, 2}


def test_spread_images_are_of_other_heaps_than_what_is_labeled(heaps):
    points, heap = heaps
    chosen = select.spread(points, everything(points)[1:], np.array([0]), 2)
    assert sorted(heap[chosen]) == [1, 2]


def test_spread_images_are_not_the_typical_ones(heaps):
    points, _ = heaps
    rows = everything(points)
    assert set(select.spread(points, rows, NOTHING, 3)) != set(select.typical(points, rows, NOTHING, 3))


def test_uncertain_images_are_the_least_certain_of_each_kind(heaps):
    points, _ = heaps
    margins = np.linspace(0.5, 0.6, 60).astype(np.float32)
    margins[[5, 35, 55]] = 0.1, 0.2, 0.3
    assert select.uncertain(points, margins, everything(points), 3).tolist() == [5, 35, 55]


def test_of_images_that_are_certain_none_is_asked_about_before_the_others(random):
    points = random.normal(size=(100, 2)).astype(np.float32)
    margins = np.where(np.arange(100) < 30, 0.1, 0.9).astype(np.float32)
    assert set(select.uncertain(points, margins, np.arange(100), 3)) <= set(range(30))


@pytest.mark.parametrize("count", [1, 7, 60, 100])
@pytest.mark.parametrize("labeled", [0, 1, 30, 59, 60])
def test_as_many_are_chosen_as_there_are_and_none_twice(heaps, count, labeled):
    points, _ = heaps
    order = np.random.default_rng(1).permutation(60)
    taken, free = order[:labeled], order[labeled:]
    margins = np.zeros(60, np.float32)
    for chosen in (
        select.typical(points, free, taken, count),
        select.spread(points, free, taken, count),
        select.uncertain(points, margins, free, count),
    ):
        assert len(chosen) == min(count, len(free))
        assert len(set(chosen.tolist())) == len(chosen)
        assert set(chosen.tolist()) <= set(free.tolist())


def test_the_same_is_chosen_each_time(random):
    points = random.normal(size=(200, 4)).astype(np.float32)
    one, two = (select.typical(points, np.arange(200), NOTHING, 20) for _ in range(2))
    assert one.tolist() == two.tolist()
