"""Who may import whom, and which words belong to which room."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import interlude
from interlude.data import dataset_names
from interlude.method import method_names

ROOT = Path(interlude.__file__).parent
FILES = sorted(path for path in ROOT.rglob("*.py"))
LEAVES = {"errors", "options", "compat", "rng"}
BASE = LEAVES | {"augment", "data", "models"}

# room or module -> the rooms and modules of ours that it may import
MAY_IMPORT = {
    "errors": set(),
    "options": {"errors"},
    "compat": set(),
    "rng": set(),
    "augment": LEAVES | {"augment"},
    "data": LEAVES | {"data", "machine", "progress"},
    "models": LEAVES | {"models"},
    "distributed": {"errors"},
    "schedule": set(),
    "checkpoint": set(),
    "signals": set(),
    "machine": set(),
    "memory": set(),
    "prefetch": set(),
    "progress": set(),
    "parts": {"parts", "distributed", "models"},
    "method": {"errors", "options", "data", "models", "methods"},
    "methods": {"method", "methods", "parts", "models", "distributed", "options", "errors"},
    "optimizer": {"errors", "options", "schedule", "method", "models"},
    "evaluate": {"augment", "data", "models"},
    "calibration": {"calibration", "errors"},
    "predictor": BASE | {"calibration", "evaluate"},
    "prediction": BASE
    | {"distributed", "evaluate", "machine", "prediction", "predictor", "progress", "signals"},
    "onnx_export": BASE | {"__init__", "predictor"},
    "batches": BASE | {"evaluate", "method"},
    "intervals": set(),
    "tables": {"augment", "batches", "data"},
    "features": BASE | {"batches", "checkpoint", "features", "intervals", "progress", "signals"},
    "journal": {"errors", "method"},
    "config": BASE | {"features", "method", "methods", "optimizer"},
    "run": BASE
    | {"batches", "config", "distributed", "evaluate", "features", "journal", "machine", "method"}
    | {"optimizer", "parts", "tables"},
    "loop": {"rng", "method", "prefetch", "run"},
    "session": BASE
    | {"__init__", "checkpoint", "journal", "loop", "machine", "predictor", "progress", "run", "signals"},
    "training": {"config", "data", "errors", "memory", "method", "progress", "run", "session", "signals"},
    "verbs": BASE | {"batches", "config", "evaluate", "features", "method", "predictor", "run", "training"},
    "bench": BASE
    | {
        "bench",
        "config",
        "distributed",
        "evaluate",
        "loop",
        "method",
        "predictor",
        "progress",
        "run",
        "session",
        "signals",
        "training",
    },
    "doctor": {"data", "doctor", "errors", "machine", "progress"},
    "report": {"data", "errors", "report"},
    "fitting": BASE
    | {"__init__", "calibration", "config", "doctor", "features", "fitting", "intervals", "loop", "memory"}
    | {"method", "methods", "predictor", "progress", "report", "run", "session", "signals", "training"},
    "samples": BASE | {"predictor", "tables"},
    "estimator": BASE
    | {"config", "fitting", "journal", "loop", "method", "predictor", "progress", "run", "samples", "tables"},
    "cli": {
        "__init__",
        "bench",
        "doctor",
        "errors",
        "fitting",
        "onnx_export",
        "prediction",
        "report",
        "verbs",
    },
    "testing": BASE | {"checkpoint", "config", "journal", "method", "loop", "optimizer", "run"},
    "__main__": {"cli"},
    "__init__": {"machine", "errors", "estimator", "options", "method", "models", "predictor"}
    | {"session", "training"},
}


def room(path: Path) -> str:
    """The first part of a module's name below the package."""
    return path.relative_to(ROOT).with_suffix("").parts[0]


def imports(path: Path) -> Iterator[str]:
    """The rooms of ours that a file imports."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module == "interlude":
            for alias in node.names:
                yield alias.name if not alias.name.startswith("__") else "__init__"
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("interlude."):
            yield node.module.split(".")[1]
        elif isinstance(node, ast.Import):
            yield from (a.name.split(".")[1] for a in node.names if a.name.startswith("interlude."))


def words(path: Path) -> Iterator[tuple[int, str]]:
    """String constants that are not docstrings, and attribute names, with their lines."""
    tree = ast.parse(path.read_text())
    prose = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in prose:
            yield node.lineno, node.value
        elif isinstance(node, ast.Attribute):
            yield node.lineno, node.attr


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_room_imports_only_what_it_may(path):
    assert room(path) in MAY_IMPORT, f"say in MAY_IMPORT what the new room '{room(path)}' may import"
    forbidden = set(imports(path)) - MAY_IMPORT[room(path)]
    assert not forbidden, f"{path.relative_to(ROOT)} must not import {sorted(forbidden)}"


def test_the_name_of_a_method_appears_only_in_methods():
    names = set(method_names()) - {"interlude", "supervised"}  # also the product's and a loss term's
    found = [(str(p), line, w) for p in FILES if room(p) != "methods" for line, w in words(p) if w in names]
    assert not found, f"only methods/ may know a method by name: {found}"


def test_the_name_of_a_data_set_appears_only_in_data():
    names = set(dataset_names()) - {"digits", "folder"}  # also an augmentation policy's and a plain word
    found = [(str(p), line, w) for p in FILES if room(p) != "data" for line, w in words(p) if w in names]
    assert not found, f"only data/ may know a data set by name: {found}"


def test_cuda_is_named_only_where_devices_are_chosen():
    allowed = {"distributed", "rng", "cli"}
    found = [
        (str(p), line, w)
        for p in FILES
        if room(p) not in allowed
        for line, w in words(p)
        if w == "cuda" or w.startswith("cuda:")
    ]
    assert not found, f"devices are chosen in distributed.py: {found}"


def test_files_and_functions_stay_short():
    long_files = [str(p) for p in FILES if len(p.read_text().splitlines()) > 400]
    assert not long_files, f"is one room holding two? {long_files}"
    long_functions = [
        f"{path.relative_to(ROOT)}:{node.lineno} {node.name} ({node.end_lineno - node.lineno + 1} lines)"
        for path in FILES
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef) and node.end_lineno - node.lineno + 1 > 40
    ]
    assert not long_functions, f"split these: {long_functions}"
