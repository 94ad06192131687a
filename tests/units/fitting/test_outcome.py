"""What a fit writes down."""

import numpy as np
from sklearn.metrics import confusion_matrix

from interlude.fitting.outcome import BINS, confusion, reliability


def some(count: int = 200, classes: int = 4):
    generator = np.random.default_rng(0)
    return generator.dirichlet(np.ones(classes), count), generator.integers(classes, size=count)


def test_the_confusion_matrix_is_scikit_learns() -> None:
    probabilities, true = some()
    predicted = probabilities.argmax(1)
    assert confusion(predicted, true, 4) == confusion_matrix(true, predicted).tolist()


def test_a_class_that_never_occurs_has_its_row() -> None:
    assert np.shape(confusion(np.array([0]), np.array([1]), 5)) == (5, 5)


def test_bins_hold_every_image_once_within_their_edges() -> None:
    probabilities, true = some()
    found = reliability(probabilities, true)["bins"]
    assert sum(part["count"] for part in found) == 200
    for part in found:
        assert part["low"] <= part["confidence"] <= part["high"]


def test_the_gap_is_the_expected_calibration_error() -> None:
    probabilities, true = some()
    confidence, right = probabilities.max(1), probabilities.argmax(1) == true
    edges = np.minimum((confidence * BINS).astype(int), BINS - 1)
    gaps = [abs((confidence - right)[edges == number].sum()) for number in range(BINS)]
    assert np.isclose(reliability(probabilities, true)["error"], 100 * sum(gaps) / 200)
