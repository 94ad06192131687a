"""What more labels would buy."""

import numpy as np
import pytest

from interlude.app.forecast import Point, fall, forecast


def points(*pairs, half=1.0):
    return [Point(labels, accuracy, accuracy - half, accuracy + half) for labels, accuracy in pairs]


@pytest.mark.parametrize("known", [[], [(10, 50.0)], [(10, 50.0), (20, 60.0), (20, 62.0), (10, 55.0)]])
def test_with_fewer_than_three_numbers_of_labels_nothing_is_said(known):
    assert forecast(points(*known)) is None


def test_a_curve_that_falls_as_it_should_is_found_again():
    numbers = [10, 20, 40, 80]
    exact = points(*((n, 100 - (5 + 90 / np.sqrt(n))) for n in numbers), half=0.1)
    found = forecast(exact)
    assert found["gain"] == pytest.approx(90 / np.sqrt(80) - 90 / np.sqrt(100), abs=0.06)
    assert found["low"] <= found["gain"] <= found["high"]


def test_the_slope_is_that_of_weighted_least_squares(random):
    numbers, errors = np.array([10.0, 20, 40, 80]), np.array([40.0, 33, 26, 20])
    scatter = np.array([1.0, 2, 1, 3])
    x = np.stack([np.ones(4), 1 / np.sqrt(numbers)], 1)
    _, b = np.linalg.lstsq(x / scatter[:, None], errors / scatter, rcond=None)[0]
    assert fall(numbers, errors, scatter) == pytest.approx(b)


def test_an_error_never_falls_below_zero():
    numbers, errors = np.array([10.0, 20, 40]), np.array([30.0, 10, 1])
    b = fall(numbers, errors, np.ones(3))
    assert b / np.sqrt(40) == pytest.approx(b * 40**-0.5)
    x = 1 / np.sqrt(numbers)
    assert b == pytest.approx((x * errors).sum() / (x * x).sum())


def test_labels_that_did_not_help_promise_nothing():
    found = forecast(points((10, 80.0), (20, 79.0), (40, 78.0)))
    assert found["gain"] == 0
    assert found["sentence"] == "20 more labels would buy less than a point"


def test_less_certain_accuracies_make_a_wider_interval():
    known = [(10, 50.0), (20, 60.0), (40, 70.0)]
    narrow, wide = forecast(points(*known, half=1)), forecast(points(*known, half=10))
    assert wide["high"] - wide["low"] > 2 * (narrow["high"] - narrow["low"])


def test_the_sentence_names_the_points():
    found = forecast(points((10, 50.0), (20, 60.0), (40, 70.0)))
    assert found["sentence"] == f"20 more labels would buy about +{found['gain']:.0f} points"
