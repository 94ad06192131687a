"""Labels that were drawn at random among others that were not: only those can tell how good a model is."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

LEAST_SAMPLE = (
    8  # labels drawn at random below which an interval says nothing (tests/units/test_intervals.py)
)


def too_few(number: int, classes: int) -> str:
    """Why so many labels drawn at random, of so many classes, cannot be judged; empty if they can."""
    if number < LEAST_SAMPLE:
        were = "was" if number < 2 else "were"
        return (
            f"{number or 'none'} of the labels that can be held out {were} drawn at random, and "
            f"{LEAST_SAMPLE} are the least: label {LEAST_SAMPLE - number} more of the random images"
        )
    if classes < 2:
        return "all labels that were drawn at random are of one class: label more of the random images"
    return ""


def basis(labels: NDArray[np.int64], class_names: Sequence[str]) -> str:
    """What a number rests on, where only labels drawn at random were judged: those with these labels."""
    without = [name for number, name in enumerate(class_names) if number not in labels]
    said = f"judged on the {len(labels)} labels that were drawn at random"
    if not without:
        return said
    return f"{said}, over the classes that they are of; none of them is of {', '.join(map(repr, without))}"
