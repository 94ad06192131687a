"""The images in a grid: which of them, in which order, a page at a time."""

from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from interlude.app.beliefs import SURPRISING, Beliefs
from interlude.app.labels import MARKS, NONE, Labels
from interlude.app.select import Rows
from interlude.errors import UserError

Sort = Literal["name", "certain", "uncertain"]
MOST = 1000  # images at once


def page(
    labels: Labels, beliefs: Beliefs | None, *, which: str, sort: Sort, offset: int, limit: int
) -> dict[str, Any]:
    """One page of the images of a kind, and how many there are of it."""
    rows = filtered(labels, beliefs, which)
    if beliefs is not None:
        rows = ordered(rows, beliefs, which, sort)
    shown = rows[max(0, offset) :][: min(max(0, limit), MOST)]
    return {"total": len(rows), "images": [describe(int(row), labels, beliefs) for row in shown]}


def describe(row: int, labels: Labels, beliefs: Beliefs | None) -> dict[str, Any]:
    """What the page is told of an image."""
    belief = beliefs.of(row) if beliefs is not None else None
    ood = None
    if beliefs is not None and np.isfinite(beliefs.ood[row]):
        ood = round(float(beliefs.ood[row]), 4)
    told = {"id": row, "name": labels.paths[row], "label": labels.value(row)}
    return told | {"belief": belief, "ood": ood}


def filtered(labels: Labels, beliefs: Beliefs | None, which: str) -> Rows:
    """The images of a kind, by name."""
    marks = labels.marks
    kind, _, number = which.partition(":")
    if kind in ("class", "predicted"):
        if not number.isdecimal() or int(number) not in labels.classes:
            raise UserError("there is no such class; load the page again")
        return np.flatnonzero(
            marks == int(number) if kind == "class" else _predicted(marks, beliefs, int(number))
        )
    if which == "all":
        return np.arange(len(marks))
    if which == "labeled":
        return np.flatnonzero(marks >= 0)
    if which == "unlabeled":
        return np.flatnonzero(marks == NONE)
    if which == "surprising":
        return np.flatnonzero(_surprising(marks, beliefs))
    if which == "skipped":
        return np.flatnonzero(marks == MARKS["skip"])
    if which == "strange":
        return np.flatnonzero(marks == MARKS["strange"])
    raise UserError(f"there is no filter {which[:40]!r}")


def ordered(rows: Rows, beliefs: Beliefs, which: str, sort: Sort) -> Rows:
    """The images by how certain the model is of them; those it has not judged come last."""
    if which == "surprising" and sort == "name":
        key = -beliefs.p[rows] * beliefs.ood[rows]
    elif sort == "name":
        return rows
    else:
        key = beliefs.margin[rows] if sort == "uncertain" else -beliefs.p[rows]
    return rows[np.argsort(np.nan_to_num(key, nan=np.inf), kind="stable")]


def _predicted(marks: NDArray[np.int32], beliefs: Beliefs | None, number: int) -> NDArray[np.bool_]:
    """Images without a mark that the model takes for a class."""
    if beliefs is None:
        return np.zeros(len(marks), np.bool_)
    return np.asarray((marks == NONE) & (beliefs.classes == number))


def _surprising(marks: NDArray[np.int32], beliefs: Beliefs | None) -> NDArray[np.bool_]:
    """Images without a mark that are like few others."""
    if beliefs is None:
        return np.zeros(len(marks), np.bool_)
    return np.asarray((marks == NONE) & (beliefs.ood >= SURPRISING))
