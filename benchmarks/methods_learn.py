"""Does every method learn? Each one on digits with 40 labels, 15 seconds of one core a run, three seeds.

    python benchmarks/methods_learn.py            # two runs side by side; a second start skips finished runs
    python benchmarks/methods_learn.py --table    # the table of what is finished

A run's steps are what its budget of CPU time buys, at most 600, measured by a few steps beforehand.
Batches, network and augmentation are those of `recipes/digits.yaml`, options of methods their defaults, but
running statistics have the factor 0.99: at 0.999, made for a million steps, they would still be near their
start when the run ends. One line a run goes to `results/methods-learn.jsonl`.
"""

import argparse
import json
import platform
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parents[1] / "results" / "methods-learn.jsonl"
SEEDS = (0, 1, 2)
BUDGET = 14.0  # seconds of CPU time for the steps of a run
MOST_STEPS = 600
PILOT = (3, 8)  # steps to warm up, steps to time
SHORT_RUN = {"decay": 0.99}  # for methods with running statistics, by name and not to be guessed:
STATISTICS = {"adamatch", "flatmatch", "flatmatch-e", "freematch"}
STATISTICS |= {"instant", "interlude-plus", "softmatch"}
FAIR = "supervised+strong"  # labels only, with the strong augmentation that the others see
# methods of costly steps, again with twice the budget
LONG = ("featmatch+long", "fix-a-step+long", "mixmatch+long", "mpl+long", "remixmatch+long")


def main() -> None:
    """Run what is missing, two at a time, and print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--table", action="store_true", help="only print the table")
    parser.add_argument(
        "--one", nargs=2, metavar=("METHOD", "SEED"), help="do one run here and print its line"
    )
    parser.add_argument("methods", nargs="*", help="only these; default all")
    args = parser.parse_args()
    if args.one:
        print(json.dumps(one_run(args.one[0], int(args.one[1]))))
        return
    if not args.table:
        run_missing(args.methods or cells())
    print(table(read()))


def cells() -> list[str]:
    """Every method, the fair control, and some methods again with more time."""
    from interlude import method_names

    return [*method_names(), FAIR, *LONG]


def run_missing(names: list[str]) -> None:
    """One process a run, so that memory and CPU time are its own."""
    done = {(line["cell"], line["seed"]) for line in read()}
    missing = [(name, seed) for seed in SEEDS for name in names if (name, seed) not in done]

    def run(cell: tuple[str, int]) -> None:
        command = [sys.executable, __file__, "--one", cell[0], str(cell[1])]
        finished = subprocess.run(command, capture_output=True, text=True, check=False)
        if finished.returncode:
            print(f"{cell}: {finished.stderr.strip().splitlines()[-1]}", file=sys.stderr)
            return
        with RESULTS.open("a") as file:
            file.write(finished.stdout.strip().splitlines()[-1] + "\n")
        print(f"finished {cell}", file=sys.stderr)

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(run, missing))


def one_run(cell: str, seed: int) -> dict[str, Any]:
    """Train one method within its budget; the result line."""
    from interlude import __version__, train

    name, _, variant = cell.partition("+")
    method: dict[str, Any] = {"name": name}
    if variant == "strong":
        method["strong"] = True
    if name in STATISTICS:
        method |= SHORT_RUN
    pace = seconds_per_step(method)
    budget = 2 * BUDGET if variant == "long" else BUDGET
    steps = max(1, min(MOST_STEPS, int(budget / pace)))
    with tempfile.TemporaryDirectory() as folder:
        began = time.process_time()
        result = train(
            config="digits", method=method, seed=seed, fold=seed, steps=steps, out=f"{folder}/run", quiet=True
        )
        seconds = time.process_time() - began
    summary = result.summary
    return {
        "suite": "methods-learn",
        "cell": cell,
        **{key: summary[key] for key in ("method", "data", "labels", "fold", "seed", "steps")},
        **{key: summary[key] for key in ("config_hash", "split_hash")},
        "version": __version__,
        "commit": commit(),
        "test": {"test": {"error_last": round(summary["test"]["error"], 3)}},
        "validation": {"error_last": round(summary["validation"]["error"], 3)},
        "seconds": round(seconds, 1),
        "seconds_per_step": round(pace, 5),
        "peak_memory_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
        "machine": f"{platform.machine()}, one core",
    }


def seconds_per_step(method: dict[str, Any]) -> float:
    """CPU time of a step, from a few steps of a run that is thrown away."""
    from interlude import data, find_method
    from interlude.config import Layer, read_file, resolve
    from interlude.run import Run, settle
    from interlude.testing import stop_after

    cfg = settle(resolve([read_file("digits"), Layer("benchmark", {"method": method, "steps": MOST_STEPS})]))
    kind = find_method(cfg.method.name)
    split = data.load(cfg.data, labels=cfg.labels, fold=cfg.fold, all_labels=kind.needs_all_labels)
    run = Run(cfg, split, kind)
    stop_after(run, PILOT[0])
    began = time.process_time()
    stop_after(run, sum(PILOT))
    return (time.process_time() - began) / PILOT[1]


def commit() -> str:
    """The commit that is checked out."""
    shown = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False
    )
    return shown.stdout.strip()


def read() -> list[dict[str, Any]]:
    """The lines of finished runs."""
    return [json.loads(line) for line in RESULTS.read_text().splitlines()] if RESULTS.exists() else []


def table(lines: list[dict[str, Any]]) -> str:
    """Error, cost of a step against `supervised`, memory; methods by error."""
    if not lines:
        return "(no run is finished yet)"
    by_cell: dict[str, list[dict[str, Any]]] = {}
    for line in lines:
        by_cell.setdefault(line["cell"], []).append(line)
    base = statistics.median(line["seconds_per_step"] for line in by_cell.get("supervised", lines))
    rows = []
    for cell, runs in by_cell.items():
        errors = [run["test"]["test"]["error_last"] for run in runs]
        spread = statistics.stdev(errors) if len(errors) > 1 else float("nan")
        pace = statistics.median(run["seconds_per_step"] for run in runs) / base
        steps = round(statistics.median(run["steps"] for run in runs))
        memory = max(run["peak_memory_mb"] for run in runs)
        error = statistics.mean(errors)
        columns = [cell, f"{error:.2f} ± {spread:.2f}", len(errors), steps, f"{pace:.1f}", memory]
        rows.append((error, "| " + " | ".join(map(str, columns)) + " |"))
    head = "| method | test error % | seeds | steps | step time / supervised | peak MB |\n" + "|---" * 6 + "|"
    return "\n".join([head, *(row for _, row in sorted(rows))])


if __name__ == "__main__":
    main()
