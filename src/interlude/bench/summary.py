"""The results of a suite in the shape of its table: rows, columns, estimates, and what was published."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from interlude.bench.grid import fits
from interlude.bench.published import Figure, published
from interlude.bench.record import figure_of
from interlude.bench.statistics import Estimate, Ranking, rank
from interlude.bench.store import Line
from interlude.bench.suites import Suite, lines_of

FEW = 4  # columns; below, each repetition is a block of the ranking


@dataclass(frozen=True)
class Summary:
    """The table of a suite, filled with what there is."""

    suite: Suite
    rows: tuple[str, ...]
    columns: tuple[str, ...]  # the titles of reports
    runs: Mapping[tuple[str, str], list[Line]]  # by row and the suite's column; of a search the chosen ones
    reports: Mapping[str, tuple[str, str, str]]  # title -> suite's column, test set, figure
    figures: Mapping[tuple[str, str], Figure] = field(default_factory=dict)  # published
    notes: tuple[str, ...] = ()
    against: Mapping[str, str] = field(default_factory=dict)  # row -> the row it is compared with

    def of(self, row: str, title: str) -> list[Line]:
        """The runs behind a cell of the table."""
        return self.runs.get((row, self.reports[title][0]), [])

    def values(self, row: str, title: str) -> dict[int, float]:
        """The figure of each repetition of a cell."""
        _, test, figure = self.reports[title]
        return {line["repetition"]: _value(line, test, figure) for line in self.of(row, title)}

    def estimate(self, row: str, title: str) -> Estimate | None:
        """The mean of a cell over its repetitions."""
        values = self.values(row, title)
        return Estimate(tuple(values.values())) if values else None

    def difference(self, row: str, title: str) -> Estimate | None:
        """A row's figure less that of the row it is compared with, in each repetition that both have."""
        other = self.against.get(row)
        if other is None:
            return None
        ours, theirs = self.values(row, title), self.values(other, title)
        pairs = tuple(ours[seed] - theirs[seed] for seed in sorted(ours.keys() & theirs.keys()))
        return Estimate(pairs) if pairs else None

    def published(self, row: str, title: str) -> Figure | None:
        """What the paper reports there."""
        return self.figures.get((row, title))

    def best(self, title: str) -> float | None:
        """The lowest mean of a column."""
        estimates = [self.estimate(row, title) for row in self.rows]
        return min((estimate.mean for estimate in estimates if estimate), default=None)

    def filled_rows(self) -> list[str]:
        """The rows that have a result."""
        return [row for row in self.rows if any(self.of(row, title) for title in self.columns)]

    def ranking(self) -> tuple[Ranking | None, str]:
        """Average ranks of the rows that have a result everywhere, and what the blocks are."""
        columns = [title for title in self.columns if any(self.of(row, title) for row in self.rows)]
        if len(columns) >= FEW:
            blocks: list[tuple[str, int | None]] = [(title, None) for title in columns]
            about = "blocks are data sets"
        else:
            blocks = [(title, seed) for title in columns for seed in self.suite.seeds]
            about = "blocks are data sets x seeds, which are not independent: the true difference is larger"
        errors = {row: [self._block(row, title, seed) for title, seed in blocks] for row in self.rows}
        whole = {row: values for row, values in errors.items() if None not in values}
        if len(whole) < 2 or not blocks:
            return None, "no two rows have a result in every column"
        by_block = [[float(values[index] or 0) for values in whole.values()] for index in range(len(blocks))]
        return rank(list(whole), by_block), about

    def _block(self, row: str, title: str, seed: int | None) -> float | None:
        if seed is not None:
            return self.values(row, title).get(seed)
        estimate = self.estimate(row, title)
        return estimate.mean if estimate else None


def summarize(suite: Suite, lines: Sequence[Line]) -> Summary:
    """Put the lines of a suite into its table."""
    reports = {
        title: (name, test, figure)
        for name, column in suite.columns.items()
        for title, (test, figure) in (column.reports or {name: ("", "error")}).items()
    }
    rows = [name for row_name, row in suite.rows.items() for name, _ in lines_of(row_name, row)]
    runs, notes = _chosen(suite, lines)
    return Summary(
        suite=suite,
        rows=tuple(dict.fromkeys(rows)),
        columns=tuple(reports),
        runs=runs,
        reports=reports,
        figures=_published(suite, reports),
        notes=tuple(notes),
        against=_against(suite),
    )


def _chosen(suite: Suite, lines: Sequence[Line]) -> tuple[dict[tuple[str, str], list[Line]], list[str]]:
    """The runs of each row and column: the newest of each repetition, and of a search the best one."""
    searched = [name for name, row in suite.rows.items() if row.search]
    grouped: dict[tuple[str, str], dict[int, dict[str, Line]]] = defaultdict(lambda: defaultdict(dict))
    for line in _newest(lines):
        grouped[line["row"], line["column"]][line["repetition"]][str(line["variant"])] = line
    runs: dict[tuple[str, str], list[Line]] = {}
    notes = []
    for (row, column), repetitions in grouped.items():
        kept = []
        for repetition, variants in sorted(repetitions.items()):
            line = min(variants.values(), key=_validation_error) if row in searched else last(variants)
            kept.append(line)
            if row in searched:
                chosen = ", ".join(f"{name} = {value}" for name, value in line["variant"].items())
                among = _size(suite, row)
                notes.append(
                    f"{row}, {column}, repetition {repetition}: {chosen} chosen on validation among "
                    f"{len(variants)} of {among}"
                )
        runs[row, column] = kept
    return runs, notes


def _newest(lines: Sequence[Line]) -> list[Line]:
    """Of each place only lines with the settings of its newest one: settings may have changed since."""
    place = ("row", "column")
    hashes: dict[Any, str] = {}
    for line in lines:
        hashes[(*(line[key] for key in place), str(line["variant"]))] = line["config_hash"]
    return [
        line
        for line in lines
        if hashes[(*(line[key] for key in place), str(line["variant"]))] == line["config_hash"]
    ]


def _validation_error(line: Line) -> float:
    return figure_of(line["validation"], "balanced_error")


def last(variants: Mapping[str, Line]) -> Line:
    """The newest of a row that searches nothing."""
    return list(variants.values())[-1]


def _size(suite: Suite, row: str) -> int:
    return len(list(lines_of(row, suite.rows[row])))


def _value(line: Line, test: str, figure: str) -> float:
    tests = line["tests"]
    figures = tests[test] if test else next(iter(tests.values()))
    return figure_of(figures, figure)


def _against(suite: Suite) -> dict[str, str]:
    """What each row is compared with."""
    return {
        name: other
        for row_name, row in suite.rows.items()
        for name, _ in lines_of(row_name, row)
        if (other := row.against or suite.reference) not in ("", name)
    }


def _published(suite: Suite, reports: Mapping[str, Any]) -> dict[tuple[str, str], Figure]:
    """The paper's figures under the names of the suite."""
    if suite.published is None:
        return {}
    table = published(suite.published)
    return {
        (name, title): figure
        for row_name, row in suite.rows.items()
        for title in reports
        if (figure := table.figure(row.published or row_name, title)) is not None
        for name, _ in lines_of(row_name, row)
    }


def highlighted(suite: Suite, row: str) -> bool:
    """Whether a row is one that the suite is about."""
    return fits(row, suite.highlight)
