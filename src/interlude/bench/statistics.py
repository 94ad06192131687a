"""Means, intervals and ranks over repetitions and data sets."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt
from statistics import fmean, stdev

import numpy as np
from scipy import stats

CONFIDENCE = 0.95


@dataclass(frozen=True)
class Estimate:
    """A mean over repetitions; spread and interval are None where there is one repetition only."""

    values: tuple[float, ...]

    @property
    def count(self) -> int:
        """How many repetitions there are."""
        return len(self.values)

    @property
    def mean(self) -> float:
        """Their mean."""
        return fmean(self.values)

    @property
    def std(self) -> float | None:
        """Their standard deviation, with one degree of freedom taken."""
        return stdev(self.values) if self.count > 1 else None

    @property
    def margin(self) -> float | None:
        """Half the 95 % interval of the mean, by Student's t over the repetitions."""
        if self.std is None:
            return None
        quantile = float(stats.t.ppf((1 + CONFIDENCE) / 2, self.count - 1))
        return quantile * self.std / sqrt(self.count)

    @property
    def interval(self) -> tuple[float, float] | None:
        """The ends of that interval."""
        return None if self.margin is None else (self.mean - self.margin, self.mean + self.margin)


@dataclass(frozen=True)
class Ranking:
    """Average ranks of rows over blocks, and how far two must be apart to differ (Nemenyi, 5 %)."""

    names: tuple[str, ...]
    ranks: tuple[float, ...]
    num_blocks: int
    chi_square: float  # Friedman's statistic, and its probability if no row differed
    probability: float

    @property
    def critical_difference(self) -> float:
        """Nemenyi's critical difference of average ranks."""
        return critical_difference(len(self.names), self.num_blocks)


def critical_difference(num_rows: int, num_blocks: int) -> float:
    """q sqrt(k (k + 1) / 6 N), with q of the studentised range of k rows divided by sqrt 2 (Demšar 2006)."""
    quantile = float(stats.studentized_range.ppf(CONFIDENCE, num_rows, np.inf)) / sqrt(2)
    return quantile * sqrt(num_rows * (num_rows + 1) / (6 * num_blocks))


def rank(names: Sequence[str], errors: Sequence[Sequence[float]]) -> Ranking:
    """Average ranks, 1 the best; `errors` holds one list a block, in the order of the names. Ties share."""
    table = stats.rankdata(np.asarray(errors, dtype=float), axis=1)
    num_blocks, num_rows = table.shape
    means = table.mean(0)
    spread = table.var(ddof=0) * num_rows / (num_rows - 1)  # of the ranks within a block, ties counted
    chi_square = float(num_blocks * ((means - (num_rows + 1) / 2) ** 2).sum() / spread) if spread else 0.0
    probability = float(stats.chi2.sf(chi_square, num_rows - 1))
    return Ranking(tuple(names), tuple(map(float, means)), num_blocks, chi_square, probability)
