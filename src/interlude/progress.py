"""What a person sees while a run trains: a live bar in a terminal, plain lines elsewhere."""

import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bar

console = Console(stderr=True, highlight=False)
_silent: ContextVar[bool] = ContextVar("silent", default=False)


@contextmanager
def silence(quiet: bool) -> Iterator[None]:
    """Inside, where `quiet`, no bar and no note is shown, whoever makes it."""
    before = _silent.set(quiet or _silent.get())
    try:
        yield
    finally:
        _silent.reset(before)


class Progress:
    """Shows one run's progress; silent where `quiet`."""

    def __init__(self, title: str, total: int, *, unit: str = "step", quiet: bool = False) -> None:
        self.title, self.total, self.unit, self.quiet = title, total, unit, quiet or _silent.get()
        self.values: dict[str, float] = {}
        self.began: tuple[float, int] | None = None
        self.next_line = 0.0
        self.bar: Bar | None = None
        if console.is_terminal and not self.quiet:
            self.bar = Bar(
                TextColumn("[bold]{task.description}"),
                BarColumn(bar_width=24),
                MofNCompleteColumn(),
                TextColumn("{task.fields[values]}"),
                TimeRemainingColumn(),
                console=console,
                refresh_per_second=4,  # drawing takes a millisecond of the training thread's time
            )
            self.task = self.bar.add_task(title, total=total, values="")

    def __enter__(self) -> "Progress":
        if self.bar:
            self.bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.bar:
            self.bar.stop()

    def show(self, step: int, values: Mapping[str, float] | None = None) -> None:
        """Move to `step`; `values` replace those shown before under the same names."""
        self.values |= values or {}
        self.began = self.began or (time.monotonic(), step)
        if self.bar:
            self.bar.update(self.task, completed=step, values=describe(self.values))
        elif not self.quiet and values and (time.monotonic() >= self.next_line or step == self.total):
            self.next_line = time.monotonic() + 5
            left = self.seconds_left(step)
            ending = f", {left:.0f} s left" if left is not None else ""
            print(
                f"{self.title}: {self.unit} {step}/{self.total}, {describe(self.values)}{ending}",
                file=sys.stderr,
                flush=True,
            )

    def seconds_left(self, step: int) -> float | None:
        """Time to the end at the pace since the first step shown."""
        if self.began is None or step <= self.began[1]:
            return None
        since, first = self.began
        return (time.monotonic() - since) / (step - first) * (self.total - step)


def describe(values: Mapping[str, float]) -> str:
    """`loss 0.412 mask 0.83 ...` in the order given."""
    return " ".join(f"{name} {value:.4g}" for name, value in values.items())


def note(message: str) -> None:
    """One line to the person, on standard error, whatever bar is on screen."""
    if not _silent.get():
        console.print(message, markup=False, soft_wrap=True)
