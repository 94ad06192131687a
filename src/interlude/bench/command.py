"""The verb `bench`: run a suite, write its table, draw its plots, check one of its results."""

import shlex
import shutil
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice, takewhile
from pathlib import Path
from typing import Annotated

from cyclopts import App, Parameter

from interlude.bench import check as checking
from interlude.bench import walltime
from interlude.bench.estimate import report
from interlude.bench.grid import Cell, Choice, expand
from interlude.bench.record import result_line
from interlude.bench.runner import (
    STOPPED,
    Executor,
    Local,
    Task,
    copy_results,
    describe,
    make_tasks,
    run_cells,
    to_do,
)
from interlude.bench.store import Line, Store
from interlude.bench.suites import Suite, load_suite, suite_names
from interlude.bench.summary import summarize
from interlude.bench.tables import write_tables
from interlude.bench.view import View
from interlude.errors import RunError, UserError
from interlude.options import Options, option
from interlude.progress import note
from interlude.signals import Stopped

RESULTS, RUNS = Path("results"), Path("runs/bench")
Names = Annotated[tuple[str, ...], Parameter(consume_multiple=True, negative="")]


@dataclass(frozen=True)
class Selection(Options):
    """Which cells to run."""

    scale: str = option("mini", "mini, for CPUs, or paper, the full setting for GPUs")
    only: Names = option((), "these rows or methods only; * is allowed")
    data: Names = option((), "these columns or data sets only; * is allowed")
    seeds: Annotated[tuple[int, ...], Parameter(consume_multiple=True, negative="")] = option(
        (), "these repetitions only"
    )
    limit: int | None = option(None, "run at most this many cells", at_least=1)
    hours: float | None = option(None, "start no cell after so many hours", at_least=0)


@dataclass(frozen=True)
class Place(Options):
    """Where and with what to run."""

    threads: int = option(1, "CPU threads of each cell", at_least=1)
    device: str = option("auto", "auto, cpu, cuda, cuda:N or mps")
    where: Names = option(
        (), "where things are here, as NAME=PLACE: a data set (cifar10=npz:FILE), a file of weights"
    )
    results: Path = option(RESULTS, "folder of results")
    runs: Path = option(RUNS, "folder of runs")

    def tasks(self, suite: Suite, cells: Iterable[Cell], below: str = "") -> Iterator[Task]:
        """Tasks for this machine."""
        where = dict(_pair(text) for text in self.where)
        return make_tasks(
            suite, cells, runs=self.runs / below, threads=self.threads, device=self.device, where=where
        )


@dataclass(frozen=True)
class Cluster(Options):
    """Where cells run if not here."""

    ray: str | None = option(
        None, "run on a Ray cluster: its address, auto for the one of this machine, local for a new one"
    )
    gpus: float | None = option(
        None,
        "GPUs of a cell on a cluster, a part of one allowed; by default 1 where there are any",
        at_least=0,
    )

    def executor(self, jobs: int | None, place: Place) -> Executor:
        """What runs the cells."""
        if self.ray is None:
            return Local(jobs or 1)
        from interlude.bench.cluster import OnRay

        gpus = 0.0 if place.device == "cpu" else self.gpus
        return OnRay(self.ray, jobs=jobs, threads=place.threads, gpus=gpus)


Selected = Annotated[Selection, Parameter(name="*")]
Placed = Annotated[Place, Parameter(name="*")]
Clustered = Annotated[Cluster, Parameter(name="*")]

app = App(name="interlude bench", version_flags=[], suppress_keyboard_interrupt=False)


def main(tokens: Sequence[str]) -> None:
    """Run the verb with its tokens; without any, say which suites there are."""
    if not tokens:
        print("\n".join(f"{name}: {load_suite(name, 'paper').title}" for name in suite_names()))
        print("\nRun one with `interlude bench SUITE`; `interlude bench --help` has the options.")
        return
    try:
        app(list(tokens), exit_on_error=False, print_error=False)
    except Stopped as stop:
        again = shlex.join(["interlude", "bench", *tokens])
        raise Stopped(f"{stop}; go on with: {again}", stop.signal) from None


@app.default
def run(
    suite: str,
    *,
    selection: Selected = Selection(),
    place: Placed = Place(),
    cluster: Clustered = Cluster(),
    jobs: int | None = None,
    dry_run: bool = False,
    pilot: bool = True,
) -> None:
    """Run the cells of a suite that have no result yet; each goes to results/SUITE.jsonl as it finishes.

    Parameters
    ----------
    suite
        A suite's name (`interlude bench` lists them) or a YAML file.
    jobs
        How many cells run side by side: one by default, on a cluster as many as it has room for.
    dry_run
        Only say what would be run and how long it would take.
    pilot
        Measure the pace by a few steps for --dry-run; otherwise go by a table.
    """
    if jobs is not None and jobs < 1:
        raise UserError(f"jobs must be >= 1, got {jobs}")
    chosen = load_suite(suite, selection.scale)
    cells = expand(chosen, Choice(selection.only, selection.data, selection.seeds))
    store = Store(place.results)
    if chosen.kind == "walltime":
        measure_walltime(chosen, cells, store, place, dry_run=dry_run)
        return
    missing = to_do(chosen, cells, store)
    if dry_run:
        print(report(chosen, cells, missing[: selection.limit], jobs=jobs or 1, pilot=pilot))
        return
    copy_results(chosen, cells, store)
    if not missing:
        note(f"{chosen.name}: every cell has its result; see `interlude bench table {chosen.name}`")
        return
    run_missing(chosen, cells, missing, store, selection, place, cluster.executor(jobs, place))


def run_missing(
    suite: Suite,
    cells: Sequence[Cell],
    missing: Sequence[Cell],
    store: Store,
    selection: Selection,
    place: Place,
    executor: Executor,
) -> None:
    """Work off the missing cells as long as there is time, and say how it went."""
    failed = 0
    with View(len(missing[: selection.limit]), hours=selection.hours) as view:
        wanted = takewhile(lambda _: view.may_start(), islice(missing, selection.limit))
        for outcome, line in run_cells(suite, cells, store, place.tasks(suite, wanted), executor, view):
            failed += line is None and outcome.code not in STOPPED
            view.finished(describe(outcome, line))
    if view.stop.signal is not None:
        ended = f"{view.done} cells ended in this sitting, results are in {store.path(suite.name)}"
        raise Stopped(f"stopped; {ended}", view.stop.signal)
    note(
        f"{suite.name}: {view.done - failed} cells finished now, {len(missing) - view.done + failed} left; "
        f"see `interlude bench table {suite.name} --scale {suite.scale}`"
    )
    if failed:
        raise RunError(f"{failed} cells failed; their messages are above, their runs can be resumed")


def _pair(text: str) -> tuple[str, str]:
    name, equals, place = text.partition("=")
    if not equals or not place:
        raise UserError(f"--where takes NAME=PLACE, got {text!r}")
    return name, place


def measure_walltime(
    suite: Suite, cells: Sequence[Cell], store: Store, place: Place, *, dry_run: bool
) -> None:
    """Measure the steps of a walltime suite, or say what would be measured."""
    if dry_run:
        print(f"{len(cells)} rows and columns, {suite.rounds} rounds of one step each; no data is needed")
        return
    for line in walltime.measure(suite, cells, threads=place.threads, device=place.device):
        store.append(suite.name, line)
    print(walltime.markdown(suite, store.lines(suite.name, suite.scale)), end="")


@app.command
def table(suite: str, *, scale: str = "mini", results: Path = RESULTS, out: Path | None = None) -> None:
    """Write the table of a suite as Markdown, CSV and LaTeX, and print it.

    Parameters
    ----------
    suite
        A suite's name or YAML file.
    scale
        mini or paper.
    results
        Folder of results.
    out
        Folder to write to; default RESULTS/tables.
    """
    chosen, folder = load_suite(suite, scale), out or results / "tables"
    lines = _lines(chosen, results)
    if chosen.kind == "walltime":
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"{chosen.name}-{scale}.md"
        path.write_text(walltime.markdown(chosen, lines), encoding="utf-8")
        written = [path]
    else:
        written = write_tables(summarize(chosen, lines), folder)
    print(written[0].read_text(encoding="utf-8"))
    note(f"wrote {', '.join(map(str, written))}")


@app.command
def plot(suite: str, *, scale: str = "mini", results: Path = RESULTS, out: Path | None = None) -> None:
    """Draw the plots of a suite as PNG and SVG.

    Parameters
    ----------
    suite
        A suite's name or YAML file.
    scale
        mini or paper.
    results
        Folder of results.
    out
        Folder to write to; default RESULTS/plots.
    """
    from interlude.bench.plots import write_plots

    chosen = load_suite(suite, scale)
    for path in write_plots(chosen, _lines(chosen, results), out or results / "plots"):
        print(path)


@app.command
def check(
    cell: str, *, suite: str | None = None, tolerance: float = checking.TOLERANCE, place: Placed = Place()
) -> None:
    """Run a cell again and say whether its stored result holds.

    Parameters
    ----------
    cell
        The id of a result, or its beginning.
    suite
        The YAML file of its suite, if it is one of your own.
    tolerance
        Points of error that may lie between two machines.
    """
    line = checking.find_line(Store(place.results).everything(), cell)
    chosen = replace(load_suite(suite or line["suite"], line["scale"]), fused=False)
    choice = Choice([line["method"]], [line["column"]], [line["repetition"]])
    found = [one for one in expand(chosen, choice) if one.id == line["id"]]
    if not found:
        raise UserError(f"the suite {chosen.name} no longer has this cell: its settings have changed since")
    shutil.rmtree(place.runs / "check" / found[0].id, ignore_errors=True)
    with View(1, hours=None) as view:
        (outcome,) = Local(1)(place.tasks(chosen, found[:1], "check"), view)
    if view.stop.signal is not None:
        raise Stopped("stopped", view.stop.signal)
    if outcome.code:
        raise RunError(describe(outcome, None))
    again = result_line(chosen, found[0], outcome.task.folder, outcome.usage)
    verdict = checking.compare(line, again, tolerance=tolerance)
    print("\n".join([f"{found[0].title} ({line['id']})", *verdict.reasons]))
    if not verdict.holds:
        raise RunError("it does not reproduce: the stored result does not hold here")
    print("it reproduces")


def _lines(suite: Suite, results: Path) -> list[Line]:
    lines = Store(results).lines(suite.name, suite.scale)
    if not lines:
        name = suite.name
        raise UserError(
            f"no results of {name} at scale {suite.scale} in {results}; run `interlude bench {name}` first"
        )
    return lines
