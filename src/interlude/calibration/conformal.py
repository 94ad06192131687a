"""Sets of classes that hold the true one with a promised frequency (split-conformal prediction).

A class is in the set if its probability reaches a threshold: the "least ambiguous" sets of Sadinle, Lei and
Wasserman (2019), the smallest on average. No random numbers are needed, so an image always has the same set.
The most probable class is always in, which can only raise the coverage: where a model is right more often
than promised, plain thresholds would leave sets empty, to be wrong as often as they may.
"""

import math
from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

TOLERANCE = 1e-9  # in sums of weights, where 0.9 of ten images means nine of them


def set_threshold(
    probabilities: Tensor, labels: Tensor, *, coverage: float, groups: Sequence[object] | None = None
) -> float | None:
    """The probability that a class must reach to be in the set; None if `coverage` cannot be promised.

    `probabilities` (N, K) are those of held-out images. Images of one group (a patient) resemble each other;
    so every group weighs as one image, and the promise is for images of new groups (Lee, Barber and Willett
    2023). With groups of one image this is the usual split-conformal quantile.
    """
    weights = _weights(len(labels), groups)
    scores = 1 - probabilities.double()[torch.arange(len(labels)), labels].numpy()
    order = np.argsort(scores, kind="stable")
    reached = np.cumsum(weights[order]) >= coverage - TOLERANCE
    if not reached.any():
        return None
    return float(1 - scores[order][reached.argmax()])


def highest_coverage(held_out: int) -> float:
    """The coverage that so many held-out images (or groups) can just promise."""
    return held_out / (held_out + 1)


def needed(coverage: float) -> int:
    """How many held-out images (or groups) it takes to promise a coverage."""
    return math.ceil(coverage / (1 - coverage) - TOLERANCE)


def sets(probabilities: Tensor, threshold: float | None) -> Tensor:
    """Which classes are in the set of each image, as booleans (N, K); all of them without a threshold."""
    if threshold is None:
        return torch.ones_like(probabilities, dtype=torch.bool)
    return (probabilities >= threshold) | (probabilities >= probabilities.amax(-1, keepdim=True))


def _weights(count: int, groups: Sequence[object] | None) -> NDArray[np.float64]:
    """What each image adds to the cumulated distribution; the group of the new image has the missing part."""
    if groups is None:
        return np.full(count, 1 / (count + 1))
    _, group, sizes = np.unique(np.asarray(groups), return_inverse=True, return_counts=True)
    shares: NDArray[np.float64] = 1 / ((len(sizes) + 1) * sizes[group])
    return shares
