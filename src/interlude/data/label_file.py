"""A user's table of labels: which file has which label, and perhaps its part of the data, its group, and
whether it was drawn at random.

CSV with commas, semicolons, tabs or bars, whatever its line ends and byte order mark. Labels are text, also
where they look like numbers; an empty one means that the image is unlabeled.
"""

import csv
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from io import StringIO
from pathlib import Path
from typing import NamedTuple

from interlude.data.problem import Problem, shown
from interlude.errors import UserError

PATHS = ("file_name", "image_path", "image", "filename", "path", "file")
LABELS = ("label", "class", "target")
SPLIT = ("split",)
GROUPS = ("group", "patient_id")
SAMPLED = ("sampled",)
ANSWERS = {"yes": True, "true": True, "1": True, "no": False, "false": False, "0": False, "": None}
SEPARATORS = (",", "\t", ";", "|")
MAX_BYTES = 1 << 30
HIDDEN = "unlabeled"  # as a split: an image of the training part whose label is not to be used
UNLABELED = (HIDDEN, "_unlabeled", "unlabelled", "_unlabelled")  # as folders or labels
EMPTY = ("", "nan", *UNLABELED)  # pandas writes the second
PARTS = {
    "train": "train",
    "training": "train",
    HIDDEN: "train",
    "val": "val",
    "valid": "val",
    "validation": "val",
    "test": "test",
    "testing": "test",
}
CONFLICT = "\0"  # as a label, which no text file can hold: two rows contradict each other
SEALED = ("train", "val", "test")  # from the most open to the most sealed


class Entry(NamedTuple):
    """What the table says about a file; None where it says nothing."""

    label: str | None
    split: str | None
    group: str | None
    line: int
    sampled: bool | None = None


@dataclass(frozen=True)
class LabelFile:
    """The table: its entries by path as written, and which columns it has."""

    path: Path
    entries: dict[str, Entry]
    problems: list[Problem]
    has_labels: bool
    has_groups: bool
    has_sample: bool


class Columns(NamedTuple):
    """Where in a row each thing stands; None where there is no such column."""

    path: int
    label: int | None
    split: int | None
    group: int | None
    sampled: int | None


def read_label_file(path: Path | str, group: str | None = None) -> LabelFile:
    """Read a table; `group` names the column that says which images belong together."""
    path = Path(path).expanduser()
    rows, header = _rows(_text(path))
    columns = _columns(path, header, group)
    problems: list[Problem] = []
    entries = _collect(_entries(rows, columns, len(header), path, problems), problems)
    if not entries:
        raise UserError(f"{path} names no image file below its first line")
    return LabelFile(
        path,
        entries,
        problems,
        has_labels=columns.label is not None,
        has_groups=columns.group is not None,
        has_sample=columns.sampled is not None,
    )


def _text(path: Path) -> str:
    """The file as text."""
    try:
        if path.stat().st_size > MAX_BYTES:
            raise UserError(f"{path} is larger than a label file can be ({MAX_BYTES:,} bytes)")
        content = path.read_bytes()
    except OSError as error:
        raise UserError(f"cannot read the label file {path}: {(error.strerror or '').lower()}") from None
    try:
        text = content.decode("utf-16" if content[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig")
    except UnicodeDecodeError:
        raise UserError(f"{path} is not UTF-8 text; save it as 'CSV UTF-8'") from None
    if "\0" in text:
        raise UserError(f"{path} is no text file; save the table as CSV")
    return text


def _rows(text: str) -> tuple[Iterator[tuple[int, list[str]]], list[str]]:
    """The numbered rows after the first that is not empty, and that first one, in small letters."""
    start = len(text) - len(text.lstrip())
    first = text[start:].partition("\n")[0]
    separator = max(SEPARATORS, key=lambda sign: _looks_right(first, sign))
    reader = csv.reader(StringIO(text[start:], newline=""), delimiter=separator, skipinitialspace=True)
    rows = _numbered(reader, 1 + text.count("\n", 0, start))
    header = next(rows, (0, [""]))[1]
    return rows, [name.strip().lower() for name in header]


def _looks_right(line: str, separator: str) -> tuple[int, int]:
    """How well a separator divides the first line: known columns, and columns at all."""
    names = [name.strip().strip('"').lower() for name in line.split(separator)]
    return sum(name in PATHS + LABELS + SPLIT + GROUPS + SAMPLED for name in names), len(names)


def _numbered(reader: Iterator[list[str]], first: int) -> Iterator[tuple[int, list[str]]]:
    """Rows that are not empty, with the line they begin on."""
    line = first
    try:
        for row in reader:
            if any(map(str.strip, row)):
                yield line, row
            line = first + reader.line_num  # type: ignore[attr-defined]
    except csv.Error as error:
        raise UserError(
            f"line {line} of the label file cannot be read ({error}); is a quote not closed?"
        ) from None


def _columns(path: Path, header: list[str], group: str | None) -> Columns:
    """Where the columns are that we use; the error names those that are there and those that would do."""

    def find(names: Sequence[str]) -> int | None:
        return next((header.index(name) for name in names if name in header), None)

    if not any(header):
        raise UserError(f"{path} is empty")
    there = f"its first line has {', '.join(map(shown, header))}"
    place = find(PATHS)
    if place is None:
        raise UserError(
            f"{path} has no column for the file: the first line must name the columns, as file_name,label; "
            f"{there} ({', '.join(PATHS)} would do)"
        )
    wanted = GROUPS if group is None else (group.strip().lower(),)
    columns = Columns(place, find(LABELS), find(SPLIT), find(wanted), find(SAMPLED))
    if group is not None and columns.group is None:
        near = get_close_matches(group.lower(), header, n=1)
        hint = f"did you mean {near[0]!r}?" if near else there
        raise UserError(f"{path} has no column {group!r} to group by; {hint}")
    if columns.label is None and columns.split is None and columns.group is None:
        raise UserError(f"{path} has no column for the label: name it {' or '.join(LABELS)}; {there}")
    return columns


def _entries(
    rows: Iterable[tuple[int, list[str]]], columns: Columns, width: int, path: Path, problems: list[Problem]
) -> Iterator[tuple[str, Entry]]:
    """Each row as a file and what is said of it."""
    place, at_label, at_split, at_group, at_sampled = columns
    for line, row in rows:
        if len(row) > width and any(map(str.strip, row[width:])):
            problems.append(Problem("label-row", "", f"line {line} has more cells than the first; left out"))
            continue
        row += [""] * (width - len(row))
        file = row[place].strip()
        if not file:
            problems.append(Problem("label-row", "", f"line {line} names no file; left out"))
            continue
        label = None if at_label is None else row[at_label].strip()
        split = None if at_split is None else row[at_split].strip().lower()
        if split and split not in PARTS:
            raise UserError(
                f"{path}, line {line}: {row[at_split or 0]!r} is no split; say train, val or test"
            )
        if label is not None and (label.lower() in EMPTY or split == HIDDEN):
            label = None
        group = None if at_group is None else row[at_group].strip() or None
        sampled = None if at_sampled is None else _answer(row[at_sampled], path, line)
        yield file, Entry(label, PARTS[split] if split else None, group, line, sampled)


def _answer(word: str, path: Path, line: int) -> bool | None:
    """Whether a cell of the column `sampled` says yes; None if it says nothing."""
    if word.strip().lower() not in ANSWERS:
        raise UserError(
            f"{path}, line {line}: {shown(word)!r} is no answer in the column sampled; say yes or no"
        )
    return ANSWERS[word.strip().lower()]


def _collect(entries: Iterable[tuple[str, Entry]], problems: list[Problem]) -> dict[str, Entry]:
    """One entry for each file; where a file is named twice, what the rows agree on."""
    collected: dict[str, Entry] = {}
    for file, entry in entries:
        before = collected.get(file)
        collected[file] = entry if before is None else merge(file, before, entry, problems)
    return collected


def merge(file: str, one: Entry, two: Entry, problems: list[Problem]) -> Entry:
    """What two rows about the same file say together; contradicting labels cancel each other."""
    lines = f"lines {one.line} and {two.line}"
    labels = {entry.label for entry in (one, two)} - {None}
    groups = [entry.group for entry in (one, two) if entry.group is not None]
    splits = [entry.split for entry in (one, two) if entry.split is not None]
    label = next(iter(labels), None)
    if len(labels) > 1:
        label = CONFLICT
        said = " and ".join(repr(entry.label) for entry in (one, two) if entry.label != CONFLICT)
        problems.append(Problem("conflicting-labels", file, f"{lines} label it {said}; used as unlabeled"))
    elif len(set(splits)) > 1 or len(set(groups)) > 1:
        what = "split" if len(set(splits)) > 1 else "group"
        problems.append(Problem(f"conflicting-{what}s", file, f"{lines} put it in two {what}s"))
    else:
        problems.append(Problem("duplicate-row", file, f"{lines} are about the same file"))
    split = max(splits, key=SEALED.index) if splits else None
    sampled = [entry.sampled for entry in (one, two) if entry.sampled is not None]
    return Entry(label, split, groups[0] if groups else None, one.line, all(sampled) if sampled else None)
