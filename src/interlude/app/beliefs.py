"""What the last model believes of images that had no label when it was trained."""

import csv
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from interlude.app.labels import NONE
from interlude.app.select import Points

SURPRISING = 0.95  # more unusual than so many of the images of the training


@dataclass(frozen=True, eq=False)
class Beliefs:
    """For each image the class, its probability, the lead over the next class, and how unusual it is."""

    classes: NDArray[np.int32]
    p: Points
    margin: Points
    ood: Points

    @property
    def known(self) -> NDArray[np.bool_]:
        """Which images there is a belief about."""
        return np.asarray(self.classes != NONE)

    def of(self, row: int) -> dict[str, float] | None:
        """The belief about one image as the page knows it."""
        if self.classes[row] == NONE:
            return None
        return {"class_id": int(self.classes[row]), "p": round(float(self.p[row]), 4)}


def read_beliefs(path: Path, row_of: Mapping[str, int], number_of: Mapping[str, int]) -> Beliefs | None:
    """The table that a fit leaves of its unlabeled images; None if there is none.

    `number_of` has the classes by the names that they had when it began.
    """
    count = len(row_of)
    classes = np.full(count, NONE, np.int32)
    p, margin, ood = (np.full(count, np.nan, np.float32) for _ in range(3))
    try:
        with path.open(newline="", encoding="utf-8") as file:
            for line in csv.DictReader(file):
                row, number = row_of.get(line["file"]), number_of.get(line["class"])
                if row is None or number is None:
                    continue
                classes[row], p[row] = number, float(line["probability"])
                second = float(line.get("second_probability") or 1 - p[row])
                margin[row], ood[row] = p[row] - second, float(line["ood"])
    except (OSError, ValueError, KeyError):
        return None
    return Beliefs(classes, p, margin, ood)
