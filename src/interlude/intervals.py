"""How sure a figure from few images is: balanced accuracy and paired differences with their 95 % intervals.

The plain formulas claim certainty when all of twenty images are right. Both intervals here add a few made-up
outcomes before the variance is taken (Agresti and Coull, 1998; Agresti and Min, 2005), and a class with few
images borrows some from the others, which keeps them honest from a handful of images on. Images of one group
(a patient) count as one observation with their mean.
"""

from dataclasses import dataclass
from math import sqrt
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

Numbers = NDArray[np.float64]
Z = 1.959964  # two-sided 95 % of the normal distribution
BORROWED = 2.0  # images


@dataclass(frozen=True)
class Estimate:
    """A figure in percent, or a difference in points, with its 95 % interval."""

    mean: float
    low: float
    high: float

    def to_json(self) -> dict[str, float]:
        """Rounded, as files show it."""
        return {"mean": round(self.mean, 6), "low": round(self.low, 6), "high": round(self.high, 6)}


def balanced_accuracy(right: ArrayLike, labels: ArrayLike, groups: ArrayLike | None = None) -> Estimate:
    """Mean over classes of the share that is right; `right` is 0 or 1 an image, or a share of tries."""
    strata = _strata(right, labels, groups)
    extra = 2 / len(strata)  # two made-up hits and two misses, spread evenly over the classes
    counts = [x.count + 2 * extra for x in strata]
    shares = [(x.total + extra) / n for x, n in zip(strata, counts, strict=True)]
    likely = _borrowing(shares, counts)
    variance = sum(p * (1 - p) / n for p, n in zip(likely, counts, strict=True))
    centre, half = _mean(shares), Z * sqrt(variance) / len(strata)
    mean = _mean([x.total / x.count for x in strata])
    low, high = min(mean, max(0.0, centre - half)), max(mean, min(1.0, centre + half))
    return _percent(mean, low, high)


def paired_difference(
    right: ArrayLike, right_other: ArrayLike, labels: ArrayLike, groups: ArrayLike | None = None
) -> Estimate:
    """Balanced accuracy less that of another model judged on the same images, in points."""
    difference = np.asarray(right, np.float64) - np.asarray(right_other, np.float64)
    strata = _strata(difference, labels, groups)
    extra = 1 / len(strata)  # one made-up image that only the first gets right, one that only the other does
    counts = [x.count + 2 * extra for x in strata]
    means = [x.total / n for x, n in zip(strata, counts, strict=True)]
    squares = [(x.squares + 2 * extra) / n for x, n in zip(strata, counts, strict=True)]
    likely = zip(_borrowing(squares, counts), _borrowing(means, counts), strict=True)
    variance = sum((s - m * m) / n for (s, m), n in zip(likely, counts, strict=True))
    centre, half = _mean(means), Z * sqrt(variance) / len(strata)
    mean = _mean([x.total / x.count for x in strata])
    low, high = min(mean, max(-1.0, centre - half)), max(mean, min(1.0, centre + half))
    return _percent(mean, low, high)


@dataclass(frozen=True)
class _Stratum:
    """The outcomes of one class: how many independent ones they are worth, their sum and sum of squares."""

    count: float
    total: float
    squares: float


def _strata(values: ArrayLike, labels: ArrayLike, groups: ArrayLike | None) -> list[_Stratum]:
    outcomes, classes = np.asarray(values, np.float64), np.asarray(labels)
    names: NDArray[Any] = np.arange(len(outcomes)) if groups is None else np.asarray(groups)
    return [
        _stratum(outcomes[classes == label], names[classes == label]) for label in np.unique(classes).tolist()
    ]


def _stratum(outcomes: Numbers, groups: NDArray[Any]) -> _Stratum:
    _, unit, sizes = np.unique(groups, return_inverse=True, return_counts=True)
    means = np.bincount(unit, outcomes) / sizes
    images = int(sizes.sum())
    count = images**2 / int(np.square(sizes).sum())  # of equal groups their number, of unequal ones fewer
    mean, square = (float(sizes @ values) / images for values in (means, np.square(means)))
    return _Stratum(count, count * mean, count * square)


def _borrowing(values: list[float], counts: list[float]) -> list[float]:
    """The means of classes of these sizes, each with some images' worth of the mean of all images.

    One or two images say nothing about the variance of their class: all right, or all wrong, is no certainty.
    """
    common = sum(v * n for v, n in zip(values, counts, strict=True)) / sum(counts)
    return [(v * n + BORROWED * common) / (n + BORROWED) for v, n in zip(values, counts, strict=True)]


def _percent(*shares: float) -> Estimate:
    """Without the dust of sums, so that 63.75 is rounded alike wherever it is shown."""
    return Estimate(*(round(100 * share, 9) for share in shares))


def _mean(values: list[float]) -> float:
    return sum(values) / len(values)
