"""What a fit writes down."""

import numpy as np
import torch
from sklearn.metrics import confusion_matrix

from interlude.calibration import fit_temperature
from interlude.fitting.outcome import BINS, calibrated_apart, confusion, reliability


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


def overconfident(count: int = 60):
    """Two tries at each image by a model that is right half of the time and says it is sure."""
    generator = np.random.default_rng(0)
    true = np.tile(generator.integers(3, size=count), 2)
    said = np.where(generator.random(2 * count) < 0.5, true, (true + 1) % 3)
    logs = np.log(np.where(np.eye(3)[said] > 0, 0.998, 0.001))
    return np.tile(np.arange(count), 2), logs, true


def test_calibrated_confidence_is_nearer_to_the_truth() -> None:
    rows, logs, true = overconfident()
    before, after = (reliability(p, true) for p in (np.exp(logs), calibrated_apart(rows, logs, true)))
    assert after["error"] < before["error"] / 2


def test_an_image_has_no_say_in_its_own_calibration() -> None:
    rows, logs, true = overconfident()
    before = calibrated_apart(rows, logs, true)
    changed = np.where(rows == 7, (true + 1) % 3, true)
    after = calibrated_apart(rows, logs, changed)
    np.testing.assert_array_equal(after[rows == 7], before[rows == 7])
    assert not np.array_equal(after[rows == 8], before[rows == 8])


def test_calibration_apart_is_that_of_all_images_but_a_tenth() -> None:
    rows, logs, true = overconfident()
    others = (rows % 10 != 3)[:60]  # the first try at each
    temperature = fit_temperature(torch.from_numpy(logs[:60][others]), torch.from_numpy(true[:60][others]))
    powers = np.exp(logs[3]) ** (1 / temperature)
    np.testing.assert_allclose(calibrated_apart(rows, logs, true)[3], powers / powers.sum())


def test_a_single_image_stays_as_it_was_judged() -> None:
    logs = np.log([[0.7, 0.3]])
    np.testing.assert_allclose(calibrated_apart(np.array([4]), logs, np.array([0])), np.exp(logs))
