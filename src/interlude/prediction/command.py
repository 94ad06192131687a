"""The verb `predict`: judge image files with the model of a run."""

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import torch
from cyclopts import App, CycloptsError, Parameter

from interlude import machine
from interlude.distributed import pick_device
from interlude.errors import RunError, UserError
from interlude.options import Options, option
from interlude.prediction.inputs import PIPED, Inputs
from interlude.prediction.stream import Row, judged
from interlude.prediction.table import FORMATS, Columns, heading, lines, show
from interlude.predictor import Predictor
from interlude.progress import Progress, note
from interlude.signals import Stopped, StopRequest

FEW = 50  # rows that are shown as a table in a terminal

Write = Callable[[Sequence[Row]], None]


def main(tokens: Sequence[str]) -> None:
    """Run the verb with its tokens."""
    app = App(name="interlude predict", version_flags=[], suppress_keyboard_interrupt=False)
    app.default(run)
    try:
        # a lone hyphen would be taken for an option
        app([PIPED if token == "-" else token for token in tokens], exit_on_error=False, print_error=False)
    except CycloptsError as error:
        raise UserError(" ".join(str(error).split())) from error


@dataclass(frozen=True)
class Settings(Options):
    """How to judge, and what to say."""

    out: Path | None = option(None, "table to write: .csv, .tsv or .jsonl; default standard output")
    probabilities: bool = option(False, "one more column for each class")
    top: int = option(1, "how many of the most probable classes to name", at_least=1)
    force: bool = option(False, "replace the file --out if it exists")
    threads: int = option(0, "CPU threads; 0 for as many as cores are free", at_least=0)
    device: str = option("auto", "auto, cpu, cuda, cuda:N or mps")
    quiet: bool = option(False, "no progress and no remarks")


def run(
    folder: Path, /, *images: str, settings: Annotated[Settings, Parameter(name="*")] = Settings()
) -> None:
    """Judge images with the model of a run: class, probability, prediction set, whether to abstain.

    Parameters
    ----------
    folder
        A run folder with a trained model.
    images
        Files, folders, patterns in quotes, @FILE for a list of names, or - for a list on standard input.
    """
    job = Job(Inputs(images), settings.out, quiet=settings.quiet, workers=_use_threads(settings.threads))
    job.check(force=settings.force)
    predictor = Predictor.load(folder)
    predictor.model.to(pick_device(settings.device))
    names, known = predictor.class_names, predictor.calibration
    if settings.top > len(names):
        raise UserError(f"top must be 1 to {len(names)}, the number of classes, got {settings.top}")
    if not settings.quiet:
        note(known.promise())
    has_ood = predictor.usual is not None
    job.complete(
        predictor, Columns(names, known.has_sets, has_ood, settings.top, probabilities=settings.probabilities)
    )


def _use_threads(threads: int) -> int:
    """Let torch compute with so many threads, which is also how many decode."""
    count = threads or machine.threads().number
    torch.set_num_threads(count)
    return count


def _to_terminal() -> bool:
    return sys.stdout.isatty()


@dataclass(frozen=True)
class Tally:
    """How many files there were, and what became of them."""

    files: int = 0
    failed: int = 0
    abstained: int = 0

    def plus(self, rows: Sequence[Row]) -> "Tally":
        """The same after more rows."""
        return Tally(
            self.files + len(rows),
            self.failed + sum(bool(row.error) for row in rows),
            self.abstained + sum(row.abstain for row in rows),
        )

    def __str__(self) -> str:
        parts = [f"{self.files:,} files"]
        if self.abstained:
            parts.append(f"{self.abstained:,} for a person to look at (abstain)")
        if self.failed:
            parts.append(f"{self.failed:,} could not be read (error)")
        return ", ".join(parts)


@dataclass(frozen=True)
class Job:
    """The files to judge and where the table goes."""

    inputs: Inputs
    out: Path | None
    quiet: bool
    workers: int

    def check(self, *, force: bool) -> None:
        """Refuse, before any work, what cannot be written."""
        if not self.inputs.arguments:
            raise UserError("no images given; name files, folders, patterns, @LIST or -")
        if self.out is None:
            return
        if self.out.suffix.lower() not in FORMATS:
            raise UserError(f"{self.out} must end in {', '.join(FORMATS)}")
        if self.out.exists() and not force:
            raise UserError(f"{self.out} exists already; choose another --out, or replace it with --force")
        if not self.out.absolute().parent.is_dir():
            raise UserError(f"the folder of {self.out} does not exist; make it first")

    def complete(self, predictor: Predictor, columns: Columns) -> None:
        """Judge all files; a signal ends it after the rows in hand."""
        total = self.inputs.count()
        if not total:
            raise UserError("no images found; folders are searched for .jpg, .png, .tif and the like")
        tally, began = Tally(), time.monotonic()
        batches = judged(predictor, self.inputs, workers=self.workers)
        progress = Progress("predict", total, quiet=self.quiet)
        with self._table(columns, total) as write, StopRequest() as stop, progress:
            for rows in batches:
                write(rows)
                tally = tally.plus(rows)
                progress.show(tally.files, {"images/s": tally.files / (time.monotonic() - began)})
                if stop.signal is not None and tally.files < total:
                    batches.close()
                    raise Stopped(
                        f"stopped after {tally.files:,} files; their rows are complete", stop.signal
                    )
        if not self.quiet:
            note(f"{tally}" if self.out is None else f"wrote {self.out}: {tally}")
        if tally.failed == tally.files:
            raise RunError("none of the files could be read; the column error says why")

    @contextmanager
    def _table(self, columns: Columns, total: int) -> Iterator[Write]:
        """What writes rows: to a file, to a terminal, or to what reads our output."""
        if self.out is None and _to_terminal() and total <= FEW:
            held: list[Row] = []
            yield held.extend
            show(columns, held)
            return
        suffix = ".csv" if self.out is None else self.out.suffix.lower()
        # undecodable bytes of a name are written as they are, or in JSON's own way
        errors = "backslashreplace" if suffix == ".jsonl" else "surrogateescape"
        target: Path | int = sys.stdout.fileno() if self.out is None else self.out
        try:
            with open(
                target, "w", encoding="utf-8", errors=errors, newline="", closefd=self.out is not None
            ) as file:

                def write(rows: Sequence[Row]) -> None:
                    file.write(lines(columns, rows, suffix))
                    file.flush()

                file.write(heading(columns, suffix))
                yield write
        except BrokenPipeError:
            raise
        except OSError as error:
            raise RunError(f"cannot write {self.out or 'the table'}: {error.strerror}") from error
