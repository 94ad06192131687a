"""Which images to label next: points that stand for the images in, rows in the order of asking out.

Points are rows of numbers, near each other where images are alike. All functions take the rows that may be
asked about (`free`) and those that are labeled (`taken`), and are the same in every process.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

Points = NDArray[np.float32]
Rows = NDArray[np.int64]

NEIGHBOURS = 20  # that say how typical an image is
SMALLEST = 5  # images in a cluster that is worth a label
MOST_CLUSTERS = 200
ROUNDS = 25  # of k-means
WIDER = 8  # times as many uncertain images as wanted, among which different ones are chosen


def typical(points: Points, free: Rows, taken: Rows, count: int, seed: int = 0) -> Rows:
    """The most typical image of each of the largest groups of images that have no label yet (TypiClust)."""
    return _of_each_group(points, free, taken, count, seed, _by_typicality)


def spread(points: Points, free: Rows, taken: Rows, count: int, seed: int = 0) -> Rows:
    """An image by chance of each of the largest groups of images that have no label yet."""
    return _of_each_group(points, free, taken, count, seed, _by_chance)


def less_certain(margins: Points, free: Rows, count: int) -> Rows:
    """The half of the images over which the model wavers most, or as many as are wanted."""
    order = free[np.argsort(margins[free], kind="stable")]
    return np.asarray(order[: max(count, len(order) // 2)])


def uncertain(points: Points, margins: Points, free: Rows, count: int, seed: int = 0) -> Rows:
    """Images that the model wavers over, one of each kind; `margins` of all rows are small where it does."""
    order = less_certain(margins, free, WIDER * count)[: WIDER * count]
    if len(order) <= count:
        return order
    cluster = clusters(points[order], count, seed)
    first = np.sort(np.unique(cluster, return_index=True)[1])  # the least certain of each cluster
    rest = np.setdiff1d(np.arange(len(order)), first)
    return np.asarray(order[np.concatenate([first, rest])[:count]])


def clusters(points: Points, count: int, seed: int = 0) -> Rows:
    """The cluster of each point, by k-means that begins as k-means++ does."""
    random = np.random.default_rng(seed)
    centres = _far_apart(points, count, random)
    cluster: Rows = np.zeros(len(points), np.int64)
    for _ in range(ROUNDS):
        before, cluster = cluster, distances(points, centres).argmin(1)
        if np.array_equal(before, cluster):
            break
        sums = np.zeros_like(centres)
        np.add.at(sums, cluster, points)
        sizes = np.bincount(cluster, minlength=count)[:, None]
        centres = np.where(sizes, sums / np.maximum(sizes, 1), centres).astype(np.float32)
    return cluster


def distances(points: Points, others: Points) -> Points:
    """Squared distances (n, m)."""
    products: Any = points @ others.T
    squares = (points**2).sum(1)[:, None] + (others**2).sum(1)[None] - 2 * products
    return np.maximum(squares, 0)  # type: ignore[no-any-return]


def _far_apart(points: Points, count: int, random: np.random.Generator) -> Points:
    """Points to begin k-means with, each drawn in proportion to its squared distance from those before."""
    chosen = [int(random.integers(len(points)))]
    nearest = distances(points, points[chosen])[:, 0].astype(np.float64)
    for _ in range(count - 1):
        total = nearest.sum()
        share = nearest / total if total else None
        chosen.append(int(random.choice(len(points), p=share)))
        nearest = np.minimum(nearest, distances(points, points[chosen[-1:]])[:, 0])
    return points[chosen]


def _of_each_group(
    points: Points, free: Rows, taken: Rows, count: int, seed: int, order: Callable[[Points], Rows]
) -> Rows:
    """Images of groups by k-means, as many as labels and images wanted; `order` ranks those of a group."""
    rows = np.concatenate([free, taken])
    if len(free) <= count or len(rows) < 2 * SMALLEST:
        return free[:count]
    own = points[rows]
    wanted = min(len(taken) + count, MOST_CLUSTERS, len(rows) // SMALLEST)
    cluster = clusters(own, wanted, seed)
    sizes = np.bincount(cluster, minlength=wanted)
    labels = np.bincount(cluster[len(free) :], minlength=wanted)
    waiting = {}
    for k in range(wanted):
        members = np.flatnonzero(cluster == k)
        ranked = members[order(own[members])] if len(members) else members
        waiting[k] = ranked[ranked < len(free)].tolist()
    chosen: list[int] = []
    while len(chosen) < count:
        left = [k for k in range(wanted) if waiting[k]]
        k = min(left, key=lambda k: (sizes[k] < SMALLEST, labels[k], -sizes[k]))
        chosen.append(waiting[k].pop(0))
        labels[k] += 1
    return np.asarray(free[np.array(chosen)])


def _by_typicality(members: Points) -> Rows:
    """The members of a group, those with the nearest neighbours in it first."""
    near = max(1, min(NEIGHBOURS, len(members) // 2))
    apart = np.sort(np.sqrt(distances(members, members)), axis=1)[:, : near + 1]
    return np.argsort(apart.mean(1), kind="stable")


def _by_chance(members: Points) -> Rows:
    """The members of a group in an order that has nothing to do with them."""
    return np.random.default_rng(len(members)).permutation(len(members))
