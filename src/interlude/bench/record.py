"""What a finished run leaves behind as one line of results."""

import hashlib
import json
import platform
import subprocess
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path, PurePath
from typing import Any

import torch
import yaml

from interlude.bench.grid import Cell
from interlude.bench.store import Line
from interlude.bench.suites import Suite
from interlude.distributed import pick_device

KEPT = ("error", "balanced_error", "calibration_error")
TRACED = ("mask", "delta_x", "delta_u")  # what is kept of the training log, where the method logs it
POINTS = 40  # at most, of a curve


def result_line(suite: Suite, cell: Cell, folder: Path, usage: dict[str, Any]) -> Line:
    """The line of a cell whose run in `folder` is finished; `usage` is what its process took."""
    summary = json.loads((folder / "summary.json").read_text(encoding="utf-8"))
    settings = yaml.safe_load((folder / "config.yaml").read_text(encoding="utf-8"))
    journal = read_journal(folder)
    of = "selected" if settings["select"] == "validation" else "last"  # the weights that are judged
    tests = {name: _figures(figures, of) for name, figures in summary["tests"].items()}
    best = _best_on_test(journal, next(iter(tests), ""))
    fused = folder / "fused.json"
    return {
        **place(suite, cell),
        **{key: summary[key] for key in ("method", "labels", "fold", "seed", "steps", "split_hash")},
        "data": cell.config.data.name,
        "source": _without_folders(settings["data"]["name"]),
        "config_hash": cell.config_hash,
        "settings": cell.settings,
        "version": summary["version"],
        "commit": commit(),
        "selected_step": summary.get("selected_step", summary["steps"]),
        f"error_{of}": next(iter(tests.values()))[f"error_{of}"] if tests else None,
        "error_best_on_test": best,
        "tests": tests,
        "validation": _figures(summary["validation"], of) if summary["validation"] else None,
        "seconds": summary["seconds"],
        "machine": usage.get("machine") or machine(settings["device"]),
        **usage,
        "threads": settings["threads"],
        "model_hash": file_hash(folder / "model.safetensors"),
        "curve": _curve(journal, "error"),
        "traces": _traces(journal),
        "fused": json.loads(fused.read_text(encoding="utf-8")) if fused.exists() else None,
    }


def place(suite: Suite, cell: Cell) -> Line:
    """Where a line stands."""
    return {
        "id": cell.id,
        "suite": suite.name,
        "scale": suite.scale,
        "row": cell.row,
        "column": cell.column,
        "variant": dict(cell.variant),
        "repetition": cell.repetition,
    }


def figure_of(figures: Mapping[str, Any], name: str) -> float:
    """A figure of a line, of its last or of its selected weights, whichever were judged."""
    return float(figures[f"{name}_last"] if f"{name}_last" in figures else figures[f"{name}_selected"])


def read_journal(folder: Path) -> list[dict[str, Any]]:
    """The lines of a run's metrics."""
    path = folder / "metrics.jsonl"
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def _figures(figures: dict[str, Any], of: str) -> dict[str, float]:
    return {f"{name}_{of}": round(figures[name], 4) for name in KEPT}


def _best_on_test(journal: Sequence[dict[str, Any]], test: str) -> float | None:
    """The lowest error on the test set during training, where it was watched; nothing is chosen by it."""
    watched = [line[f"{test}/error"] for line in journal if f"{test}/error" in line]
    return round(min(watched), 4) if watched and test != "validation" else None


def _curve(journal: Sequence[dict[str, Any]], figure: str) -> dict[str, Any] | None:
    """How what was watched went, and what that was."""
    names = [name for line in journal for name in line if name.endswith(f"/{figure}")]
    if not names:
        return None
    points = [(line["step"], round(line[names[0]], 3)) for line in journal if names[0] in line]
    kept = [points[index] for index in _spread(len(points), POINTS)]
    return {"on": names[0].partition("/")[0], "step": [p[0] for p in kept], figure: [p[1] for p in kept]}


def _spread(count: int, most: int) -> list[int]:
    """At most `most` of `count` indices, evenly, the last always among them."""
    if count <= most:
        return list(range(count))
    return sorted({round((count - 1) * point / (most - 1)) for point in range(most)})


def _traces(journal: Sequence[dict[str, Any]]) -> dict[str, list[Any]]:
    """Means of logged values over at most `POINTS` stretches of the run."""
    logged = [line for line in journal if "train/loss" in line]
    stretches = [chunk for chunk in _chunks(logged, POINTS) if chunk]
    traces: dict[str, list[Any]] = {"step": [chunk[-1]["step"] for chunk in stretches]}
    for name in TRACED:
        if logged and name in logged[-1]:
            traces[name] = [_mean([line[name] for line in chunk if name in line]) for chunk in stretches]
    return traces if len(traces) > 1 else {}


def _chunks(lines: Sequence[Any], count: int) -> list[Sequence[Any]]:
    size = -(-len(lines) // count) or 1
    return [lines[start : start + size] for start in range(0, len(lines), size)]


def _mean(values: Sequence[float]) -> float | None:
    return float(f"{sum(values) / len(values):.4g}") if values else None


def _without_folders(name: str) -> str:
    kind, colon, path = name.partition(":")
    return kind + colon + PurePath(path).name


def file_hash(path: Path) -> str:
    """A fingerprint of a file's bytes."""
    return hashlib.blake2b(path.read_bytes(), digest_size=16).hexdigest()


@cache
def machine(device: str) -> str:
    """The processor that a run used, in words."""
    chosen = pick_device(device)
    if chosen.type == "cpu":
        return f"{platform.machine()} {_processor()}".strip()
    module = torch.get_device_module(chosen)
    return str(module.get_device_name(chosen)) if hasattr(module, "get_device_name") else chosen.type


def _processor() -> str:
    path = Path("/proc/cpuinfo")
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor()


@cache
def commit() -> str | None:
    """The commit of the clone that this package runs from, with a mark if files were changed since."""
    package = Path(__file__).parents[1]
    command = ["git", "-C", str(package), "rev-parse", "--show-toplevel"]
    try:
        top = subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
        if Path(top) / "src" / package.name != package:
            return None  # installed below somebody else's repository
        command = ["git", "-C", top, "describe", "--always", "--dirty", "--exclude", "*"]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return None
