"""Runs the cells of a suite on a Ray cluster: each a task with its resources, run again where it was lost."""

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from interlude.bench.record import machine
from interlude.bench.runner import Outcome, Process, Task, Watcher
from interlude.bench.worker import BUSY
from interlude.errors import UserError

PAUSE = 0.2  # seconds between looks at a cell's process
LOOK = 1.0  # seconds between looks at the cluster
PATIENCE = 120.0  # seconds that a cell may take to save and to let go of its folder
RETRIES = 5  # of a cell whose worker was lost
QUIET = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0"}

Ended = tuple[int, str, dict[str, Any]]


class Lost(Exception):
    """The process of a cell was killed from outside."""


class OnRay:
    """Runs tasks on a Ray cluster, as many at a time as it has room for, `jobs` at most.

    `address` is that of a running cluster, `auto` that of this machine, `local` a new one that ends with us.
    The folder we are in must be seen by all machines: there a cell goes on whose worker was lost.
    """

    def __init__(self, address: str, *, jobs: int | None, threads: int, gpus: float | None) -> None:
        self.ray = connect(address)
        self.jobs, self.threads = jobs, threads
        self.gpus = gpus if gpus is not None else float("GPU" in self.ray.cluster_resources())
        remote = self.ray.remote
        self.flag = remote(num_cpus=0)(Flag).remote()
        self.cell = remote(
            num_cpus=threads, num_gpus=self.gpus, max_retries=RETRIES, retry_exceptions=[Lost]
        )(run_cell)

    def __call__(self, tasks: Iterator[Task], watcher: Watcher) -> Iterator[Outcome]:
        """Work off the tasks; when told to stop, ask the running ones to save and wait for them."""
        running: dict[Any, Task] = {}
        try:
            while True:
                while len(running) < self.room() and (task := next(tasks, None)) is not None:
                    running[self.cell.remote(task, Path.cwd(), self.flag)] = task
                if not running:
                    return
                ended, _ = self.ray.wait(list(running), timeout=LOOK)
                for reference in ended:
                    yield self.outcome(reference, running.pop(reference))
                watcher.looked(list(running.values()))
                if watcher.stopping():
                    tasks = iter(())
                    self.flag.hoist.remote()
        finally:
            if running:
                self.flag.hoist.remote()
                self.ray.wait(list(running), num_returns=len(running), timeout=PATIENCE)
            self.ray.shutdown()

    def room(self) -> int:
        """How many cells the cluster can run side by side now; machines may come and go."""
        have = self.ray.cluster_resources()
        fits = [have.get("CPU", 0) // self.threads]
        if self.gpus:
            fits.append(have.get("GPU", 0) // self.gpus)
        if self.jobs:
            fits.append(self.jobs)
        return max(1, int(min(fits)))

    def outcome(self, reference: Any, task: Task) -> Outcome:
        """How a task ended, wherever that was."""
        try:
            code, message, usage = self.ray.get(reference)
        except self.ray.exceptions.RayError as error:
            return Outcome(task, 1, str(error).strip().splitlines()[-1], {})
        if code == 0 and not (task.folder / "summary.json").exists():
            return Outcome(task, 1, f"{task.folder} is not shared with the machine that ran it", usage)
        return Outcome(task, code, message, usage)


class Flag:
    """Hoisted when all cells shall save and stop."""

    def __init__(self) -> None:
        self.up = False

    def hoist(self) -> None:
        """Ask all cells to stop."""
        self.up = True

    def is_up(self) -> bool:
        """Whether it was hoisted."""
        return self.up


def connect(address: str) -> Any:
    """Ray, connected to a cluster."""
    for name, value in QUIET.items():
        os.environ.setdefault(name, value)
    try:
        import ray
    except ImportError as error:
        raise UserError("--ray needs Ray: pip install 'interlude-ssl[cluster]'") from error
    own = {"include_dashboard": False} if address == "local" else {}
    try:
        ray.init(address, log_to_driver=False, logging_level="ERROR", **own)
    except Exception as error:  # of many types, Exception itself among them
        reason = " ".join(str(error).split())[:200] or type(error).__name__
        if address == "local":
            raise UserError(f"Ray does not start on this machine: {reason}") from error
        raise UserError(
            f"no Ray cluster answers at {address!r} ({reason}); start one with `ray start --head`, "
            "or take --ray local"
        ) from error
    return ray


def run_cell(task: Task, folder: Path, flag: Any) -> Ended:
    """What a Ray worker does: run a cell's process, from its start or its last checkpoint, to its end."""
    if not folder.is_dir():
        return 1, f"{folder} is not to be seen from {os.uname().nodename}; start in a shared folder", {}
    os.chdir(folder)
    deadline = time.monotonic() + PATIENCE
    while (ended := _run_once(task, flag))[0] == BUSY and time.monotonic() < deadline:
        time.sleep(1)  # its last process, whose worker was lost, still saves
    return ended


def _run_once(task: Task, flag: Any) -> Ended:
    import ray

    process, asked = Process(task), False
    while (outcome := process.outcome()) is None:
        time.sleep(PAUSE)
        if not asked and ray.get(flag.is_up.remote()):
            process.stop()
            asked = True
    if outcome.code < 0 and not asked:
        raise Lost(f"its process was killed by signal {-outcome.code}, {RETRIES + 1} times")
    return outcome.code, outcome.message, outcome.usage | {"machine": machine(task.config.device)}
