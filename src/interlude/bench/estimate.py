"""What a suite would cost: cells, steps, images and hours, before anything runs."""

from collections import Counter
from collections.abc import Sequence

from interlude.bench.grid import Cell
from interlude.bench.pace import Pace, Pacer, plan
from interlude.bench.suites import Suite

HOW = {
    "measured": "measured by a few steps on this machine",
    "scaled": "scaled by images from another method with the same network",
    "tabulated": "from a table of networks on one CPU core",
}


def report(suite: Suite, cells: Sequence[Cell], missing: Sequence[Cell], *, jobs: int, pilot: bool) -> str:
    """A line a row, and the sum; only what has no result yet counts."""
    planned = plan(missing, Pacer(pilot=pilot))
    rows = dict.fromkeys(cell.row for cell, _, _ in planned)
    lines = [("row", "cells", "steps", "images", "hours")]
    lines += [(row, *_sums([entry for entry in planned if entry[0].row == row])) for row in rows]
    lines.append(("in all", *_sums(planned)))
    widths = [max(len(line[column]) for line in lines) for column in range(5)]
    table = [
        "  ".join([line[0].ljust(widths[0]), *(line[i].rjust(widths[i]) for i in range(1, 5))])
        for line in lines
    ]
    hours = sum(_hours(entry) for entry in planned) / jobs
    distinct = len({cell.id for cell in cells})
    how = Counter(pace.how for _, _, pace in planned)
    return "\n".join(
        [
            f"{suite.title_of_scale}: {len(cells)} cells, {distinct} runs, {len(missing)} to do now",
            "",
            *table,
            "",
            f"about {hours:.1f} hours with {jobs} side by side; evaluation comes on top",
            *(f"pace of {count} cells: {HOW[word]}" for word, count in how.items()),
        ]
    )


def _sums(planned: Sequence[tuple[Cell, int, Pace]]) -> tuple[str, str, str, str]:
    steps = sum(cell.config.steps for cell, _, _ in planned)
    images = sum(cell.config.steps * views for cell, views, _ in planned)
    return f"{len(planned)}", f"{steps:,}", f"{images:.2e}", f"{sum(map(_hours, planned)):,.2f}"


def _hours(entry: tuple[Cell, int, Pace]) -> float:
    cell, _, pace = entry
    return cell.config.steps * pace.seconds / 3600
