"""One number that makes the confidence of a classifier honest: logits are divided by a temperature."""

import math

from torch import Tensor
from torch.nn.functional import cross_entropy

SPREAD = 0.5  # of the logarithm of the temperature, before any image was seen
LARGEST = 20.0  # temperature; a twentieth is the smallest
POINTS, ROUNDS = 41, 4  # of the search; each round looks ten times closer


def log_loss(logits: Tensor, labels: Tensor, temperature: float = 1.0) -> float:
    """Mean negative log probability of the true classes."""
    return float(cross_entropy(logits.double() / temperature, labels))


def fit_temperature(logits: Tensor, labels: Tensor) -> float:
    """The most probable temperature, given logits (N, K) of held-out images and their labels (N,).

    Few images say little, and where all are classified rightly they would ask for certainty; so temperatures
    far from 1 are held less probable beforehand (a normal distribution of the logarithm), which weighs as
    much with 20 images as with 20,000. As 1 has no such penalty, the log loss is never worse than with 1.
    """
    best, reach = 0.0, math.log(LARGEST)
    for _ in range(ROUNDS):
        tried = [best + reach * (2 * i / (POINTS - 1) - 1) for i in range(POINTS)]
        best = min(tried, key=lambda log_t: _penalized(logits, labels, log_t))
        reach /= (POINTS - 1) / 4
    return math.exp(best)


def _penalized(logits: Tensor, labels: Tensor, log_t: float) -> float:
    """The negative log posterior of a temperature; infinite outside the bounds."""
    if abs(log_t) > math.log(LARGEST) + 1e-9:
        return math.inf
    total = len(labels) * log_loss(logits, labels, math.exp(log_t))
    return total + (log_t / SPREAD) ** 2 / 2
