"""The verb `predict`: judge image files with the model of a run."""

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from itertools import islice
from pathlib import Path
from typing import Annotated, NamedTuple

import torch
from cyclopts import Parameter

from interlude import machine
from interlude.distributed import pick_device
from interlude.errors import RunError, UserError, cure
from interlude.models.weights import CONFIG, WEIGHTS
from interlude.options import Options, option, run_verb
from interlude.prediction.inputs import PIPED, Inputs, Listed
from interlude.prediction.stream import Row, judged
from interlude.prediction.table import FORMATS, Columns, heading, lines, show
from interlude.prediction.unfinished import Tally, Unfinished
from interlude.predictor import Predictor
from interlude.progress import Progress, note
from interlude.signals import Stopped, StopRequest

FEW = 50  # rows that are shown as a table in a terminal


class Table(NamedTuple):
    """What writes rows, told how many there are with them; and those it has already."""

    write: Callable[[Sequence[Row], Tally], None]
    done: Tally = Tally()


def main(tokens: Sequence[str]) -> None:
    """Run the verb with its tokens."""
    # a lone hyphen would be taken for an option
    run_verb("predict", run, [PIPED if token == "-" else token for token in tokens])


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
    job = Job(
        folder,
        Inputs(images),
        settings.out,
        force=settings.force,
        quiet=settings.quiet,
        workers=_use_threads(settings.threads),
    )
    job.check()
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
class Job:
    """The model, the files to judge and where the table goes."""

    folder: Path
    inputs: Inputs
    out: Path | None
    force: bool
    quiet: bool
    workers: int

    def check(self) -> None:
        """Refuse, before any work, what cannot be written."""
        if not self.inputs.arguments:
            raise UserError("no images given; name files, folders, patterns, @LIST or -")
        if self.out is None:
            return
        if self.out.suffix.lower() not in FORMATS:
            raise UserError(f"{self.out} must end in {', '.join(FORMATS)}")
        if self.out.exists() and not self.force:
            raise UserError(f"{self.out} exists already; choose another --out, or replace it with --force")
        if self.out.is_dir():
            raise UserError(f"{self.out} is a folder; choose another --out")
        if not self.out.absolute().parent.is_dir():
            raise UserError(f"the folder of {self.out} does not exist; make it first")

    def complete(self, predictor: Predictor, columns: Columns) -> None:
        """Judge all files; a signal ends it after the rows in hand."""
        listed = self.inputs.listed()
        if not listed.number:
            raise UserError("no images found; folders are searched for .jpg, .png, .tif and the like")
        progress = Progress("predict", listed.number, unit="file", quiet=self.quiet)
        with self._table(columns, listed) as table, StopRequest() as stop, progress:
            tally, began = table.done, time.monotonic()
            batches = judged(predictor, islice(self.inputs, tally.files, None), workers=self.workers)
            for rows in batches:
                tally = tally.plus(rows)
                table.write(rows, tally)
                pace = (tally.files - table.done.files) / (time.monotonic() - began)
                progress.show(tally.files, {"images/s": pace})
                if stop.signal is not None and tally.files < listed.number:
                    batches.close()
                    raise Stopped(f"stopped after {tally.files:,} files; {self._kept()}", stop.signal)
        if not self.quiet:
            note(f"{tally}" if self.out is None else f"wrote {self.out}: {tally}")
        if tally.failed == tally.files:
            raise RunError("none of the files could be read; the column error says why")

    def _kept(self) -> str:
        """What is left of a table that was stopped."""
        if self.out is None:
            return "their rows are complete"
        return f"their rows are in {self.out}.part, and the same command goes on with them"

    @contextmanager
    def _table(self, columns: Columns, listed: Listed) -> Iterator[Table]:
        """What takes rows: a file, a terminal, or what reads our output."""
        if self.out is None and _to_terminal() and listed.number <= FEW:
            held: list[Row] = []
            yield Table(lambda rows, done: held.extend(rows))
            show(columns, held)
            return
        try:
            with _stream(columns) if self.out is None else self._file(self.out, columns, listed) as table:
                yield table
        except BrokenPipeError:
            raise
        except OSError as error:
            error.filename = None  # one beside the table, which the message names itself
            why = cure(error) or error.strerror
            raise RunError(f"cannot write {self.out or 'the table'}: {why}") from error

    @contextmanager
    def _file(self, out: Path, columns: Columns, listed: Listed) -> Iterator[Table]:
        """A file, gone on with where the same table was begun before."""
        suffix = out.suffix.lower()
        about = {"model": _digest(self.folder), "files": listed.digest, "columns": columns.header()}
        with Unfinished(out, about, replace=self.force) as file:
            if not file.done.files:
                file.add(heading(columns, suffix), file.done)
            elif not self.quiet:
                note(f"going on after the {file.done.files:,} files that are in {file.rows}")
            yield Table(lambda rows, done: file.add(lines(columns, rows, suffix), done), file.done)


@contextmanager
def _stream(columns: Columns) -> Iterator[Table]:
    """Standard output, as CSV."""
    with open(sys.stdout.fileno(), "wb", closefd=False) as file:

        def write(rows: Sequence[Row], done: Tally) -> None:
            file.write(lines(columns, rows, ".csv"))
            file.flush()

        file.write(heading(columns, ".csv"))
        yield Table(write)


def _digest(folder: Path) -> str:
    """A fingerprint of the model in a run folder."""
    digest = sha256()
    for name in (CONFIG, WEIGHTS):
        digest.update((folder / name).read_bytes())
    return digest.hexdigest()
