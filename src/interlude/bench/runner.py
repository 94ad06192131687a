"""Runs the cells that have no result yet, some side by side, and writes down each as it finishes."""

import contextlib
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import IO, Any, Protocol

import yaml

from interlude.bench.grid import Cell
from interlude.bench.record import figure_of, place, result_line
from interlude.bench.store import Line, Store
from interlude.bench.suites import Suite
from interlude.bench.worker import BUSY, END
from interlude.config import Config
from interlude.errors import UserError

STOPPED = (130, 143)  # exit codes after a signal
PAUSE = 0.1  # seconds between looks at the running processes


@dataclass(frozen=True)
class Task:
    """A cell to be run, with the configuration of this machine."""

    cell: Cell
    config: Config
    fused: bool

    @property
    def folder(self) -> Path:
        """Its run folder."""
        assert self.config.out is not None
        return Path(self.config.out)

    @property
    def text(self) -> str:
        """What its worker reads."""
        return yaml.safe_dump({"config": asdict(self.config), "fused": self.fused}, sort_keys=False) + END


@dataclass(frozen=True)
class Outcome:
    """How a task ended: its exit code, its last words, and what its process took."""

    task: Task
    code: int
    message: str
    usage: dict[str, Any]


class Watcher(Protocol):
    """What an executor tells while it works, and whether it should stop."""

    def looked(self, running: Sequence[Task]) -> None: ...
    def stopping(self) -> bool: ...


Executor = Callable[[Iterator[Task], Watcher], Iterable[Outcome]]
"""Takes tasks as it has room for them and yields each when it has ended. Where they run is its own affair."""


def to_do(suite: Suite, cells: Sequence[Cell], store: Store) -> list[Cell]:
    """The cells without a result in any suite, each run once."""
    done = _results(suite, store)
    missing = {cell.id: cell for cell in reversed(cells) if cell.id not in done}
    return list(reversed(missing.values()))


def copy_results(suite: Suite, cells: Sequence[Cell], store: Store) -> None:
    """Store what is known of the same run from another place under the place that it has here, too."""
    done = _results(suite, store)
    placed = {(line["id"], line["row"], line["column"]) for line in store.lines(suite.name, suite.scale)}
    for cell in cells:
        if cell.id in done and (cell.id, cell.row, cell.column) not in placed:
            store.append(suite.name, {**done[cell.id], **place(suite, cell)})


def _results(suite: Suite, store: Store) -> dict[str, Line]:
    """The lines of finished runs that tell all that a suite asks, by cell."""
    finished = [line for line in store.everything() if "model_hash" in line]
    return {line["id"]: line for line in finished if not suite.fused or line["fused"] is not None}


def run_cells(
    suite: Suite,
    cells: Sequence[Cell],
    store: Store,
    tasks: Iterator[Task],
    executor: Executor,
    watcher: Watcher,
) -> Iterator[tuple[Outcome, Line | None]]:
    """Work off the tasks; each finished one is stored under all its places and yielded with its line."""
    for outcome in executor(tasks, watcher):
        line = None
        if outcome.code == 0:
            twins = [cell for cell in cells if cell.id == outcome.task.cell.id]
            for twin in twins:
                line = result_line(suite, twin, outcome.task.folder, outcome.usage)
                store.append(suite.name, line)
            _drop_checkpoints(outcome.task.folder)
        yield outcome, line


def make_tasks(
    suite: Suite, cells: Iterable[Cell], *, runs: Path, threads: int, device: str, where: Mapping[str, str]
) -> Iterator[Task]:
    """Tasks for this machine: its folders, threads and device, and where its data and weights are."""
    for cell in cells:
        config = replace(cell.config, out=str(runs / cell.id), threads=threads)
        if device != "auto":
            config = replace(config, device=device)
        yield Task(cell, located(config, where), suite.fused)


def located(config: Config, where: Mapping[str, str]) -> Config:
    """The configuration with local data and files of weights in place of their names."""
    data, model = config.data, config.model
    if model.weights is not None:
        if model.weights not in where:
            raise UserError(f"say where the weights are: --where {model.weights}=FILE")
        model = replace(model, weights=where[model.weights])
    return replace(config, data=replace(data, name=where.get(data.name, data.name)), model=model)


def _drop_checkpoints(folder: Path) -> None:
    """A finished run has its model; what it would resume from is no longer needed."""
    for path in (folder / "checkpoints").glob("*"):
        path.unlink()
    with contextlib.suppress(OSError):
        (folder / "checkpoints").rmdir()
        folder.with_name(folder.name + ".lock").unlink()


class Local:
    """Runs tasks as processes of this machine, `jobs` at a time."""

    def __init__(self, jobs: int) -> None:
        self.jobs = jobs

    def __call__(self, tasks: Iterator[Task], watcher: Watcher) -> Iterator[Outcome]:
        """Work off the tasks; when told to stop, ask the running ones to save and wait for them."""
        running: list[Process] = []
        try:
            while True:
                while len(running) < self.jobs and (task := next(tasks, None)) is not None:
                    running.append(Process(task))
                if not running:
                    return
                for process in list(running):
                    if (outcome := process.outcome()) is not None:
                        running.remove(process)
                        yield outcome
                watcher.looked([process.task for process in running])
                if watcher.stopping():
                    tasks = iter(())
                    for process in running:
                        process.stop()
                time.sleep(PAUSE)
        finally:
            for process in running:
                process.stop()
            for process in running:
                process.popen.wait()


class Process:
    """A worker process and the task it has."""

    def __init__(self, task: Task) -> None:
        self.task = task
        self.resumed = (task.folder / "config.yaml").exists()
        self.began = time.monotonic()
        self.words: IO[str] = tempfile.TemporaryFile("w+")  # noqa: SIM115  (closed with the process)
        self.popen = subprocess.Popen(
            [sys.executable, "-m", "interlude.bench.worker"],
            stdin=subprocess.PIPE,
            stdout=self.words,
            stderr=self.words,
            text=True,
            start_new_session=True,  # Ctrl-C in a terminal reaches us alone, and we pass it on once
        )
        assert self.popen.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self.popen.stdin.write(task.text)
            self.popen.stdin.flush()

    def stop(self) -> None:
        """Ask for a last checkpoint and an end."""
        if self.popen.stdin is not None:
            with contextlib.suppress(OSError):
                self.popen.stdin.close()

    def outcome(self) -> Outcome | None:
        """How it ended, or None while it runs."""
        code, seconds, memory = _ended(self.popen)
        if code is None:
            return None
        self.stop()
        self.words.seek(0)
        message = " ".join(self.words.read().strip().splitlines()[-1:])
        self.words.close()
        whole = not self.resumed
        usage = {
            "process_seconds": round(time.monotonic() - self.began, 2) if whole else None,
            "cpu_seconds": seconds if whole else None,  # known of runs that took one sitting
            "peak_memory_mb": memory,
        }
        return Outcome(self.task, code, message, usage)


def _ended(popen: "subprocess.Popen[str]") -> tuple[int | None, float | None, int | None]:
    """Exit code, CPU seconds and peak memory (MB) of a process; the code is None while it runs."""
    if not hasattr(os, "wait4"):
        return popen.poll(), None, None
    pid, status, usage = os.wait4(popen.pid, os.WNOHANG)
    if pid == 0:
        return None, None, None
    popen.returncode = os.waitstatus_to_exitcode(status)
    unit = 2**20 if sys.platform == "darwin" else 2**10
    return popen.returncode, round(usage.ru_utime + usage.ru_stime, 2), usage.ru_maxrss // unit


def describe(outcome: Outcome, line: Line | None) -> str:
    """One line about an outcome, for a person."""
    title = outcome.task.cell.title
    if line is not None:
        return f"{title}: error {figure_of(line, 'error'):.2f} %, {line['seconds']:.0f} s"
    if outcome.code == BUSY:
        return f"{title}: left to another process that runs it"
    if outcome.code in STOPPED:
        return f"{title}: stopped and saved"
    return f"{title}: failed ({outcome.message or f'exit code {outcome.code}'})"
