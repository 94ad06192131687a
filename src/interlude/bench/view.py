"""What a person sees while a suite runs: a bar for the suite and one a running cell, or plain lines."""

import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from interlude.bench.runner import Task
from interlude.progress import console, note
from interlude.signals import StopRequest


class View:
    """Shows progress and says when to stop: after Ctrl-C, or when the time is over for new cells."""

    def __init__(self, total: int, *, hours: float | None) -> None:
        self.total, self.done = total, 0
        self.deadline = None if hours is None else time.monotonic() + 3600 * hours
        self.stop = StopRequest()
        self.bars: dict[str, TaskID] = {}
        self.bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            console=console,
            disable=not console.is_terminal,
        )
        self.whole = self.bar.add_task("[bold]cells", total=total)

    def __enter__(self) -> "View":
        self.stop.__enter__()
        self.bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.bar.stop()
        self.stop.__exit__(kind, error, trace)

    def stopping(self) -> bool:
        """Whether a signal asked for an end."""
        return self.stop.signal is not None

    def may_start(self) -> bool:
        """Whether there is time for another cell."""
        return not self.stopping() and (self.deadline is None or time.monotonic() < self.deadline)

    def looked(self, running: Sequence[Task]) -> None:
        """Move the bars of the running cells."""
        if self.bar.disable:
            return
        for name in self.bars.keys() - {task.cell.id for task in running}:
            self.bar.remove_task(self.bars.pop(name))
        for task in running:
            if task.cell.id not in self.bars:
                self.bars[task.cell.id] = self.bar.add_task(task.cell.title, total=task.config.steps)
            self.bar.update(self.bars[task.cell.id], completed=last_step(task.folder))

    def finished(self, message: str) -> None:
        """A cell has ended."""
        self.done += 1
        self.bar.update(self.whole, completed=self.done)
        note(f"[{self.done}/{self.total}] {message}")
        sys.stderr.flush()


def last_step(folder: Path) -> int:
    """The last step that a run has written about."""
    path = folder / "metrics.jsonl"
    if not path.exists():
        return 0
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - 4096))
        lines = file.read().decode(errors="replace").splitlines()
    for line in reversed(lines):
        try:
            return int(json.loads(line)["step"])
        except (ValueError, KeyError, TypeError):
            continue
    return 0
