"""A run folder as `interlude fit` leaves it, with made-up figures: for the tests of its report."""

import json
from pathlib import Path
from typing import Any

from PIL import Image

CLASSES = ["cat", "dog", "hare"]
HOSTILE = ["<script>alert('class')</script>", "two\nlines", 'quote" onload="alert(1)']


def estimate(mean: float, low: float, high: float) -> dict[str, float]:
    return {"mean": mean, "low": low, "high": high}


def rows(kind: str, classes: list[str], number: int = 3) -> list[dict[str, Any]]:
    return [
        {
            "file": f"unlabeled/{kind}_{i}.png",
            "class": classes[i % len(classes)],
            "probability": 0.4 + 0.1 * i,
            "second": classes[(i + 1) % len(classes)],
            "ood": 0.9,
        }
        for i in range(number)
    ]


def fit_file(classes: list[str]) -> dict[str, Any]:
    """All of fit.json."""
    number = len(classes)
    matrix = [[8 if i == j else int(j == (i + 1) % number) for j in range(number)] for i in range(number)]
    bins = [{"low": 0.5, "high": 0.6, "confidence": 0.55, "accuracy": 0.5, "count": 4}]
    before = [{"low": 0.7, "high": 0.8, "confidence": 0.75, "accuracy": 0.5, "count": 4}]
    return {
        "schema": 1,
        "version": "0.1.0",
        "folder": "photos",
        "created": "2026-11-16T03:12:09+00:00",
        "seconds": {"doctor": 1.9, "cross_validation": 402.2, "training": 121.4, "total": 531.0},
        "choices": [{"name": "network", "value": "cnn", "reason": "the images are small"}],
        "classes": classes,
        "counts": {"labeled": dict.fromkeys(classes, 9), "unlabeled": 90, "validation": 0, "test": 0},
        "candidates": [
            {
                "name": "clever",
                "kind": "method",
                "about": "all images",
                "balanced_accuracy": estimate(88, 80, 93),
            },
            {
                "name": "plain",
                "kind": "control",
                "about": "labels only",
                "balanced_accuracy": estimate(79, 70, 87),
            },
        ],
        "cross_validation": {"folds": 5, "repetitions": 2, "images": 27, "note": "", "why_not": ""},
        "verdict": {
            "outcome": "helped",
            "sentence": "the unlabeled images helped: +9.0 points (95% interval 2.4 to 13.6) over plain",
            "kept": "clever",
            "control": "plain",
            "difference": estimate(9.0, 2.4, 13.6),
        },
        "test": None,
        "confusion": {"from": "cross-validation", "matrix": matrix},
        "reliability": {
            "from": "cross-validation",
            "bins": bins,
            "error": 4.2,
            "uncalibrated": {"bins": before, "error": 23.4},
        },
        "calibration": {
            "temperature": 1.31,
            "coverage": 0.9,
            "images": 27,
            "from": "cross-validation",
            "promise": "sets hold the true class of 90% of such images",
        },
        "unlabeled": {
            "predicted": {name: 10 + i for i, name in enumerate(classes)},
            **{kind: rows(kind, classes) for kind in ("certain", "uncertain", "surprising")},
        },
        "labels_curve": None,
        "command": "interlude fit photos --labels labels.csv",
    }


def doctor_file() -> dict[str, Any]:
    finding = {"kind": "copies", "severity": "warn", "says": "2 images are copies.", "do": "Delete one."}
    more = {"count": 2, "files": ["a.png", "b.png"], "details": {}, "sets": [["a.png", "b.png"]]}
    return {"schema": 1, "images": 117, "findings": [finding | more], "excluded": {"c.png": "empty"}}


def make_run(place: Path, classes: list[str] = CLASSES, **changes: Any) -> Path:
    """A finished run with its images beside it; `changes` replace keys of fit.json."""
    run, images = place / "run", place / "photos"
    run.mkdir(parents=True)
    fit = fit_file(classes) | changes
    (run / "fit.json").write_text(json.dumps(fit))
    (run / "doctor.json").write_text(json.dumps(doctor_file()))
    (run / "split.json").write_text(json.dumps({"labeled": [1], "split_hash": "6f1ed002"}))
    (run / "config.yaml").write_text(f"seed: 7\ndata:\n  name: folder:{images}\nmethod:\n  threshold: 0.95\n")
    lines = [
        {"step": step, "train/loss": 9 / step, "train/unlabeled": 0.2, "mask": step / 400, "rate": 0.03}
        for step in range(10, 310, 10)
    ]
    (run / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    (images / "unlabeled").mkdir(parents=True)
    for kind in ("certain", "uncertain", "surprising"):
        for row in (fit["unlabeled"] or {}).get(kind, []):
            Image.new("L", (8, 8), 99).save(images / row["file"])
    return run


def bare_run(folder: Path) -> Path:
    """A run that could estimate nothing, and left nothing but fit.json."""
    folder.mkdir(parents=True)
    why = "no class has a second label to hold out"
    verdict = {"outcome": "no estimate", "sentence": f"no estimate possible: {why}", "kept": "clever"}
    empty = dict.fromkeys(("test", "confusion", "reliability", "calibration", "unlabeled", "labels_curve"))
    fit = {
        **empty,
        "schema": 1,
        "classes": ["cat", "dog"],
        "counts": {"labeled": {"cat": 1, "dog": 1}, "unlabeled": 0},
        "candidates": [{"name": "clever", "kind": "method", "about": "", "balanced_accuracy": None}],
        "cross_validation": {
            "folds": 0,
            "repetitions": 0,
            "images": 0,
            "note": "",
            "why_not": f"no estimate possible: {why}",
        },
        "verdict": {**verdict, "control": None, "difference": None},
    }
    (folder / "fit.json").write_text(json.dumps(fit))
    return folder
