"""Intervals of figures from few images."""

from decimal import ROUND_HALF_EVEN, Decimal

import numpy as np
import pytest

from interlude.intervals import balanced_accuracy, paired_difference


def test_balanced_accuracy_is_the_mean_of_the_classes_whatever_their_sizes() -> None:
    right = [1, 1, 1, 1, 0, 0, 1, 0]
    labels = [0, 0, 0, 0, 0, 0, 1, 1]
    assert balanced_accuracy(right, labels).mean == pytest.approx(100 * (4 / 6 + 1 / 2) / 2)


@pytest.mark.parametrize(("hits", "classes"), [(23, 10), (15, 11)])
def test_a_figure_is_rounded_alike_on_screen_and_in_files(hits: int, classes: int) -> None:
    right = np.arange(8 * classes) < hits
    found = balanced_accuracy(right, np.tile(np.arange(classes), 8))
    exact = Decimal(100 * hits) / Decimal(8 * classes)
    shown = str(exact.quantize(Decimal("0.1"), ROUND_HALF_EVEN))
    assert f"{found.mean:.1f}" == f"{found.to_json()['mean']:.1f}" == shown


def test_twenty_hits_of_twenty_are_not_certainty() -> None:
    estimate = balanced_accuracy(np.ones(20), np.repeat([0, 1], 10))
    assert estimate.mean == estimate.high == 100
    assert 75 < estimate.low < 92, "Wilson's interval of 20 hits of 20 begins at 84 %"


def test_with_one_class_the_interval_is_that_of_agresti_and_coull() -> None:
    hits, images = 13, 20
    n, p = images + 4, (hits + 2) / (images + 4)
    half = 1.959964 * (p * (1 - p) / n) ** 0.5
    estimate = balanced_accuracy([1] * hits + [0] * (images - hits), [0] * images)
    assert (estimate.low, estimate.high) == pytest.approx((100 * (p - half), 100 * (p + half)))


def test_a_difference_of_one_class_is_that_of_agresti_and_min() -> None:
    only_first, only_other, images = 7, 2, 30
    first = np.repeat([1, 0, 1], [only_first, only_other, images - 9])
    other = np.repeat([0, 1, 1], [only_first, only_other, images - 9])
    b, c, n = only_first + 1, only_other + 1, images + 2
    half = 1.959964 * (b + c - (b - c) ** 2 / n) ** 0.5 / n
    estimate = paired_difference(first, other, np.zeros(images))
    assert estimate.mean == pytest.approx(100 * 5 / 30)
    assert (estimate.low, estimate.high) == pytest.approx(
        (100 * ((b - c) / n - half), 100 * ((b - c) / n + half))
    )


def test_equal_models_differ_by_nothing_give_or_take_something() -> None:
    estimate = paired_difference(np.ones(12), np.ones(12), np.repeat([0, 1, 2], 4))
    assert estimate.mean == 0
    assert estimate.low < 0 < estimate.high


def test_images_of_one_group_count_as_one() -> None:
    right, labels = np.tile([1, 1, 0, 1], 10), np.zeros(40)
    alone = balanced_accuracy(right, labels)
    in_tens = balanced_accuracy(np.repeat([1, 1, 0, 1], 10), labels, np.repeat(np.arange(4), 10))
    four = balanced_accuracy([1, 1, 0, 1], np.zeros(4))
    assert in_tens == four
    assert in_tens.high - in_tens.low > 2 * (alone.high - alone.low)


@pytest.mark.parametrize(
    ("per_class", "classes", "truth"), [(4, 10, 0.6), (4, 10, 0.95), (25, 4, 0.7), (5, 2, 0.9)]
)
def test_nine_of_ten_intervals_hold_the_truth_with_few_images(
    per_class: int, classes: int, truth: float
) -> None:
    generator = np.random.default_rng(0)
    labels = np.repeat(np.arange(classes), per_class)
    held = 0
    for _ in range(400):
        estimate = balanced_accuracy(generator.random(len(labels)) < truth, labels)
        held += estimate.low <= 100 * truth <= estimate.high
    assert held / 400 > 0.9


def test_a_gain_is_rarely_claimed_where_there_is_none() -> None:
    generator = np.random.default_rng(1)
    labels = np.repeat(np.arange(10), 4)
    claims = 0
    for _ in range(400):
        first, other = (generator.random((2, 40)) < 0.6).astype(float)
        claims += paired_difference(first, other, labels).low > 0
    assert claims / 400 < 0.04


@pytest.mark.parametrize(
    ("images", "classes", "truth"), [(8, 2, 0.9), (10, 10, 0.6), (20, 10, 0.9), (40, 40, 0.6), (40, 40, 0.9)]
)
def test_intervals_of_a_random_sample_hold_the_truth_though_classes_have_single_images(
    images: int, classes: int, truth: float
) -> None:
    generator = np.random.default_rng(0)
    held = claims = 0
    for _ in range(300):
        shares = generator.beta(12 * truth, 12 * (1 - truth), classes)
        labels = generator.choice(classes, images, p=generator.dirichlet(np.full(classes, 2.0)))
        first, other = (generator.random((2, images)) < shares[labels]).astype(float)
        estimate = balanced_accuracy(first, labels)
        held += estimate.low <= 100 * shares[np.unique(labels)].mean() <= estimate.high
        claims += paired_difference(first, other, labels).low > 0
    assert held / 300 > 0.91
    assert claims / 300 < 0.07


def test_where_all_classes_are_alike_nothing_is_borrowed() -> None:
    right, labels = np.tile([1, 1, 0], 4), np.repeat(np.arange(4), 3)
    share, of_each = (8 + 2) / (12 + 4), (2 + 0.5) / (3 + 1)
    assert share == of_each
    half = 1.959964 * np.sqrt(4 * share * (1 - share) / 4) / 4
    found = balanced_accuracy(right, labels)
    assert (found.low, found.high) == pytest.approx((100 * (share - half), 100 * (share + half)))


def test_many_classes_of_two_images_each_are_not_surer_than_they_are() -> None:
    generator = np.random.default_rng(2)
    labels = np.repeat(np.arange(50), 2)
    held = 0
    for _ in range(300):
        shares = generator.beta(8, 2, 50)
        found = balanced_accuracy(generator.random(100) < shares[labels], labels)
        held += found.low <= 100 * shares.mean() <= found.high
    assert held / 300 > 0.92
