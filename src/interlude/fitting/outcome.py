"""What a fit leaves behind beside the run: the calibration, fit.json, predictions on the pool, the report."""

import csv
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from interlude import __version__
from interlude.calibration import Calibration, Usual, Verdicts, calibrate, fit_temperature
from interlude.data import UNKNOWN, Split
from interlude.fitting.candidates import Candidate
from interlude.fitting.choose import Choice
from interlude.fitting.compare import Comparison, groups_of
from interlude.fitting.trials import Log, predictions
from interlude.intervals import balanced_accuracy
from interlude.models import evaluating
from interlude.predictor import SAMPLE, embedded
from interlude.run import Run

BINS = TENTHS = 10
SHOWN = 12  # images of each kind in the report
HELD_OUT = "cross-validation"


@dataclass(frozen=True)
class Outcome:
    """Everything that fit.json is made of."""

    name: str  # of the folder
    command: str
    created: str
    seconds: dict[str, float]
    choices: Sequence[Choice]
    candidates: Sequence[Candidate]
    comparison: Comparison
    split: Split
    test: dict[str, Any] | None

    def to_json(self, calibration: Calibration, pool: dict[str, Any]) -> str:
        """The text of fit.json; its keys are described in docs/fit.md."""
        found, names = self.comparison, self.split.class_names
        labels = self.split.labeled.labels_of().numpy()
        held = found.held_out
        content = {
            "schema": 1,
            "version": __version__,
            "folder": self.name,
            "created": self.created,
            "seconds": {name: round(value, 1) for name, value in self.seconds.items()},
            "choices": [choice._asdict() for choice in self.choices],
            "classes": list(names),
            "counts": {
                "labeled": dict(zip(names, np.bincount(labels, minlength=len(names)).tolist(), strict=True)),
                "unlabeled": int((self.split.unlabeled.labels_of() == UNKNOWN).sum()),
                "validation": len(self.split.validation or ()),
                "test": sum(map(len, self.split.tests.values())),
            },
            "candidates": [
                {"name": x.name, "kind": x.kind, "about": x.about}
                | {"balanced_accuracy": held.accuracy(x.name).to_json() if held else None}
                for x in self.candidates
            ],
            "cross_validation": self._crossed(),
            "verdict": found.verdict.to_json(),
            "test": self.test,
            **self._judged(labels),
            "calibration": _short(calibration),
            "unlabeled": pool,
            "labels_curve": None,
            "command": self.command,
        }
        return json.dumps(content, indent=2) + "\n"

    def _crossed(self) -> dict[str, Any]:
        """How the labels were held out, or why not."""
        found, held = self.comparison, self.comparison.held_out
        return {
            "folds": found.schedule.folds,
            "repetitions": found.schedule.repetitions,
            "images": len(held.labels) if held else 0,
            "note": "; ".join(filter(None, [found.folds.note, found.schedule.note])),
            "sampled": None if found.folds.sampled is None else int(found.folds.sampled.sum()),
            "basis": found.basis,
            "short": found.schedule.short,
            "why_not": "" if held else found.folds.why_not or found.schedule.why,
        }

    def _judged(self, labels: NDArray[np.int64]) -> dict[str, Any]:
        """Confusion and reliability of what is kept, on images it had not seen."""
        if not self.comparison.trials:
            return {"confusion": None, "reliability": None}
        rows, logs = predictions(self.comparison.trials, self.comparison.verdict.keep)
        true = labels[rows]
        return {
            "confusion": {"from": HELD_OUT, "matrix": confusion(logs.argmax(1), true, logs.shape[1])},
            "reliability": {
                "from": HELD_OUT,
                **reliability(calibrated_apart(rows, logs, true), true),
                "uncalibrated": reliability(np.exp(logs), true),
            },
        }


def confusion(predicted: NDArray[Any], true: NDArray[Any], num_classes: int) -> list[list[int]]:
    """How often each class (rows) was taken for each class (columns)."""
    matrix = np.zeros((num_classes, num_classes), np.int64)
    np.add.at(matrix, (true, predicted), 1)
    rows: list[list[int]] = matrix.tolist()
    return rows


def reliability(probabilities: NDArray[Any], true: NDArray[Any]) -> dict[str, Any]:
    """Confidence beside accuracy in equal bins, empty ones left out, and their mean gap in percent."""
    confidence, right = probabilities.max(1), probabilities.argmax(1) == true
    place = np.minimum((confidence * BINS).astype(int), BINS - 1)
    bins, gap = [], 0.0
    for number in np.unique(place).tolist():
        inside = place == number
        mean, share = float(confidence[inside].mean()), float(right[inside].mean())
        gap += abs(mean - share) * int(inside.sum())
        edges = {"low": number / BINS, "high": (number + 1) / BINS}
        bins.append(edges | {"confidence": mean, "accuracy": share, "count": int(inside.sum())})
    return {"bins": bins, "error": 100 * gap / len(true)}


def calibrated_apart(rows: NDArray[np.int64], logs: Log, true: NDArray[np.int64]) -> Log:
    """Probabilities of held-out images, a tenth at a time at the temperature that the others ask for.

    `rows` say which image a line is about; an image never has a say in how it is judged itself.
    """
    probabilities = np.empty_like(logs)
    for part in range(TENTHS):
        own = rows % TENTHS == part
        first = np.unique(rows[~own], return_index=True)[1]
        others = torch.from_numpy(logs[~own][first]), torch.from_numpy(true[~own][first])
        temperature = fit_temperature(*others) if len(first) else 1.0
        probabilities[own] = torch.softmax(torch.from_numpy(logs[own]) / temperature, -1).numpy()
    return probabilities


def calibrated(run: Run, comparison: Comparison, split: Split, *, coverage: float) -> Calibration:
    """The calibration that the held-out runs give the final model; without any, none."""
    if not comparison.trials:
        return Calibration(coverage=coverage)
    rows, logs = predictions(comparison.trials, comparison.verdict.keep)
    first = np.unique(rows, return_index=True)[1]  # one try an image: tries of one image are not independent
    groups = groups_of(split)
    return calibrate(
        torch.from_numpy(logs[first]),
        split.labeled.labels_of()[torch.from_numpy(rows[first])],
        source=HELD_OUT,
        coverage=coverage,
        groups=None if groups is None else groups[rows[first]].tolist(),
    )


def usual_in_pool(run: Run) -> Usual:
    """What the unlabeled images look like to the final model, from a sample of them."""
    pool = run.split.unlabeled
    sample = pool.subset(torch.linspace(0, len(pool) - 1, min(len(pool), SAMPLE)).long())
    with evaluating(run.ema.model):
        outputs = [embedded(run.ema.model, batch) for batch in run.batches.clean(sample)]
    return Usual.of(
        torch.cat([z.cpu() for z, _ in outputs]), torch.cat([x.cpu() for _, x in outputs]).argmax(-1)
    )


def judge_pool(run: Run, calibration: Calibration, usual: Usual) -> Verdicts:
    """What the final model says of the unlabeled images, un-augmented."""
    logits, shares = [], []
    with evaluating(run.ema.model):
        for batch in run.batches.clean(run.split.unlabeled):
            z, values = embedded(run.ema.model, batch)
            logits.append(values.cpu())
            shares.append(usual.share(z.cpu()))
    return calibration.judge(torch.cat(logits), torch.cat(shares))


def describe_pool(run: Run, calibration: Calibration, usual: Usual, path: Path) -> dict[str, Any]:
    """What the model believes of the unlabeled images: a table in `path`, and the most telling ones."""
    said = judge_pool(run, calibration, usual)
    files, names = run.split.unlabeled.names_of(), run.split.class_names
    unlabeled = run.split.unlabeled.labels_of() < 0
    keep = unlabeled.nonzero().squeeze(1) if unlabeled.any() else torch.arange(len(files))
    rows = [_row(said, int(number), files, names) for number in keep.tolist()]
    with path.open("w", newline="", encoding="utf-8", errors="surrogateescape") as file:  # names as they are
        writer = csv.DictWriter(file, ["file", "class", "probability", "second", "second_probability", "ood"])
        writer.writeheader()
        writer.writerows(rows)
    predicted = {name: sum(row["class"] == name for row in rows) for name in names}
    by_certainty = sorted(rows, key=lambda row: row["probability"])
    surprising = sorted(rows, key=lambda row: -row["probability"] * row["ood"])
    return {
        "predicted": predicted,
        "certain": by_certainty[::-1][:SHOWN],
        "uncertain": by_certainty[:SHOWN],
        "surprising": surprising[:SHOWN],
    }


def _row(said: Verdicts, number: int, files: Sequence[str], names: Sequence[str]) -> dict[str, Any]:
    values, order = said.probabilities[number].topk(2)
    return {
        "file": files[number],
        "class": names[int(order[0])],
        "probability": round(float(values[0]), 4),
        "second": names[int(order[1])],
        "second_probability": round(float(values[1]), 4),
        "ood": round(float(said.ood[number]), 4),
    }


def test_figures(run: Run, opened: str) -> dict[str, Any] | None:
    """The figures on the sealed test images; None where there are none."""
    if not run.split.tests:
        return None
    images = next(iter(run.split.tests.values()))
    labels = images.labels_of().numpy()
    right = run.predict(images).argmax(-1).numpy() == labels
    return {
        "opened": opened,
        "images": len(labels),
        "balanced_accuracy": balanced_accuracy(right, labels).to_json(),
        "accuracy": round(100 * float(right.mean()), 2),
    }


def _short(calibration: Calibration) -> dict[str, Any]:
    names = ("temperature", "coverage", "threshold", "images")
    figures = {name: getattr(calibration, name) for name in names}
    return figures | {"from": calibration.source, "promise": calibration.promise()}
