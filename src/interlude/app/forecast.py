"""What more labels would buy, from the accuracies that fewer labels gave."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

MORE = 20  # labels that are thought of
FEWEST = 3  # different numbers of labels below which nothing is said
DRAWS = 400
WIDTH = 2 * 1.96  # standard errors in a 95% interval
LEAST_ERROR = 0.5  # points: no accuracy is known better than this
Numbers = NDArray[np.float64]


class Point(NamedTuple):
    """The accuracy that a number of labels gave, in percent, with its interval."""

    labels: int
    accuracy: float
    low: float
    high: float


def forecast(points: Sequence[Point], more: int = MORE) -> dict[str, Any] | None:
    """The gain that so many more labels promise, with its interval; None where that cannot be said.

    The error is taken to fall as a + b / sqrt(labels), a and b not negative, which is what the chance in a
    sample of labels would do. The interval comes from accuracies drawn anew as uncertain as they are.
    """
    if len({point.labels for point in points}) < FEWEST:
        return None
    numbers = np.array([point.labels for point in points], np.float64)
    errors = 100 - np.array([point.accuracy for point in points])
    spans = np.array([point.high - point.low for point in points])
    scatter = np.maximum(spans / WIDTH, LEAST_ERROR)
    last = numbers.max()
    step = 1 / np.sqrt(last) - 1 / np.sqrt(last + more)
    draws = errors + scatter * np.random.default_rng(0).standard_normal((DRAWS, len(points)))
    gains = [fall(numbers, drawn, scatter) * step for drawn in draws]
    gain = fall(numbers, errors, scatter) * step
    low, high = np.quantile(gains, [0.025, 0.975])
    return {
        "more": more,
        "gain": round(gain, 1),
        "low": round(float(low), 1),
        "high": round(float(high), 1),
        "sentence": f"{more} more labels would buy {_said(gain)}",
    }


def _said(gain: float) -> str:
    if gain < 0.5:
        return "less than a point"
    return f"about {gain:+.0f} {'point' if round(gain) == 1 else 'points'}"


def fall(numbers: Numbers, errors: Numbers, scatter: Numbers) -> float:
    """The b of a + b / sqrt(n) that fits best, weighted by how well each error is known; a, b >= 0."""
    x, weights = 1 / np.sqrt(numbers), 1 / scatter**2
    mean_x, mean_y = np.average(x, weights=weights), np.average(errors, weights=weights)
    spread = np.average((x - mean_x) ** 2, weights=weights)
    b = np.average((x - mean_x) * (errors - mean_y), weights=weights) / spread
    if mean_y - b * mean_x < 0:  # it would fall below zero: let it end there
        b = np.average(x * errors, weights=weights) / np.average(x**2, weights=weights)
    return float(max(b, 0.0))
