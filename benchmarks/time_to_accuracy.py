"""What do minutes buy? Test error against CPU time of one core, with the `quick` recipe.

    python benchmarks/time_to_accuracy.py FOLDER         # run what is missing, two side by side; the table
    python benchmarks/time_to_accuracy.py --table        # the table of what is finished
    python benchmarks/time_to_accuracy.py --plot         # docs/quick.png (needs matplotlib)
    python benchmarks/time_to_accuracy.py FOLDER --pace  # CPU time of a step on this machine, for PACE below

FOLDER holds `fashion_mnist.npz` and `cifar10.npz` (arrays `x_train`, `y_train`, `x_test`, `y_test`); digits
come with the package. One minute and four minutes are runs of their own, since the learning rate and the
start on labels alone are laid out over the whole run. A run has the steps that its budget buys at the pace
in PACE, so a second start, on any machine, trains with the same numbers; the CPU time it really took is in
its line. Only training is counted. The test error of the averaged weights on the way is for the curve:
nothing is chosen by it. One line a run goes to `results/time-to-accuracy.jsonl`.
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
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "results" / "time-to-accuracy.jsonl"
PLOT = ROOT / "docs" / "quick.png"
SEEDS = (0, 1)
# budgets in seconds of CPU time, and when the test error is read: the longer runs make the curves
MOMENTS = {60: (15, 30, 60), 240: (2, 4, 8, 15, 30, 45, 60, 90, 120, 180, 240)}
PILOT = (4, 24)  # steps to warm up, steps to time
SETS: dict[str, dict[str, Any]] = {
    "digits@40": {"data": "digits", "labels": 40, "augment": "digits"},
    "fashion-mnist@40": {"data": "npz:fashion_mnist.npz", "labels": 40, "augment": "natural"},
    "cifar10@250": {"data": "npz:cifar10.npz", "labels": 250, "augment": "natural"},
}
FAIR = "supervised+strong"  # labels only, with the strong augmentation that the others see
CELLS: dict[str, dict[str, Any]] = {
    "interlude-plus": {"name": "interlude-plus", "decay": 0.99},
    "freematch": {"name": "freematch", "decay": 0.99},
    "fixmatch": {"name": "fixmatch", "threshold": 0.8},
    FAIR: {"name": "supervised", "strong": True},
    "supervised": {"name": "supervised"},
}
SPIKE = 1.3  # what is so many times above all that curves begin with is left out of the plot
COLORS = {  # as drawn, quiet ones for the controls
    "supervised": "#a9a9a9",
    FAIR: "#5f5f5f",
    "fixmatch": "#4c9f70",
    "freematch": "#3b6fb6",
    "interlude-plus": "#d1495b",
}


class Pace(NamedTuple):
    """Milliseconds of CPU time for a step on labels alone and for a step of the method."""

    labels: float
    method: float


class Plan(NamedTuple):
    """How many steps a run has, and how many of them, the first ones, see labels alone."""

    steps: int
    labels_first: int

    def step_at(self, seconds: float, pace: Pace) -> int:
        """The step that is done after so much CPU time, at this pace."""
        first = 1000 * seconds / pace.labels
        if first <= self.labels_first:
            return max(1, round(first))
        later = (1000 * seconds - self.labels_first * pace.labels) / pace.method
        return min(self.steps, self.labels_first + round(later))


# one core of an EPYC (Zen 4) virtual machine, numba installed, by --pace, rounded
PACE = {
    ("digits@40", "interlude-plus"): Pace(24, 90),
    ("digits@40", "freematch"): Pace(13, 80),
    ("digits@40", "fixmatch"): Pace(13, 78),
    ("digits@40", FAIR): Pace(24, 24),
    ("digits@40", "supervised"): Pace(13, 13),
    ("fashion-mnist@40", "interlude-plus"): Pace(20, 76),
    ("fashion-mnist@40", "freematch"): Pace(11, 65),
    ("fashion-mnist@40", "fixmatch"): Pace(11, 63),
    ("fashion-mnist@40", FAIR): Pace(20, 20),
    ("fashion-mnist@40", "supervised"): Pace(11, 11),
    ("cifar10@250", "interlude-plus"): Pace(24, 87),
    ("cifar10@250", "freematch"): Pace(14, 77),
    ("cifar10@250", "fixmatch"): Pace(13, 76),
    ("cifar10@250", FAIR): Pace(24, 24),
    ("cifar10@250", "supervised"): Pace(13, 13),
}


def main() -> None:
    """Run what is missing, two at a time, and print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", nargs="?", type=Path, help="where the two npz files are")
    parser.add_argument("--table", action="store_true", help="only print the table")
    parser.add_argument("--plot", action="store_true", help="only draw the plot")
    parser.add_argument("--pace", action="store_true", help="only measure the CPU time of steps")
    parser.add_argument("--one", nargs=4, metavar=("DATA", "CELL", "BUDGET", "SEED"), help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.folder is None and not (args.table or args.plot):
        parser.error("give the folder of the data, or --table or --plot")
    if args.one:
        print(json.dumps(one_run(args.folder, *args.one[:2], *map(int, args.one[2:]))))
    elif args.pace:
        for data, cell in ((data, cell) for data in SETS for cell in CELLS):
            print(f'    ("{data}", "{cell}"): {pace_here(args.folder, data, cell)},', flush=True)
    elif args.plot:
        draw(read())
    else:
        if not args.table:
            run_missing(args.folder)
        print(table(read()))


def run_missing(folder: Path) -> None:
    """One process a run, so that its CPU time is its own."""
    done = {(line["data"], line["cell"], line["budget"], line["seed"]) for line in read()}
    wanted = [(d, c, b, s) for b in MOMENTS for s in SEEDS for d in SETS for c in CELLS]

    def run(cell: tuple[str, str, int, int]) -> None:
        command = [sys.executable, __file__, str(folder), "--one", *map(str, cell)]
        alone = os.environ | {"OMP_NUM_THREADS": "1"}
        finished = subprocess.run(command, capture_output=True, text=True, check=False, env=alone)
        if finished.returncode:
            print(f"{cell}: {finished.stderr.strip().splitlines()[-1]}", file=sys.stderr)
            return
        with RESULTS.open("a") as file:
            file.write(finished.stdout.strip().splitlines()[-1] + "\n")
        print(f"finished {cell}", file=sys.stderr)

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(run, (cell for cell in wanted if cell not in done)))


def one_run(folder: Path, data: str, cell: str, budget: int, seed: int) -> dict[str, Any]:
    """Train once within the budget; the result line."""
    from interlude import __version__

    pace = PACE[data, cell]
    plan = plan_for(budget, pace)
    run = make_run(folder, data, cell, seed, plan)
    moments = {plan.step_at(seconds, pace) for seconds in MOMENTS[budget][:-1]} | {plan.steps}
    curve = train(run, moments)
    return {
        "suite": "time-to-accuracy",
        "data": data,
        "cell": cell,
        "budget": budget,
        "seed": seed,
        "fold": run.cfg.fold,
        **plan._asdict(),
        "config_hash": run.cfg.fingerprint(),
        "split_hash": run.split.record.split_hash,
        "version": __version__,
        "commit": commit(),
        "test": {"test": {"error_last": curve[-1][-1]}},
        "seconds": curve[-1][0],
        "curve": curve,  # CPU seconds, step, test error in percent
        "machine": f"{platform.machine()}, one core",
    }


def plan_for(budget: float, pace: Pace) -> Plan:
    """The steps that a budget buys, with the recipe's share of them on labels alone."""
    from interlude.config import read_file

    recipe = read_file("quick").values
    share = recipe["labels_first"] / recipe["steps"]
    steps = int(1000 * budget / (share * pace.labels + (1 - share) * pace.method))
    return Plan(steps, round(share * steps))


def make_run(folder: Path, data: str, cell: str, seed: int, plan: Plan) -> Any:
    """A run of the recipe, ready for its first step; the seed chooses the labeled images too."""
    from interlude import find_method
    from interlude.config import Layer, read_file, resolve
    from interlude.data import load
    from interlude.run import Run, settle

    own = {**SETS[data], "method": CELLS[cell], "seed": seed, "fold": seed, "threads": 1, **plan._asdict()}
    with contextlib.chdir(folder):  # so that no path enters the hash of the configuration
        cfg = settle(resolve([read_file("quick"), Layer("benchmark", own)]))
        return Run(cfg, load(cfg.data, labels=cfg.labels, fold=cfg.fold), find_method(cfg.method.name))


def train(run: Any, moments: set[int]) -> list[tuple[float, int, float]]:
    """Train to the end; CPU seconds of training so far, step and test error at these moments."""
    from interlude.loop import fit

    curve: list[tuple[float, int, float]] = []
    spent, since = 0.0, time.process_time()

    def after_step() -> None:
        nonlocal spent, since
        if run.step in moments:
            run.meter.drain()  # fails if a loss was no number
            spent += time.process_time() - since
            error = run.figures(run.split.tests["test"])["error"]
            curve.append((round(spent, 2), run.step, round(error, 3)))
            since = time.process_time()

    fit(run, after_step)
    return curve


def pace_here(folder: Path, data: str, cell: str) -> Pace:
    """CPU time of both kinds of steps, from a few of each."""
    from interlude.testing import stop_after

    def milliseconds(plan: Plan) -> float:
        run = make_run(folder, data, cell, 0, plan)
        stop_after(run, PILOT[0])
        began = time.process_time()
        stop_after(run, sum(PILOT))
        return round(1000 * (time.process_time() - began) / PILOT[1], 1)

    many = 10**6
    return Pace(milliseconds(Plan(many, many - 1)), milliseconds(Plan(many, 0)))


def commit() -> str:
    """The commit that is checked out."""
    shown = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False, cwd=ROOT
    )
    return shown.stdout.strip()


def read() -> list[dict[str, Any]]:
    """The lines of finished runs."""
    return [json.loads(line) for line in RESULTS.read_text().splitlines()] if RESULTS.exists() else []


def runs_of(lines: list[dict[str, Any]], data: str, cell: str, budget: int) -> list[dict[str, Any]]:
    """The finished runs of one entry of the table."""
    return [line for line in lines if (line["data"], line["cell"], line["budget"]) == (data, cell, budget)]


def table(lines: list[dict[str, Any]]) -> str:
    """Mean error over seeds, with each seed's, after one minute and after four."""

    def entry(data: str, cell: str, budget: int) -> str:
        errors = [run["test"]["test"]["error_last"] for run in runs_of(lines, data, cell, budget)]
        each = ", ".join(f"{error:.1f}" for error in errors)
        return f"{statistics.mean(errors):.1f} ({each})" if errors else "-"

    head = "| data | method | " + " | ".join(f"{budget // 60} min" for budget in MOMENTS) + " |\n|---|---"
    rows = [
        f"| {data} | {cell} | " + " | ".join(entry(data, cell, budget) for budget in MOMENTS) + " |"
        for data in SETS
        for cell in CELLS
    ]
    return "\n".join([head + "|---" * len(MOMENTS) + "|", *rows])


def draw(lines: list[dict[str, Any]]) -> None:
    """A panel for each data set: error against CPU time, mean and range of the seeds, labels at the lines."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    style = {"font.size": 9, "axes.spines.top": False, "axes.spines.right": False, "axes.edgecolor": "0.6"}
    with pyplot.rc_context(style | {"xtick.color": "0.35", "ytick.color": "0.35"}):
        figure, panels = pyplot.subplots(1, len(SETS), figsize=(12, 4.2), layout="constrained")
        for panel, data in zip(panels, SETS, strict=True):
            draw_panel(panel, lines, data)
        panels[0].set_ylabel("test error, %")
        figure.supxlabel("CPU seconds of training, one core", fontsize=9)
        figure.savefig(PLOT, dpi=130)


def draw_panel(panel: Any, lines: list[dict[str, Any]], data: str) -> None:
    """The curves of the longest runs, and as dots the ends of all runs."""
    ends, starts = {}, []
    for cell, color in COLORS.items():
        for budget in MOMENTS:
            runs = runs_of(lines, data, cell, budget)
            if not runs:
                continue
            points = list(zip(*(run["curve"] for run in runs), strict=True))
            seconds = [statistics.mean(point[0] for point in at) for at in points]
            errors = [[point[2] for point in at] for at in points]
            mean = [statistics.mean(each) for each in errors]
            panel.plot(seconds[-1], mean[-1], "o", color=color, markersize=5)
            if budget == max(MOMENTS):
                panel.plot(seconds, mean, color=color, linewidth=1.6)
                lowest, highest = [min(each) for each in errors], [max(each) for each in errors]
                panel.fill_between(seconds, lowest, highest, color=color, alpha=0.13, linewidth=0)
                ends[cell] = (seconds[-1], mean[-1])
                starts.append(highest[0])
    panel.set_title(data, loc="left", fontsize=10)
    panel.set_xscale("log")
    panel.set_xticks([2, 8, 30, 60, 120, 240], labels=["2", "8", "30", "60", "120", "240"])
    panel.set_xticks([], minor=True)
    low, high = panel.get_ylim()
    panel.set_ylim(max(0.0, low), min(high, SPIKE * max(starts, default=100.0)))
    label_ends(panel, ends)


def label_ends(panel: Any, ends: dict[str, tuple[float, float]]) -> None:
    """Names beside the ends of the curves, moved apart where they would touch."""
    low, high = panel.get_ylim()
    gap = 0.05 * (high - low)
    previous = -float("inf")
    for cell, (seconds, error) in sorted(ends.items(), key=lambda item: item[1][1]):
        previous = max(error, previous + gap)
        panel.annotate(
            cell, (seconds, previous), xytext=(8, 0), textcoords="offset points", va="center",
            color=COLORS[cell], annotation_clip=False,
        )  # fmt: skip


if __name__ == "__main__":
    main()
