"""The controls classify, use what they may, and are compared honestly."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import NearestCentroid

from interlude.features import controls


def clusters(count, *, spread=0.6, seed=0, width=12, num_classes=4):
    """Vectors around one centre for each class."""
    centres = np.random.default_rng(7).normal(size=(num_classes, width))
    generator = np.random.default_rng(seed)
    labels = np.arange(count) % num_classes
    return (centres[labels] + spread * generator.normal(size=(count, width))).astype(np.float32), labels


def test_every_control_learns_easy_classes():
    (x, y), (pool, _), (test, truth) = clusters(12), clusters(200, seed=1), clusters(80, seed=2)
    fitted = controls.fit_controls(x, y, pool)
    assert list(fitted) == ["nearest class mean", "logistic regression", "label spreading"]
    for name, classify in fitted.items():
        assert (classify(test) == truth).mean() > 0.9, name


def test_the_nearest_mean_is_scikit_learns():
    (x, y), (test, _) = clusters(12, spread=2), clusters(60, spread=2, seed=1)
    expected = NearestCentroid().fit(x, y).predict(test)
    assert np.array_equal(controls.nearest_mean(x, y)(test), expected)


def test_unlabeled_vectors_help_where_classes_are_lumps():
    generator = np.random.default_rng(0)
    angle = generator.uniform(0, np.pi, 400)
    side = np.arange(400) % 2
    moons = np.stack([np.cos(angle) + side, np.sin(angle) * (1 - 2 * side) + side / 2], 1)
    moons = np.concatenate([moons + generator.normal(0, 0.05, moons.shape), moons**3, moons**2], 1)
    moons, few = moons.astype(np.float32), np.arange(6)
    alone = controls.logistic_regression(moons[few], side[few])
    spread = controls.label_spreading(moons[few], side[few], moons)
    assert (spread(moons) == side).mean() >= (alone(moons) == side).mean()


def test_a_lone_label_in_a_class_is_enough():
    x, y = clusters(4)
    fitted = controls.fit_controls(x, y, clusters(50, seed=1)[0])
    assert all(len(classify(x)) == 4 for classify in fitted.values())


def test_without_a_pool_there_is_nothing_to_spread_over():
    x, y = clusters(12)
    assert "label spreading" not in controls.fit_controls(x, y, x[:0])


def test_a_strength_is_chosen_inside_the_labels_only():
    x, y = clusters(40, spread=3)
    assert controls.fit_logistic(x, y).C in controls.STRENGTHS
    assert controls.fit_logistic(x[:4], y[:4]).C == controls.FIXED_STRENGTH


def test_a_fitted_regression_has_the_weights_of_a_linear_head():
    x, y = clusters(40)
    fitted = controls.fit_logistic(x, y)
    again = LogisticRegression(C=fitted.C, max_iter=500).fit(x, y)
    np.testing.assert_allclose(fitted.coef_, again.coef_, rtol=1e-4, atol=1e-6)


def right_for(share):
    """A control that is right for this share of the rows, whose first number is their label."""
    return lambda vectors: np.where(np.arange(len(vectors)) < share * len(vectors), vectors[:, 0], -1)


@pytest.fixture
def labeled_rows():
    labels = np.tile(np.arange(2), 100)
    return labels[:, None].astype(np.float32), labels


def test_the_comparison_is_with_the_best_control(labeled_rows):
    vectors, labels = labeled_rows
    found = controls.compare(labels, labels, vectors, {"bad": right_for(0.3), "good": right_for(0.8)})
    assert found["best"] == "good"
    assert found["difference"]["mean"] == pytest.approx(20)
    assert found["difference"]["low"] > 0


def test_the_interval_of_a_difference_is_that_of_a_bootstrap(labeled_rows):
    vectors, labels = labeled_rows
    generator = np.random.default_rng(0)
    predicted = np.where(generator.random(200) < 0.75, labels, -1)
    found = controls.compare(predicted, labels, vectors, {"one": right_for(0.6)})["difference"]
    gap = (predicted == labels).astype(float) - (right_for(0.6)(vectors) == labels)
    samples = [100 * gap[generator.integers(200, size=200)].mean() for _ in range(4000)]
    low, high = np.percentile(samples, [2.5, 97.5])
    assert found["low"] == pytest.approx(low, abs=1.5)
    assert found["high"] == pytest.approx(high, abs=1.5)


@pytest.mark.parametrize(
    ("difference", "words"),
    [
        ((3.0, 1.0, 5.0), "3.00 points above the best of them, a (95 % interval +1.00 to +5.00 points"),
        ((-2.0, -4.0, -1.0), "2.00 points below the best of them"),
        ((1.0, -1.0, 3.0), "not to be told apart"),
    ],
)
def test_the_report_says_which_is_ahead_and_how_surely(difference, words):
    figures = {"a": {"test": {"accuracy": 61.234, "balanced_accuracy": 60.0}}}
    gap = dict(zip(("mean", "low", "high"), difference, strict=True))
    comparison = {"best": "a", "difference": gap, "images": 1000}
    text = controls.report("mine", {"figures": figures, "comparison": comparison})
    assert "a 61.23 %" in text
    assert f"{words}" in text
    assert ("not to be told apart" in text) == (difference[1] <= 0 <= difference[2])


@pytest.mark.parametrize("seed", range(3))
def test_a_regression_chosen_by_its_probabilities_dares_to_say_what_it_knows(seed):
    generator = np.random.default_rng(seed)
    y = np.repeat([0, 1], 10)
    x = generator.normal(size=(20, 5)) + 3 * np.eye(2, 5)[y]
    sure = {
        scoring: controls.fit_logistic(x, y, scoring).predict_proba(x).max(1).mean()
        for scoring in ("balanced_accuracy", "neg_log_loss")
    }
    assert sure["neg_log_loss"] > 0.85 > sure["balanced_accuracy"], "any strength is as accurate as another"
