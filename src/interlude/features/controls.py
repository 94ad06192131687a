"""What any method on the vectors of a frozen network has to beat: classifiers that take seconds to fit."""

import warnings
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from interlude.intervals import balanced_accuracy, paired_difference

Rows = NDArray[np.float32]
Labels = NDArray[np.int64]
Classify = Callable[[Rows], Labels]

STRENGTHS = (0.001, 0.01, 0.1, 1.0)  # of the logistic regression, chosen among where labels allow
FIXED_STRENGTH = 0.1
NEIGHBOURS = 30
SPREAD_OVER = 10_000  # unlabeled images; their graph takes the square of their number


def fit_controls(x: Rows, y: Labels, pool: Rows) -> dict[str, Classify]:
    """Classifiers made from labeled vectors, and from those of the pool where they can use them."""
    scale = unit_vectors(pool if len(pool) else x)
    x, pool = scale(x), scale(pool[:SPREAD_OVER])
    fitted = {"nearest class mean": nearest_mean(x, y), "logistic regression": logistic_regression(x, y)}
    if len(pool):
        fitted["label spreading"] = label_spreading(x, y, pool)
    return {name: _after(scale, classify) for name, classify in fitted.items()}


def unit_vectors(sample: Rows) -> Callable[[Rows], Rows]:
    """Centred as `sample` is, and brought to one length: the square root of the width."""
    centre = sample.mean(0)

    def scale(vectors: Rows) -> Rows:
        moved = vectors - centre
        length = np.linalg.norm(moved, axis=1, keepdims=True)
        scaled: Rows = moved * (np.sqrt(moved.shape[1]) / np.maximum(length, 1e-12))
        return scaled

    return scale


def nearest_mean(x: Rows, y: Labels) -> Classify:
    """The class whose labeled vectors have the nearest mean."""
    classes = np.unique(y)
    means = np.stack([x[y == label].mean(0) for label in classes])
    offsets = np.square(means).sum(1) / 2
    return lambda vectors: classes[(vectors @ means.T - offsets).argmax(1)]


def logistic_regression(x: Rows, y: Labels) -> Classify:
    """Logistic regression on labeled vectors."""
    fitted = fit_logistic(x, y)
    return lambda vectors: np.asarray(fitted.predict(vectors), np.int64)


def fit_logistic(x: Rows, y: Labels, scoring: str = "balanced_accuracy") -> Any:
    """scikit-learn's regression, its strength chosen by cross-validation if each class has two labels.

    Chosen by "neg_log_loss", its probabilities mean something too, and are of one scale whatever the labels.
    """
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import GridSearchCV

    folds = min(5, int(np.bincount(y)[np.unique(y)].min()))
    model = LogisticRegression(C=FIXED_STRENGTH, max_iter=500)
    if folds < 2:
        return model.fit(x, y)
    search = GridSearchCV(model, {"C": STRENGTHS}, cv=folds, scoring=scoring)
    return search.fit(x, y).best_estimator_


def label_spreading(x: Rows, y: Labels, pool: Rows) -> Classify:
    """Labels spread over the neighbours in the pool, brought to the shares of the labels, then regression."""
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LogisticRegression
    from sklearn.semi_supervised import LabelSpreading

    neighbours = min(NEIGHBOURS, len(x) + len(pool) - 1)
    rows = np.concatenate([x, pool])
    known = np.concatenate([y, np.full(len(pool), -1)])
    spread = LabelSpreading(kernel="knn", n_neighbors=neighbours, alpha=0.99, max_iter=100)
    with warnings.catch_warnings(action="ignore", category=ConvergenceWarning):
        spread.fit(rows, known)  # what is not done after so many rounds is close enough
    share = np.array([(y == label).mean() for label in spread.classes_])
    mass = np.maximum(spread.label_distributions_.sum(0), 1e-12)
    guessed = spread.classes_[(spread.label_distributions_ * (share / mass)).argmax(1)]
    guessed[: len(y)] = y
    fitted = LogisticRegression(C=FIXED_STRENGTH, max_iter=200).fit(rows, guessed)
    return lambda vectors: np.asarray(fitted.predict(vectors), np.int64)


def judge(
    controls: Mapping[str, Classify], sets: Mapping[str, tuple[Rows, Labels]]
) -> dict[str, dict[str, dict[str, float]]]:
    """The accuracy of each control on each set of vectors, in percent, with an interval."""
    return {
        name: {title: _figures(classify(vectors), labels) for title, (vectors, labels) in sets.items()}
        for name, classify in controls.items()
    }


def compare(
    predicted: Labels, labels: Labels, vectors: Rows, controls: Mapping[str, Classify]
) -> dict[str, Any]:
    """The best control on these images, and by how many points of balanced accuracy `predicted` beats it."""
    right = {name: classify(vectors) == labels for name, classify in controls.items()}
    best = max(right, key=lambda name: balanced_accuracy(right[name], labels).mean)
    difference = paired_difference(predicted == labels, right[best], labels)
    return {"best": best, "difference": difference.to_json(), "images": len(labels)}


def report(method: str, controls: Mapping[str, Any]) -> str:
    """What is in a summary under "controls", in two sentences."""
    lines = []
    for title in next(iter(controls["figures"].values()), {}):
        shown = [f"{name} {of[title]['accuracy']:.2f} %" for name, of in controls["figures"].items()]
        lines.append(f"controls on the same vectors ({title}, accuracy): {', '.join(shown)}")
    if found := controls.get("comparison"):
        gap, low, high = (found["difference"][name] for name in ("mean", "low", "high"))
        words = "above" if gap >= 0 else "below"
        sure = "" if low > 0 or high < 0 else ": not to be told apart"
        lines.append(
            f"{method} is {abs(gap):.2f} points {words} the best of them, {found['best']} (95 % interval "
            f"{low:+.2f} to {high:+.2f} points of balanced accuracy on {found['images']:,} test images){sure}"
        )
    return "\n".join(lines)


def _figures(predicted: Labels, labels: Labels) -> dict[str, float]:
    right = predicted == labels
    return {"accuracy": 100 * float(right.mean()), "balanced_accuracy": balanced_accuracy(right, labels).mean}


def _after(scale: Callable[[Rows], Rows], classify: Classify) -> Classify:
    return lambda vectors: classify(scale(vectors))
