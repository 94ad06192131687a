"""Forty labels among 1,257 digits, by scikit-learn's conventions: as images, and as a table of numbers.

Beside it stand two classifiers of scikit-learn that see the same labels. Takes a minute or two of one core.
"""

import numpy as np
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.semi_supervised import LabelSpreading

from interlude import InterludeClassifier

LABELS = 4  # of each class


def main() -> None:
    """Fit the four and print how often they are right."""
    table, truth = load_digits(return_X_y=True)
    train, test, train_truth, test_truth = train_test_split(
        table, truth, test_size=0.3, random_state=0, stratify=truth
    )
    labels = hide_labels(train_truth)
    known = labels != -1

    regression = LogisticRegression(max_iter=1000).fit(train[known], labels[known])
    print(f"logistic regression, labels alone   {regression.score(test, test_truth):.3f}")
    spreading = LabelSpreading(kernel="knn").fit(train, labels)
    print(f"label spreading                     {spreading.score(test, test_truth):.3f}")
    rows = InterludeClassifier(random_state=0).fit(train, labels)
    print(f"InterludeClassifier on a table      {rows.score(test, test_truth):.3f}")
    images = InterludeClassifier(augment="digits", random_state=0).fit(to_images(train), labels)
    print(f"InterludeClassifier on images       {images.score(to_images(test), test_truth):.3f}")


def hide_labels(truth: np.ndarray) -> np.ndarray:
    """-1 for all but a few samples of each class."""
    labels = np.full_like(truth, -1)
    for label in np.unique(truth):
        labels[np.flatnonzero(truth == label)[:LABELS]] = label
    return labels


def to_images(table: np.ndarray) -> np.ndarray:
    """Rows of 64 numbers up to 16 as uint8 images of 16x16 pixels."""
    small = (table.reshape(-1, 8, 8) * 255 / 16).astype(np.uint8)
    return small.repeat(2, axis=1).repeat(2, axis=2)


if __name__ == "__main__":
    main()
