"""What does the laptop lane buy? Test accuracy on vectors of a frozen network, beside simple controls.

    python benchmarks/laptop.py DATA WEIGHTS   # run what is missing; the table
    python benchmarks/laptop.py --table        # the table of what is finished, as Markdown

DATA holds `cifar10.npz` and `fashion_mnist.npz` (arrays `x_train`, `y_train`, `x_test`, `y_test`), WEIGHTS
the files named in NETWORKS. The network sees each image of a task once in each of 12 views (the image
itself, 4 weak and 7 strong ones); the vectors are kept in `runs/laptop-features`. Then runs train on them,
two side by side, each a process of one thread, with the settings of `recipes/laptop.yaml`, which were chosen
on training images of both data sets. Only the last weights are judged, once, on the test images. One line a
run goes to `results/laptop.jsonl`; a second start does what is missing.
"""

import argparse
import contextlib
import json
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "results" / "laptop.jsonl"
VECTORS = ROOT / "runs" / "laptop-features"
FOLDS = range(5)  # label draws
NETWORKS = {
    "timm:tf_efficientnet_lite0": "tf_efficientnet_lite0_timm.safetensors",
    "timm:mobilenetv2_100": "mobilenet_v2_torchvision.safetensors",
}
LITE, MOBILE = NETWORKS
VIEWS = {"weak": 4, "strong": 7}
INPUT_SIZE = 96


class Task(NamedTuple):
    """A data set with a number of labels, a pool and a network."""

    data: str
    labels: int
    pool: int | None = 10_000
    network: str = LITE


TASKS = {
    "CIFAR-10, 40 labels": Task("cifar10", 40),
    "CIFAR-10, 250 labels": Task("cifar10", 250),
    "Fashion-MNIST, 40 labels": Task("fashion_mnist", 40),
    "CIFAR-10, 10 labels": Task("cifar10", 10),
    "CIFAR-10, 40 labels, MobileNetV2": Task("cifar10", 40, network=MOBILE),
    "CIFAR-10, 40 labels, all 50,000 images": Task("cifar10", 40, pool=None),
}
FULL = 3  # so many of the tasks, the first ones, are for all methods
OURS, WIDER = "interlude-plus, the recipe", "interlude-plus, the recipe with 256 directions"
EXTRACTION, CONTROLS = "extraction", "controls"
CELLS: dict[str, dict[str, Any] | None] = {  # None: the recipe's own method
    "supervised": {"name": "supervised"},
    "supervised, strong views too": {"name": "supervised", "strong": True},
    "fixmatch": {"name": "fixmatch", "threshold": 0.8},
    "freematch": {"name": "freematch", "decay": 0.99},
    "softmatch": {"name": "softmatch", "decay": 0.99},
    "interlude": {"name": "interlude", "threshold": 0.8},
    "interlude-plus": {"name": "interlude-plus", "decay": 0.99},
    OURS: None,
    WIDER: None,
}
WIDTH = {WIDER: 256}
TRAINED_CONTROLS = ("supervised", "supervised, strong views too")
FIRST_DRAW = FOLDS[0]
T_QUANTILE = {1: 12.706, 2: 4.303, 3: 3.182, 4: 2.776}  # two-sided 95 %, by degrees of freedom

Line = dict[str, Any]


def main() -> None:
    """Run what is missing and print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("data", nargs="?", type=Path, help="where the two npz files are")
    parser.add_argument("weights", nargs="?", type=Path, help="where the files of weights are")
    parser.add_argument("--table", action="store_true", help="only print the table")
    parser.add_argument("--only", default="", help="only tasks whose name contains this")
    parser.add_argument("--one", nargs=3, metavar=("TASK", "CELL", "FOLD"), help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.weights is None and not args.table:
        parser.error("give the folders of the data and of the weights, or --table")
    if args.one:
        print(json.dumps(one_run(args.data, args.weights, *args.one[:2], int(args.one[2]))))
        return
    if not args.table:
        run_missing(args.data, args.weights, [name for name in TASKS if args.only in name])
    print(table(read()))


def run_missing(data: Path, weights: Path, tasks: Iterable[str]) -> None:
    """Task by task: the vectors on all cores, then training and controls, two processes at a time."""
    done = {(line["task"], line["cell"], line["fold"]) for line in read()}
    for task in tasks:
        full = list(TASKS).index(task) < FULL
        cells = [*CELLS, CONTROLS] if full else [OURS, CONTROLS]
        wanted = [(task, cell, fold) for fold in FOLDS for cell in cells]
        if (task, EXTRACTION, FIRST_DRAW) not in done:
            run_one(data, weights, (task, EXTRACTION, FIRST_DRAW), threads=os.cpu_count() or 1)
        with ThreadPoolExecutor(2) as pool:
            jobs = [pool.submit(run_one, data, weights, job, threads=1) for job in wanted if job not in done]
            for job in jobs:
                job.result()


def run_one(data: Path, weights: Path, job: tuple[str, str, int], *, threads: int) -> None:
    """One process, so that its CPU time is its own; its line is kept, its failure shown."""
    command = [sys.executable, __file__, str(data), str(weights), "--one", *map(str, job)]
    own = os.environ | {"OMP_NUM_THREADS": str(threads)}
    finished = subprocess.run(command, capture_output=True, text=True, check=False, env=own)
    if finished.returncode:
        print(f"{job}: {(finished.stderr.strip() or 'killed').splitlines()[-1]}", file=sys.stderr)
        return
    line = finished.stdout.strip().splitlines()[-1]
    with RESULTS.open("a") as file:
        file.write(line + "\n")
    print(f"finished {job}: {json.loads(line)['accuracy']}", file=sys.stderr)


def one_run(data: Path, weights: Path, task: str, cell: str, fold: int) -> Line:
    """Extract, train or fit the controls once; the result line."""
    from interlude import __version__

    run = make_run(data, weights, TASKS[task], cell, fold)
    began, cpu = time.time(), time.process_time()
    run.prepare()
    extracted = {
        "vectors": run.vectors.extractor.num_extracted,
        "cpu_seconds": round(time.process_time() - cpu, 2),
        "seconds": round(time.time() - began, 2),
    }
    cpu = time.process_time()
    accuracy = accuracies(run, cell)
    return {
        "suite": "laptop",
        "task": task,
        "cell": cell,
        "fold": fold,
        "accuracy": {name: round(value, 3) for name, value in accuracy.items()},
        "cpu_seconds": round(time.process_time() - cpu, 2),
        "extraction": extracted,
        "steps": run.step,
        "config_hash": run.cfg.fingerprint(),
        "split_hash": run.split.record.split_hash,
        "version": __version__,
        "commit": commit(),
        "machine": f"{platform.machine()}, {os.cpu_count()} cores",
    }


def make_run(data: Path, weights: Path, task: Task, cell: str, fold: int) -> Any:
    """A run of the recipe, ready to extract; the fold chooses the labeled images and seeds the run."""
    from interlude import find_method
    from interlude.config import Layer, read_file, resolve
    from interlude.data import load
    from interlude.run import Run, settle

    recipe = dict(read_file("laptop").values)
    method = CELLS.get(cell) or recipe["method"]
    own = recipe | {
        "method": method,
        "model": recipe["model"]
        | {
            "name": task.network,
            "pretrained": False,
            "weights": str((weights / NETWORKS[task.network]).resolve()),
            "input_size": INPUT_SIZE,
            "principal": WIDTH.get(cell, recipe["model"]["principal"]),
        },
        "features": VIEWS | {"cache": str(VECTORS)},
        "data": {"name": f"npz:{task.data}.npz", "pool": task.pool},
        "labels": task.labels,
        "fold": fold,
        "seed": fold,
        "threads": int(os.environ["OMP_NUM_THREADS"]),
    }
    with contextlib.chdir(data):  # so that no path of the data enters the hash of the configuration
        cfg = settle(resolve([Layer("benchmark", own)]))
        return Run(cfg, load(cfg.data, labels=cfg.labels, fold=cfg.fold), find_method(cfg.method.name))


def accuracies(run: Any, cell: str) -> dict[str, float]:
    """Test accuracy in percent by name: of the trained head, or of each control; none of an extraction."""
    from interlude.loop import fit

    if cell == EXTRACTION:
        return {}
    if cell == CONTROLS:
        figures = run.controls(run.vectors)["figures"]
        return {name: of["test"]["accuracy"] for name, of in figures.items()}
    fit(run)
    run.meter.drain()  # fails if a loss was no number
    return {cell: 100 - run.figures(run.split.tests["test"])["error"]}


def commit() -> str:
    """The commit that is checked out, and whether files differ from it."""
    shown = subprocess.run(
        ["git", "describe", "--always", "--dirty"], capture_output=True, text=True, check=False, cwd=ROOT
    )
    return shown.stdout.strip()


def read() -> list[Line]:
    """The lines of finished runs."""
    return [json.loads(line) for line in RESULTS.read_text().splitlines()] if RESULTS.exists() else []


def table(lines: list[Line]) -> str:
    """A section a task: each row with its accuracy, its lead over the best control and its minutes."""
    return "\n\n".join(section(task, [x for x in lines if x["task"] == task]) for task in TASKS)


def section(task: str, lines: list[Line]) -> str:
    """The rows of one task, controls first; all of them on the same label draws."""
    rows: dict[str, dict[int, float]] = {}
    for line in lines:
        for name, accuracy in line["accuracy"].items():
            rows.setdefault(name, {})[line["fold"]] = accuracy
    simple = {name for line in lines if line["cell"] == CONTROLS for name in line["accuracy"]}
    controls = [name for name in rows if name in simple or name in TRAINED_CONTROLS]
    best = max(controls, key=lambda name: statistics.mean(rows[name].values()), default=None)
    text = [f"**{task}**{extraction(lines)}", ""]
    text += [
        "| | accuracy % | each draw | above the best control | CPU minutes of training |",
        "|---|---|---|---|---|",
    ]
    for name in [*controls, *(cell for cell in CELLS if cell in rows and cell not in controls)]:
        each = " ".join(f"{rows[name][fold]:.1f}" for fold in sorted(rows[name]))
        lead = "(the best control)" if name == best else difference(rows[name], rows.get(best or "", {}))
        cpu = [line["cpu_seconds"] / 60 for line in lines if line["cell"] == name]
        minutes = f"{statistics.mean(cpu):.2f}" if cpu else "-"
        text.append(f"| {name} | {spread(list(rows[name].values()))} | {each} | {lead} | {minutes} |")
    return "\n".join(text)


def extraction(lines: list[Line]) -> str:
    """What the vectors of a task took, if they were extracted for it."""
    for line in lines:
        if line["cell"] == EXTRACTION and line["extraction"]["vectors"]:
            of = line["extraction"]
            return (
                f" ({of['vectors']:,} vectors in {of['cpu_seconds'] / 60:.1f} CPU minutes, "
                f"{of['seconds'] / 60:.1f} minutes on {line['machine']})"
            )
    return ""


def difference(ours: dict[int, float], theirs: dict[int, float]) -> str:
    """Points above the other on the label draws that both have."""
    return spread([ours[fold] - theirs[fold] for fold in ours if fold in theirs], sign="+")


def spread(values: list[float], sign: str = "") -> str:
    """The mean with the half-width of its 95 % interval (Student's t over label draws)."""
    if not values:
        return "-"
    mean = format(statistics.mean(values), f"{sign}.1f")
    if len(values) < 2:
        return mean
    half = T_QUANTILE[len(values) - 1] * statistics.stdev(values) / len(values) ** 0.5
    return f"{mean} ± {half:.1f}"


if __name__ == "__main__":
    main()
