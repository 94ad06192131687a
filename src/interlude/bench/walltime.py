"""The time of a step of each method, relative to one of them: all take turns in one process.

Small batches are made for several steps at once, in a step that the median passes over: where steps take
tens of milliseconds, a percent or two of their time is left out.
"""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from statistics import median, quantiles
from typing import Any

import torch

from interlude.bench.grid import Cell
from interlude.bench.pace import advance, pilot_run
from interlude.bench.record import commit, machine, place
from interlude.bench.store import Line
from interlude.bench.suites import Suite
from interlude.errors import UserError
from interlude.run import Run

WARM_UP = 2  # steps before the clock counts


@dataclass
class Runner:
    """A run on made-up images, and the seconds that its steps took."""

    cell: Cell
    run: Run
    cpu: list[float]
    wall: list[float]

    def step(self) -> None:
        """Take a step on the clock."""
        synchronize(self.run.device)
        wall, cpu = time.perf_counter(), time.process_time()
        advance(self.run, 1)
        synchronize(self.run.device)
        self.wall.append(time.perf_counter() - wall)
        self.cpu.append(time.process_time() - cpu)


def synchronize(device: torch.device) -> None:
    """Wait until a device has done what it was given."""
    if device.type != "cpu":
        torch.get_device_module(device).synchronize()


def measure(suite: Suite, cells: Sequence[Cell], *, threads: int, device: str) -> Iterator[Line]:
    """The lines of a walltime suite, column by column; on a CPU its own time counts, else the clock's."""
    first = [cell for cell in cells if cell.repetition == suite.seeds[0]]
    for column in suite.columns:
        runners = [make_runner(cell, threads, device) for cell in first if cell.column == column]
        if not runners:
            continue
        for _ in range(suite.rounds):
            for runner in runners:
                runner.step()
        reference = [runner for runner in runners if runner.cell.row == suite.reference]
        if not reference:
            raise UserError(f"the reference row {suite.reference!r} must be among those measured")
        yield from (line_of(suite, runner, reference[0]) for runner in runners)


def make_runner(cell: Cell, threads: int, device: str) -> Runner:
    """A run of a cell, warmed up."""
    config = replace(cell.config, threads=threads, device=device if device != "auto" else cell.config.device)
    runner = Runner(cell, pilot_run(config), [], [])
    advance(runner.run, WARM_UP)
    return runner


def line_of(suite: Suite, runner: Runner, reference: Runner) -> Line:
    """What was measured of one row, beside the row that it is compared with in the same rounds."""
    on_cpu = runner.run.device.type == "cpu"
    own, other = (side.cpu if on_cpu else side.wall for side in (runner, reference))
    ratios = [mine / theirs for mine, theirs in zip(own, other, strict=True)]
    return {
        **place(suite, runner.cell),
        "method": runner.cell.config.method.name,
        "config_hash": runner.cell.config_hash,
        "settings": runner.cell.settings,
        "reference": suite.reference,
        "views_per_step": runner.run.views_per_step,
        "rounds": len(own),
        "clock": "cpu" if on_cpu else "wall",
        "seconds_per_step": significant(median(own)),
        "wall_seconds_per_step": significant(median(runner.wall)),
        "ratio": significant(median(ratios)),
        "ratio_quartiles": [significant(value) for value in _quartiles(ratios)],
        "machine": machine(runner.run.cfg.device),
        "threads": runner.run.cfg.threads,
        "commit": commit(),
    }


def significant(value: float) -> float:
    """Four digits of it."""
    return float(f"{value:.4g}")


def _quartiles(values: Sequence[float]) -> tuple[float, float]:
    if len(values) < 2:
        return values[0], values[0]
    low, _, high = quantiles(values, n=4, method="inclusive")
    return low, high


def markdown(suite: Suite, lines: Sequence[Line]) -> str:
    """The newest line of each row and column, slowest last."""
    newest: dict[tuple[str, str], Line] = {(line["row"], line["column"]): line for line in lines}
    parts = [f"# {suite.title_of_scale}"]
    for column in suite.columns:
        of_column = sorted((line for (_, name), line in newest.items() if name == column), key=_ratio)
        if of_column:
            parts += [f"## {column}", _table(of_column), _caption(of_column[0])]
    return "\n\n".join(parts) + "\n"


def _ratio(line: Line) -> Any:
    return line["ratio"]


def _table(lines: Sequence[Line]) -> str:
    head = f"| row | time of a step / {lines[0]['reference']} | quartiles | seconds a step | images a step |"
    rows = [
        f"| {line['row']} | {line['ratio']:.2f} | {_range(line)} | {line['seconds_per_step']:.4g} "
        f"| {line['views_per_step']} |"
        for line in lines
    ]
    return "\n".join([head, "|---|---:|---:|---:|---:|", *rows])


def _range(line: Line) -> str:
    low, high = line["ratio_quartiles"]
    return f"{low:.2f} to {high:.2f}"


def _caption(line: Line) -> str:
    what = ", ".join(f"{name} {value}" for name, value in line["settings"].items() if name != "method.name")
    return (
        f"Median of {line['rounds']} rounds in which every row takes one step; {line['clock']} seconds, "
        f"made-up images; {line['machine']}, {line['threads']} threads. Settings of `{line['row']}`: {what}."
    )
