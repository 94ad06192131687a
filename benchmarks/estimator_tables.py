"""InterludeClassifier on tables beside classifiers of scikit-learn: the figures of docs/sklearn.md.

    python benchmarks/estimator_tables.py

Prints a table in Markdown: test accuracy, mean and standard deviation over five choices of the labels.
"""

import argparse
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn import datasets
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler
from sklearn.semi_supervised import LabelSpreading, SelfTrainingClassifier

from interlude import InterludeClassifier

FIRST = 10  # the splits before were for choosing defaults
Data = tuple[NDArray[Any], NDArray[Any]]

DATA: dict[str, tuple[Callable[[], Data], int]] = {  # with the number of labels of each class
    "digits": (lambda: datasets.load_digits(return_X_y=True), 4),
    "breast cancer": (lambda: datasets.load_breast_cancer(return_X_y=True), 5),
    "wine": (lambda: datasets.load_wine(return_X_y=True), 3),
    "iris": (lambda: datasets.load_iris(return_X_y=True), 3),
    "two moons": (lambda: datasets.make_moons(600, noise=0.12, random_state=0), 5),
    "`make_classification`": (
        lambda: datasets.make_classification(
            1500, 30, n_informative=12, n_redundant=6, n_classes=4, class_sep=1.4, random_state=1
        ),
        6,
    ),
}


def regression() -> LogisticRegression:
    """What two of the rivals are made of."""
    return LogisticRegression(max_iter=5000)


CLASSIFIERS: dict[str, Callable[[int], Any]] = {
    "self-training of it": lambda seed: SelfTrainingClassifier(regression()),
    "label spreading": lambda seed: LabelSpreading(kernel="knn", n_neighbors=7),
    "`InterludeClassifier`, labels only": lambda seed: InterludeClassifier(
        method="supervised", random_state=seed
    ),
    "`InterludeClassifier`": lambda seed: InterludeClassifier(random_state=seed),
}


def accuracies(data: Data, per_class: int, seed: int) -> list[float]:
    """Of logistic regression on the labels alone, then of all others, in percent."""
    train, test, truth, test_truth = train_test_split(
        *data, test_size=0.3, random_state=seed, stratify=data[1]
    )
    scaler, chance = StandardScaler().fit(train), np.random.RandomState(seed)
    train, test = scaler.transform(train), scaler.transform(test)
    labels = np.full_like(truth, -1)
    for label in np.unique(truth):
        labels[chance.choice(np.flatnonzero(truth == label), per_class, replace=False)] = label
    known = labels != -1
    scores = [regression().fit(train[known], labels[known]).score(test, test_truth)]
    scores += [make(seed).fit(train, labels).score(test, test_truth) for make in CLASSIFIERS.values()]
    return [100 * score for score in scores]


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--splits", type=int, default=5)
    parser.add_argument("--data", choices=DATA, nargs="+", default=list(DATA))
    args = parser.parse_args()
    print("| data | logistic regression |", *(f"{name} |" for name in CLASSIFIERS))
    print("|---|---|" + "---|" * len(CLASSIFIERS))
    for name in args.data:
        load, per_class = DATA[name]
        found = np.array([accuracies(load(), per_class, FIRST + number) for number in range(args.splits)])
        spread = found.std(0, ddof=1) if args.splits > 1 else np.zeros(found.shape[1])
        cells = [f"{mean:.1f} ± {std:.1f} |" for mean, std in zip(found.mean(0), spread, strict=True)]
        print(f"| {name} |", *cells, flush=True)


if __name__ == "__main__":
    main()
