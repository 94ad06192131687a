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
LEAVES = {
    "errors",
    "files",
    "options",
    "compat",
    "rng",
    "arrival",
    "loops",
    "registers",
    "adjacent",
    "quickest",
}
BASE = LEAVES | {"augment", "data", "models"}

# room or module -> the rooms and modules of ours that it may import
MAY_IMPORT = {
    "errors": set(),
    "files": set(),
    "options": {"errors"},
    "compat": set(),
    "rng": set(),
    "arrival": {"errors"},
    "loops": set(),
    "registers": set(),
    "adjacent": set(),
    "quickest": set(),
    "augment": LEAVES | {"augment"},
    "data": LEAVES | {"data", "lock", "machine", "progress"},
    "models": LEAVES | {"distributed", "models"},
    "distributed": {"errors"},
    "processes": {"distributed", "errors"},
    "schedule": set(),
    "checkpoint": {"errors"},
    "lock": {"errors"},
    "signals": set(),
    "machine": set(),
    "memory": set(),
    "prefetch": set(),
    "progress": set(),
    "parts": {"parts", "distributed", "errors", "models"},
    "method": {"errors", "options", "data", "distributed", "models", "methods"},
    "methods": {"method", "methods", "parts", "models", "distributed", "options", "errors"},
    "optimizer": {"distributed", "errors", "options", "schedule", "method", "models"},
    "evaluate": {"augment", "data", "models"},
    "calibration": {"calibration", "errors"},
    "predictor": BASE | {"calibration", "evaluate"},
    "prediction": BASE
    | {"distributed", "evaluate", "machine", "prediction", "predictor", "progress", "signals"},
    "onnx_export": BASE | {"__init__", "predictor"},
    "batches": BASE | {"distributed", "evaluate", "method"},
    "intervals": set(),
    "tables": {"augment", "batches", "data"},
    "features": BASE | {"batches", "checkpoint", "features", "intervals", "lock", "progress", "signals"},
    "journal": {"distributed", "errors", "method"},
    "config": BASE | {"features", "method", "methods", "optimizer"},
    "run": BASE
    | {"batches", "config", "distributed", "evaluate", "features", "journal", "machine", "method"}
    | {"optimizer", "parts", "tables"},
    "loop": {"distributed", "rng", "method", "prefetch", "run"},
    "session": BASE
    | {"__init__", "checkpoint", "distributed", "journal", "loop", "machine", "predictor", "processes"}
    | {"progress", "run", "signals"},
    "training": {"config", "data", "distributed", "errors", "files", "lock", "memory", "method", "processes"}
    | {"progress", "run", "session", "signals"},
    "verbs": BASE
    | {"batches", "config", "evaluate", "features", "method", "prediction", "predictor", "processes", "run"}
    | {"training"},
    "bench": BASE
    | {
        "bench",
        "lock",
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
    "app": BASE | {"app", "config", "fitting", "lock", "machine", "progress", "signals"},
    "doctor": LEAVES | {"data", "doctor", "machine", "progress"},
    "report": LEAVES | {"data", "report"},
    "fitting": BASE
    | {"__init__", "calibration", "config", "doctor", "features", "fitting", "intervals", "lock", "loop"}
    | {"memory"}
    | {"method", "methods", "predictor", "progress", "report", "run", "session", "signals", "training"},
    "samples": BASE | {"predictor", "tables"},
    "estimator": BASE
    | {"config", "fitting", "journal", "loop", "method", "predictor", "progress", "run", "samples", "tables"},
    "cli": {
        "__init__",
        "app",
        "bench",
        "doctor",
        "errors",
        "fitting",
        "onnx_export",
        "prediction",
        "processes",
        "report",
        "signals",
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


def calls(path: Path) -> Iterator[tuple[str, ast.Call]]:
    """The calls in a file, with the name of what is called as it is written."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Call):
            yield ast.unparse(node.func), node


def says(call: ast.Call, name: str, value: bool) -> bool:
    """Whether a call has the keyword argument `name=value`."""
    return any(item.arg == name and ast.unparse(item.value) == str(value) for item in call.keywords)


def test_no_pickle_is_read_but_where_a_user_says_so():
    trusted = "data/sources/tmed2.py"  # behind --data.trust-pickle
    readers = {"pickle.load", "pickle.loads", "pickle.Unpickler", "joblib.load", "pandas.read_pickle"}
    readers |= {"dill.load", "dill.loads", "marshal.load", "marshal.loads", "shelve.open"}
    found = [
        f"{path.relative_to(ROOT)}:{call.lineno} {name}"
        for path in FILES
        for name, call in calls(path)
        if name in readers
        or (name == "torch.load" and not says(call, "weights_only", True))
        or (name == "np.load" and not says(call, "allow_pickle", False))
    ]
    assert [line for line in found if not line.startswith(trusted)] == []
    assert len(found) == 1, "the trusted place is where it was"


def test_no_text_from_outside_is_run():
    runners = {"eval", "exec", "compile", "__import__", "os.system", "yaml.load", "yaml.unsafe_load"}
    runners |= {"yaml.full_load", "torch.hub.load", "subprocess.getoutput"}
    found = [
        f"{path.relative_to(ROOT)}:{call.lineno} {name}"
        for path in FILES
        for name, call in calls(path)
        if name in runners or says(call, "shell", True)
    ]
    assert not found, f"this may run what a file says: {found}"


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
