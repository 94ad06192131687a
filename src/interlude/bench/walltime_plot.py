"""The plot of a walltime suite: the time of a step of each row relative to the reference."""

from collections.abc import Sequence
from typing import Any

from interlude.bench import style
from interlude.bench.store import Line
from interlude.bench.style import GREY, INK, LOUD
from interlude.bench.suites import Suite
from interlude.bench.summary import highlighted


def draw(suite: Suite, lines: Sequence[Line]) -> Any:
    """A panel a column, quickest first."""
    newest = {(line["row"], line["column"]): line for line in lines}
    columns = [name for name in suite.columns if any(place[1] == name for place in newest)]
    most = max(sum(place[1] == name for place in newest) for name in columns)
    figure, axes = style.panels(len(columns), width=style.COLUMN, height=0.8 + 0.16 * most, most=2)
    for axis, name in zip(axes, columns, strict=True):
        of_column = sorted(
            (line for place, line in newest.items() if place[1] == name),
            key=lambda line: float(line["ratio"]),
        )
        for place, line in enumerate(of_column):
            colour = LOUD[0] if highlighted(suite, line["row"]) else GREY
            axis.plot(line["ratio_quartiles"], [place, place], color=colour, lw=1)
            axis.plot(line["ratio"], place, "o", color=colour, ms=4)
            right = max(line["ratio"], *line["ratio_quartiles"])
            axis.annotate(
                f"{line['ratio']:.2f}",
                (right, place),
                (4, 0),
                textcoords="offset points",
                fontsize=6,
                va="center",
                color=INK,
            )
        axis.axvline(1, color=GREY, lw=0.6, ls=(0, (2, 2)), zorder=0)
        axis.set_yticks(range(len(of_column)), [line["row"] for line in of_column])
        axis.set_ylim(len(of_column) - 0.4, -0.8)
        axis.set(xlabel=f"time of a step / {suite.reference}", title=name)
        axis.grid(axis="y", visible=False)
        axis.margins(x=0.12)
        axis.set_xlim(left=0)
    return figure
