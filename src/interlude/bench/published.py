"""The published figures, each with its source."""

from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from interlude.errors import unknown


class Figure(NamedTuple):
    """A published mean, its spread as the paper gives it, and where it comes from."""

    mean: float
    spread: float
    source: str


class Published:
    """One table of the paper."""

    def __init__(self, tree: dict[str, Any]) -> None:
        self.title: str = tree["title"]
        self.unit: str = tree["unit"]
        self.spread: str = tree["spread"]
        self.columns: list[str] = tree["columns"]
        self.rows: dict[str, list[list[float] | None]] = tree["rows"]
        self._source: str = tree["source"]
        self._sources: dict[str, str] = tree["sources"]

    def source(self, row: str) -> str:
        """Who ran a row, as far as known."""
        return self._sources.get(row, self._source)

    def figure(self, row: str, column: str) -> Figure | None:
        """The figure of a cell, or None where the paper has none."""
        if row not in self.rows or column not in self.columns:
            return None
        numbers = self.rows[row][self.columns.index(column)]
        return None if numbers is None else Figure(numbers[0], numbers[1], self.source(row))


@cache
def _tables() -> dict[str, Any]:
    text = Path(__file__).with_name("published.yaml").read_text(encoding="utf-8")
    tables: dict[str, Any] = yaml.safe_load(text)
    return tables


def published_tables() -> list[str]:
    """The names of the tables there are."""
    return list(_tables())


def published(name: str) -> Published:
    """The table of the paper called `name`."""
    if name not in _tables():
        raise unknown("published table", name, _tables())
    return Published(_tables()[name])
