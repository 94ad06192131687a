"""Near duplicates: images that look the same once scaled down, though their pixels differ.

Two images are compared by the correlation of their grey thumbnails, which a change of brightness, of size or
of compression hardly moves. How close is close depends on the data: two photos of T-shirts can be nearer than
two crops of one landscape. So each image is also compared with a sample of all images, and its near
duplicates must be ten times nearer to it than what is merely of its kind, and nearer still among so many
images that some come as near by chance.
"""

import math
from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

SIDE = 12  # of a thumbnail
RATIO = 0.1  # how much nearer than the image's neighbours in the sample
CHANCE = 0.01  # of the images may have another as near that is no copy
FEWEST_DIMENSIONS = 8  # thumbnails that differ in fewer ways are a sign of a small sample
ALWAYS, NEVER = 0.002, 0.05  # distances that settle the matter whatever the neighbours are
PROBES = 3  # in the cells of so many sample images an image is looked for
FEWEST = 8  # with fewer images there is no telling what is of a kind
PLAIN = 1.0  # standard deviation in grey levels below which a thumbnail shows nothing
BLOCK = 2048
MOST = 500_000  # pairs after which the search ends

Thumbnails = NDArray[np.uint8]
Pairs = NDArray[np.int64]
Floats = NDArray[np.float32]


def near_pairs(
    thumbnails: Thumbnails, tick: Callable[[float], None] = lambda share: None
) -> tuple[Pairs, bool]:
    """Rows (m, 2) of thumbnails (n, SIDE * SIDE) that look the same, and whether these are all of them.

    `tick` is told the share of the search that is done.
    """
    rows = np.flatnonzero(thumbnails.std(axis=1) >= PLAIN) if len(thumbnails) else np.arange(0)
    if len(rows) < 2:
        return np.empty((0, 2), np.int64), True
    thumbnails = thumbnails[rows]
    cells, reach = neighbourhoods(thumbnails)
    order = np.argsort(cells, axis=None, kind="stable")
    starts = np.flatnonzero(np.diff(cells.ravel()[order], prepend=-1))
    found = [np.empty((0, 2), np.int64)]
    kept = 0
    for number, members in enumerate(np.split(order // cells.shape[1], starts[1:])):
        tick(number / len(starts))
        for pairs in pairs_within(thumbnails, members, reach):
            found.append(pairs)
            kept += len(pairs)
        if kept > MOST:
            break
    return rows[np.unique(np.concatenate(found), axis=0)], kept <= MOST


def to_unit(thumbnails: Thumbnails) -> Floats:
    """Thumbnails as vectors of mean 0 and length 1, whose products are correlations."""
    vectors = thumbnails.astype(np.float32)
    vectors -= vectors.mean(axis=1, keepdims=True)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors


def neighbourhoods(thumbnails: Thumbnails) -> tuple[NDArray[np.int64], Floats]:
    """The nearest sample images of each image (n, PROBES), and the distance within which its copies are."""
    count = len(thumbnails)
    size = min(count, max(1000, min(4000, count // 100)))
    sample = np.sort(np.random.default_rng(0).permutation(count)[:size])
    vectors = to_unit(thumbnails[sample]).T
    rank = min(max(10, size // 100), size // 2)  # the neighbour that says what is of a kind
    ratio = chance_ratio(1 - vectors[:, :BLOCK].T @ vectors, rank, count)
    cells = np.empty((count, min(PROBES, size)), np.int64)
    reach = np.full(count, NEVER, np.float32)
    for start in range(0, count, BLOCK):
        rows = slice(start, start + BLOCK)
        distance = 1 - to_unit(thumbnails[rows]) @ vectors
        cells[rows] = np.argpartition(distance, cells.shape[1] - 1, axis=1)[:, : cells.shape[1]]
        if count >= FEWEST:
            own = np.isin(np.arange(start, start + len(distance)), sample)  # its first neighbour is itself
            nearest = np.partition(distance, (rank - 1, rank), axis=1)
            kind = np.where(own, nearest[:, rank], nearest[:, rank - 1])
            reach[rows] = np.clip(ratio * kind, ALWAYS, NEVER)
    return cells, reach


def chance_ratio(distance: Floats, rank: int, count: int) -> float:
    """How near a copy must be, as a share of the distance to the neighbour of this rank in the sample.

    In D dimensions the number of images within a radius grows with its D-th power, and the distance here with
    the square of the radius. D is read off the sample: how much farther is the neighbour of fourfold rank?
    """
    size = distance.shape[1]
    if count <= size or 4 * rank >= size:
        return RATIO
    near, far = np.partition(distance, (rank, 4 * rank), axis=1)[:, [rank, 4 * rank]].T
    growth = float(np.median(np.log(np.maximum(far, 1e-6) / np.maximum(near, 1e-6))))
    dimensions = max(FEWEST_DIMENSIONS, 2 * math.log(4) / max(growth, 1e-6))
    return min(RATIO, math.pow(CHANCE * size / (rank * count), 2 / dimensions))


def pairs_within(thumbnails: Thumbnails, members: NDArray[np.int64], reach: Floats) -> Iterator[Pairs]:
    """The pairs of one cell, a block at a time: each must be within the reach of the other."""
    vectors, reach = to_unit(thumbnails[members]), reach[members]
    for top in range(0, len(members), BLOCK):
        for left in range(top, len(members), BLOCK):
            a, b = slice(top, top + BLOCK), slice(left, left + BLOCK)
            close = 1 - vectors[a] @ vectors[b].T <= np.minimum(reach[a, None], reach[None, b])
            first, second = members[a][:, None], members[b][None]
            one, two = np.nonzero(close & (first != second))
            yield np.unique(np.sort(np.stack([members[a][one], members[b][two]], axis=1)), axis=0)
