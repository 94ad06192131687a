"""scikit-learn's own checks of an estimator, but for one that no semi-supervised classifier can meet."""

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from interlude import InterludeClassifier

EXPECTED_FAILURES = {
    "check_classifiers_classes": "its last case has the classes -1 and 1, and -1 marks unlabeled samples; "
    "scikit-learn leaves that case out for its own semi-supervised classifiers, by their names",
}


@pytest.fixture(autouse=True)
def array_api(monkeypatch):
    """Without this one check is not made."""
    monkeypatch.setenv("SCIPY_ARRAY_API", "1")


@parametrize_with_checks(
    [InterludeClassifier(steps=30)],
    expected_failed_checks=lambda estimator: EXPECTED_FAILURES,
    xfail_strict=True,
)
def test_scikit_learns_checks_pass(estimator, check):
    check(estimator)
