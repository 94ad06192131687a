"""Rows of verdicts as CSV, TSV, JSON lines, or a table for the eye."""

import csv
import io
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from interlude.data.problem import shown
from interlude.prediction.stream import Row

FORMULA = tuple("=+-@\t\r")  # what a spreadsheet takes a cell for that begins so
SEPARATORS = {".csv": ",", ".tsv": "\t"}
FORMATS = (*SEPARATORS, ".jsonl")


@dataclass(frozen=True)
class Columns:
    """Which columns a table has, and what stands in them."""

    class_names: Sequence[str]
    has_sets: bool
    has_ood: bool
    top: int = 1  # how many of the most probable classes
    probabilities: bool = False  # of all classes, a column each

    def of(self, row: Row) -> dict[str, Any]:
        """The values of a row by column, None where there is none."""
        known = not row.error
        order = sorted(range(len(row.probabilities)), key=lambda k: -row.probabilities[k])
        values: dict[str, Any] = {"file": row.file}
        for place in range(self.top):
            k = order[place] if known else None
            number = f"_{place + 1}" if place else ""
            values[f"class{number}"] = None if k is None else self.class_names[k]
            values[f"probability{number}"] = None if k is None else round(row.probabilities[k], 6)
        names = [name for name, held in zip(self.class_names, row.in_set, strict=False) if held]
        values["set"] = names if known and self.has_sets else None
        values["abstain"] = row.abstain if known and (self.has_sets or self.has_ood) else None
        values["ood"] = round(row.ood, 4) if known and self.has_ood else None
        values["error"] = row.error or None
        if self.probabilities:
            numbers = row.probabilities or (None,) * len(self.class_names)
            values |= {
                f"probability:{name}": None if p is None else round(p, 6)
                for name, p in zip(self.class_names, numbers, strict=True)
            }
        return values

    def header(self) -> list[str]:
        """The names of the columns."""
        return list(self.of(Row("", "no file")))


def heading(columns: Columns, suffix: str) -> bytes:
    """The first line of a file in this format."""
    return b"" if suffix == ".jsonl" else _encoded(_line(columns.header(), SEPARATORS[suffix]), suffix)


def lines(columns: Columns, rows: Iterable[Row], suffix: str) -> bytes:
    """Rows in this format, each with its end of line."""
    if suffix == ".jsonl":
        text = "".join(json.dumps(columns.of(row), ensure_ascii=False) + "\n" for row in rows)
    else:
        text = "".join(
            _line([_cell(name, value) for name, value in columns.of(row).items()], SEPARATORS[suffix])
            for row in rows
        )
    return _encoded(text, suffix)


def _encoded(text: str, suffix: str) -> bytes:
    """As UTF-8; undecodable bytes of a name are written as they are, or in JSON's own way."""
    return text.encode(errors="backslashreplace" if suffix == ".jsonl" else "surrogateescape")


def show(columns: Columns, rows: Iterable[Row]) -> None:
    """A table in the terminal."""
    table = Table(box=None, header_style="bold")
    for name in columns.header():
        table.add_column(name, overflow="fold")
    for row in rows:
        table.add_row(*(Text(shown(_cell(name, value))) for name, value in columns.of(row).items()))
    Console().print(table)


def _line(values: Sequence[str], separator: str) -> str:
    """A line of a table; carriage returns inside a name are quoted too, which csv does only for its own."""
    text = io.StringIO()
    csv.writer(text, delimiter=separator, lineterminator="\r\n").writerow(values)
    return text.getvalue().removesuffix("\r\n") + "\n"


def _cell(name: str, value: Any) -> str:
    """A value as text."""
    if value is None:
        return ""
    if name == "file":
        # the same file, and no spreadsheet takes it for a formula
        return f"./{value}" if value.startswith(FORMULA) else str(value)
    if name == "set":
        return "|".join(label.replace("|", r"\|") for label in value)
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:.6g}" if isinstance(value, float) else str(value)
