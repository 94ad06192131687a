"""Means, intervals and ranks, each computed a second way."""

import statistics
from math import sqrt

import pytest
from scipy import stats

from interlude.bench.statistics import Estimate, critical_difference, rank

# q of Demšar (2006), table 5a, for 2 to 10 classifiers at 5 %
NEMENYI = {2: 1.960, 3: 2.343, 4: 2.569, 5: 2.728, 6: 2.850, 7: 2.949, 8: 3.031, 9: 3.102, 10: 3.164}


def test_the_interval_of_three_runs_is_4_303_standard_errors_wide():
    values = (4.5, 4.6, 4.9)
    estimate = Estimate(values)
    mean = sum(values) / 3
    std = sqrt(sum((value - mean) ** 2 for value in values) / 2)
    assert estimate.mean == pytest.approx(mean)
    assert estimate.std == pytest.approx(std)
    assert estimate.margin == pytest.approx(4.302653 * std / sqrt(3), rel=1e-6)


def test_the_interval_is_that_of_scipy():
    values = (3.0, 1.0, 4.0, 1.5, 9.0)
    low, high = stats.t.interval(0.95, 4, loc=statistics.fmean(values), scale=stats.sem(values))
    estimate = Estimate(values)
    assert (estimate.mean - estimate.margin, estimate.mean + estimate.margin) == pytest.approx((low, high))


def test_one_run_has_no_spread():
    estimate = Estimate((3.0,))
    assert (estimate.mean, estimate.std, estimate.margin) == (3.0, None, None)


@pytest.mark.parametrize("count", NEMENYI)
def test_the_critical_difference_follows_the_published_table(count):
    expected = NEMENYI[count] * sqrt(count * (count + 1) / (6 * 10))
    assert critical_difference(count, 10) == pytest.approx(expected, rel=6e-4)


def test_the_textbook_example_has_a_critical_difference_of_1_25():
    assert critical_difference(4, 14) == pytest.approx(1.25, abs=0.005)  # Demšar (2006), section 3.2.2


def test_ranks_are_averaged_and_ties_share():
    ranking = rank("abc", [[1.0, 2.0, 3.0], [5.0, 5.0, 1.0]])
    assert ranking.ranks == pytest.approx([(1 + 2.5) / 2, (2 + 2.5) / 2, (3 + 1) / 2])
    assert ranking.num_blocks == 2


def test_the_friedman_statistic_is_that_of_scipy_with_ties():
    errors = [[3, 1, 2, 2], [4, 1, 3, 2], [4, 2, 2, 2], [1, 2, 4, 3], [4, 1, 3, 3]]
    expected = stats.friedmanchisquare(*zip(*errors, strict=True))
    ranking = rank("abcd", errors)
    assert (ranking.chi_square, ranking.probability) == pytest.approx((expected.statistic, expected.pvalue))


def test_rows_that_never_differ_have_no_statistic():
    ranking = rank("ab", [[1, 1], [2, 2]])
    assert (ranking.chi_square, ranking.probability) == (0.0, 1.0)
