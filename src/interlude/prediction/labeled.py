"""How good a saved model is on a folder of labeled images, read as `predict` reads them."""

import os
from pathlib import Path
from typing import Any

import numpy as np
import torch

from interlude import evaluate
from interlude.data.images import UNKNOWN
from interlude.data.listing import list_folder
from interlude.errors import UserError
from interlude.prediction.stream import judged
from interlude.predictor import Predictor
from interlude.progress import Progress, note


def figures_on(
    predictor: Predictor, folder: Path, labels: str | None, *, workers: int, quiet: bool = False
) -> tuple[str, dict[str, Any]]:
    """What was judged and its figures: the test part of a folder, or all labeled images if it has none.

    `labels` is a table of them. Classes that the model does not know and unreadable files are told, and left
    out.
    """
    listing = list_folder(folder, labels, classes=predictor.class_names)
    for problem in listing.problems if not quiet else ():
        if problem.kind == "unknown-class":
            note(problem.detail)
    parted = len(listing.of("test")) > 0
    rows = listing.of("test") if parted else np.arange(len(listing))
    rows = rows[listing.labels[rows] != UNKNOWN]
    if not len(rows):
        raise UserError(
            f"no image in {folder} has a label of the model's classes ({', '.join(predictor.class_names)})"
        )
    files = [os.fspath(listing.path(row)) for row in rows.tolist()]
    said = []
    with Progress("judging", len(files), unit="image", quiet=quiet) as progress:
        for batch in judged(predictor, files, workers=workers):
            said += batch
            progress.show(len(said))
    read = np.array([not row.error for row in said])
    if not read.any():
        raise UserError(f"none of the labeled images in {folder} can be read: {said[0].error}")
    if not quiet and not read.all():
        note(f"{int((~read).sum()):,} files could not be read and are left out")
    probabilities = torch.tensor([row.probabilities for row in said if not row.error])
    figures = evaluate.figures(probabilities, torch.from_numpy(listing.labels[rows[read]]))
    return ("test" if parted else "labeled images"), figures
