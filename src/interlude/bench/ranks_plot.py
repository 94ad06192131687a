"""The critical-difference diagram: average ranks on a line, a bar over those that do not differ."""

from collections.abc import Mapping, Sequence
from math import ceil
from typing import Any

from interlude.bench.statistics import Ranking
from interlude.bench.style import GREY, INK, new_figure

STEP = 0.18  # inches from name to name
LETTER = 0.062  # inches that a letter takes
AXIS = 3.2  # inches from the first rank to the last


def draw_ranks(ranking: Ranking, about: str, colours: Mapping[str, str]) -> Any:
    """The best rank at the left; the better half of the names at the left side, the others at the right."""
    pairs = sorted(zip(ranking.ranks, ranking.names, strict=True))
    groups = cliques([rank for rank, _ in pairs], ranking.critical_difference)
    count, half = len(pairs), ceil(len(pairs) / 2)
    side = 0.5 + LETTER * (5 + max(len(name) for name in ranking.names))  # inches for the names
    line, first = 0.7, 0.32 + 0.09 * len(groups)  # inches down to the axis, and from there to the first name
    width, height = AXIS + 2 * side, line + first + STEP * half + 0.25
    figure = new_figure(width, height, layout=None)
    axis = figure.add_axes((0, 0, 1, 1))
    axis.axis("off")
    unit = (count - 1) / AXIS  # ranks an inch
    axis.set_xlim(1 - side * unit, count + side * unit)
    axis.set_ylim(height, 0)
    _draw_axis(axis, count, line)
    _draw_difference(axis, ranking, line)
    for index, (rank, name) in enumerate(pairs):
        left = index < half
        depth = line + first + STEP * (index if left else count - 1 - index)
        edge = 1 - 0.25 * unit if left else count + 0.25 * unit
        colour = colours[name]
        axis.plot([rank, rank, edge], [line, depth, depth], color=colour, lw=0.8)
        ink = colour if colour != GREY else INK
        text = f"{name}  {rank:.2f}" if left else f"{rank:.2f}  {name}"
        axis.text(
            edge, depth, f" {text} ", ha="right" if left else "left", va="center", color=ink, fontsize=7.5
        )
    for depth, (begin, end) in enumerate(groups):
        y = line + 0.12 + 0.09 * depth
        axis.plot([begin - 0.04 * unit, end + 0.04 * unit], [y, y], color=INK, lw=2.2, solid_capstyle="round")
    note = f"average rank over {ranking.num_blocks} blocks; {about}"
    axis.text(0.5, 0.03, note, transform=axis.transAxes, ha="center", va="bottom", fontsize=5.8, color=GREY)
    return figure


def _draw_axis(axis: Any, count: int, line: float) -> None:
    axis.plot([1, count], [line, line], color=INK, lw=0.8)
    for rank in range(1, count + 1):
        axis.plot([rank, rank], [line, line - 0.05], color=INK, lw=0.8)
        axis.text(rank, line - 0.08, str(rank), ha="center", va="bottom", fontsize=7)


def _draw_difference(axis: Any, ranking: Ranking, line: float) -> None:
    width, y = ranking.critical_difference, line - 0.42
    shown = min(width, len(ranking.names) - 1)
    axis.plot([1, 1 + shown], [y, y], color=INK, lw=1.6, solid_capstyle="butt")
    for x in (1.0, 1 + shown):
        axis.plot([x, x], [y - 0.04, y + 0.04], color=INK, lw=0.8)
    wider = " (wider than the axis)" if shown < width else ""
    axis.text(
        1 + shown / 2,
        y - 0.06,
        f"critical difference {width:.2f}{wider}",
        ha="center",
        va="bottom",
        fontsize=7,
    )


def cliques(ranks: Sequence[float], difference: float) -> list[tuple[float, float]]:
    """The longest runs of sorted ranks that lie within the difference, those of two or more."""
    found: list[tuple[int, int]] = []
    for start in range(len(ranks)):
        end = max(index for index in range(start, len(ranks)) if ranks[index] - ranks[start] <= difference)
        if end > start and not any(first <= start and end <= last for first, last in found):
            found.append((start, end))
    return [(ranks[first], ranks[last]) for first, last in found]
