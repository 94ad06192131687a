"""The verb `doctor`: examine a folder of images, print what was found, keep it as JSON."""

import json as json_format
from collections.abc import Sequence
from pathlib import Path

from interlude.data.listing import list_folder
from interlude.doctor.diagnosis import REPORT, Diagnosis, files
from interlude.doctor.examine import examine
from interlude.doctor.table import render
from interlude.errors import RunError, UserError
from interlude.files import write_whole
from interlude.options import run_verb
from interlude.progress import note

DEFAULT = Path("doctor.json")


def main(tokens: Sequence[str]) -> None:
    """The verb `doctor`."""
    run_verb("doctor", doctor, tokens)


def doctor(
    folder: Path,
    /,
    *,
    labels: Path | None = None,
    group: str | None = None,
    out: Path | None = None,
    json: bool = False,
    quiet: bool = False,
) -> None:
    """Examine a folder of images before training on it: what is wrong, and what to do. Changes nothing.

    Parameters
    ----------
    folder
        The folder of images, in any form that `interlude fit` takes.
    labels
        A table of labels (CSV or TSV).
    group
        The column of the table that says which images belong together, such as patient_id.
    out
        File for the findings as JSON, outside of the folder; default doctor.json here.
    json
        Print the findings as JSON instead of a table; a file is written only with --out.
    quiet
        No progress.
    """
    target = where_to_write(folder, out, printed=json)
    diagnosis = examine(list_folder(folder, labels, group), quiet=quiet)
    if json:
        print(diagnosis.to_json())
    else:
        render(diagnosis)
    if target is not None:
        write(diagnosis, target)
        note(f"wrote {target}")
    if diagnosis.stops:
        raise RunError(f"{files(len(diagnosis.stops), 'finding')} would stop training; see above what to do")


def where_to_write(folder: Path, out: Path | None, *, printed: bool) -> Path | None:
    """The file for the findings, checked before any work is done; None for no file."""
    if out is None and printed:
        return None
    target = out or DEFAULT
    if target.resolve().is_relative_to(folder.expanduser().resolve()):
        if out is not None:
            raise UserError(f"{out} is in the image folder, where nothing is written; choose another --out")
        note(f"{DEFAULT} is not written, because this is the image folder; say where with --out FILE")
        return None
    if not target.parent.is_dir():
        raise UserError(f"the folder of --out {target} does not exist; make it first")
    if target.exists() and not is_report(target):
        raise UserError(f"{target} exists and is no earlier report of the doctor; choose another --out")
    return target


def is_report(path: Path) -> bool:
    """Whether a file was written by the doctor."""
    try:
        content = json_format.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return isinstance(content, dict) and content.get("report") == REPORT


def write(diagnosis: Diagnosis, path: Path) -> None:
    """Write the findings whole or not at all."""
    try:
        write_whole(path, diagnosis.to_json() + "\n")
    except OSError as error:
        raise RunError(f"cannot write {path}: {(error.strerror or str(error)).lower()}") from None
