"""The plots of a suite, drawn from its lines of results alone."""

from collections.abc import Callable, Sequence
from itertools import cycle
from pathlib import Path
from typing import Any

from interlude.bench import style, walltime_plot
from interlude.bench.published import Figure
from interlude.bench.ranks_plot import draw_ranks
from interlude.bench.statistics import Estimate
from interlude.bench.store import Line
from interlude.bench.style import COLUMN, GREY, INK, LOUD, MARKERS, PALE, SERIES
from interlude.bench.suites import Suite
from interlude.bench.summary import Summary, highlighted, summarize
from interlude.bench.tables import interval
from interlude.errors import unknown

Draw = Callable[[Summary], Any]


def write_plots(suite: Suite, lines: Sequence[Line], folder: Path) -> list[Path]:
    """Draw what the suite asks for; a plot that has nothing to show is left out."""
    stem = f"{suite.name}-{suite.scale}"
    written = []
    with style.quiet_style():
        if suite.kind == "walltime":
            return style.save(walltime_plot.draw(suite, lines), folder / stem)
        summary = summarize(suite, lines)
        for name in suite.plots:
            if name not in DRAWERS:
                raise unknown("plot", name, DRAWERS)
            figure = DRAWERS[name](summary)
            if figure is not None:
                written += style.save(figure, folder / f"{stem}-{name}")
    return written


def colours(summary: Summary, rows: Sequence[str]) -> dict[str, str]:
    """A colour of its own for each row that the suite is about, grey for the others."""
    loud = cycle(LOUD)
    return {row: next(loud) if highlighted(summary.suite, row) else GREY for row in rows}


def filled_columns(summary: Summary) -> list[str]:
    """The columns that have a result."""
    return [title for title in summary.columns if any(summary.of(row, title) for row in summary.rows)]


def draw_errors(summary: Summary) -> Any:
    """Each row's error with its interval and repetitions, the paper's beside it; a panel a column."""
    rows, titles = summary.filled_rows(), filled_columns(summary)
    if not rows:
        return None
    width, height = 2.3 if len(titles) > 1 else COLUMN, 0.75 + 0.19 * len(rows)
    figure, axes = style.panels(len(titles), width=width, height=height, sharey=True)
    shades = colours(summary, rows)
    for axis, title in zip(axes, titles, strict=True):
        axis.set_title(title)
        axis.set_xlabel("test error, %")
        axis.grid(axis="y", visible=False)
        for place, row in enumerate(rows):
            axis.axhline(place, color=PALE, lw=0.5, zorder=0)
            _draw_error(axis, place, summary, (row, title), shades[row])
        axis.set_yticks(range(len(rows)), rows)
        axis.set_ylim(len(rows) - 0.4, -0.6)
        axis.margins(x=0.08)
    for tick, row in zip(axes[0].get_yticklabels(), rows, strict=True):
        tick.set_color(shades[row] if shades[row] != GREY else INK)
    has_paper = any(_comparable(summary, row, title) for row in rows for title in titles)
    figure.legend(handles=_error_key(has_paper), loc="outside lower center", ncols=3, handletextpad=0.3)
    return figure


def _draw_error(axis: Any, place: int, summary: Summary, cell: tuple[str, str], colour: str) -> None:
    estimate, figure = summary.estimate(*cell), _comparable(summary, *cell)
    if figure is not None:
        axis.plot(figure.mean, place, "D", mfc="white", mec=INK, mew=0.7, ms=3.6, zorder=4)
    if estimate is None:
        return
    if estimate.margin is not None:
        axis.plot(interval(estimate), [place, place], color=colour, lw=1.1, solid_capstyle="butt")
    axis.plot(estimate.values, [place + 0.27] * estimate.count, "o", color=colour, alpha=0.6, ms=1.8, mew=0)
    axis.plot(estimate.mean, place, "o", color=colour, ms=4.5)


def _comparable(summary: Summary, row: str, title: str) -> Figure | None:
    """The paper's figure, where the setting is the paper's; elsewhere it would only stretch the axis."""
    return summary.published(row, title) if summary.suite.scale == "paper" else None


def _error_key(has_paper: bool) -> list[Any]:
    lines = style.matplotlib().lines
    key = [
        lines.Line2D([], [], color=GREY, marker="o", ms=4.5, lw=1.1, label="mean, 95 % interval"),
        lines.Line2D([], [], color=GREY, marker="o", ms=1.8, mew=0, lw=0, label="one seed"),
    ]
    paper = lines.Line2D([], [], marker="D", mfc="white", mec=INK, mew=0.7, ms=3.6, lw=0, label="paper")
    return [*key, paper] if has_paper else key


def draw_ranking(summary: Summary) -> Any:
    """The critical-difference diagram of the rows that have a result in every column."""
    ranking, about = summary.ranking()
    if ranking is None or ranking.num_blocks < 2:
        return None
    return draw_ranks(ranking, about, colours(summary, ranking.names))


def draw_time(summary: Summary) -> Any:
    """Error against the seconds of training; a panel a column."""
    titles = filled_columns(summary)
    if not titles:
        return None
    figure, axes = style.panels(len(titles), width=COLUMN, height=2.5, most=2)
    shades = colours(summary, summary.rows)
    for axis, title in zip(axes, titles, strict=True):
        points = []
        for row in summary.filled_rows():
            if (estimate := summary.estimate(row, title)) is not None:
                seconds = Estimate(tuple(line["seconds"] for line in summary.of(row, title))).mean
                axis.plot(seconds, estimate.mean, "o", color=shades[row], ms=4.5)
                points.append((seconds, estimate.mean, row, shades[row] if shades[row] != GREY else INK))
        axis.set(xlabel="training, seconds", ylabel="test error, %", title=title)
        axis.set_xscale("log")
        _plain_ticks(axis)
        axis.margins(0.12)
        style.label_at_the_right(axis, points)
    return figure


def _plain_ticks(axis: Any) -> None:
    """Numbers on a logarithmic axis written out, few enough to be read."""
    ticker = style.matplotlib().ticker
    low, high = axis.get_xlim()
    narrow = high / low < 30
    axis.xaxis.set_major_locator(ticker.LogLocator(subs=(1, 2, 5) if narrow else (1,)))
    axis.xaxis.set_major_formatter(ticker.FuncFormatter(lambda value, _: f"{value:g}"))
    axis.xaxis.set_minor_formatter(ticker.NullFormatter())


def draw_curves(summary: Summary) -> Any:
    """The error of what was watched through training, mean over repetitions; a panel a column."""
    return _through_training(
        summary, lambda line: line["curve"] and (line["curve"]["step"], line["curve"]["error"]), "error, %"
    )


def _through_training(summary: Summary, read: Callable[[Line], Any], ylabel: str) -> Any:
    columns = [title for title in filled_columns(summary) if _any_curve(summary, title, read)]
    if not columns:
        return None
    figure, axes = style.panels(len(columns), width=COLUMN, height=2.5, most=2)
    shades = colours(summary, summary.rows)
    for axis, title in zip(axes, columns, strict=True):
        ends = []
        for row in summary.filled_rows():
            steps, means, lows, highs = mean_curve([read(line) for line in summary.of(row, title)])
            if steps:
                loud = shades[row] != GREY
                axis.plot(steps, means, color=shades[row], lw=1.5 if loud else 0.9, zorder=3 if loud else 2)
                axis.fill_between(steps, lows, highs, color=shades[row], alpha=0.15 if loud else 0.08, lw=0)
                ends.append((steps[-1], means[-1], row, shades[row] if loud else INK))
        watched = next(line["curve"]["on"] for row in summary.rows for line in summary.of(row, title))
        axis.set(xlabel="step", ylabel=f"{watched} {ylabel}", title=title)
        style.label_at_the_right(axis, ends)
    return figure


def _any_curve(summary: Summary, title: str, read: Callable[[Line], Any]) -> bool:
    return any(read(line) for row in summary.rows for line in summary.of(row, title))


def mean_curve(curves: Sequence[Any]) -> tuple[list[float], list[float], list[float], list[float]]:
    """Steps that all curves have, with mean, lowest and highest value there."""
    found = [dict(zip(*curve, strict=True)) for curve in curves if curve]
    found = [{step: value for step, value in curve.items() if value is not None} for curve in found]
    steps = sorted(set.intersection(*map(set, found))) if found else []
    values = [[curve[step] for curve in found] for step in steps]
    return steps, [sum(v) / len(v) for v in values], [min(v) for v in values], [max(v) for v in values]


def draw_deltas(summary: Summary) -> Any:
    """The size of the labeled and the unlabeled change through training; a panel a column."""
    rows = [row for row in summary.filled_rows() if _has_deltas(summary, row)]
    rows = [row for row in rows if highlighted(summary.suite, row)] or rows
    if not rows:
        return None
    titles = [title for title in filled_columns(summary) if any(summary.of(row, title) for row in rows)]
    figure, axes = style.panels(len(titles), width=COLUMN, height=2.4, most=2)
    shades = dict(zip(rows, cycle(SERIES), strict=False))
    for axis, title in zip(axes, titles, strict=True):
        ends = []
        for row in rows:
            for name, dashes in (("delta_x", "-"), ("delta_u", (0, (3, 1.5)))):
                traces = [line["traces"] for line in summary.of(row, title) if line["traces"].get(name)]
                steps, means, *_ = mean_curve([(trace["step"], trace[name]) for trace in traces])
                if steps:
                    axis.plot(steps, means, color=shades[row], linestyle=dashes, lw=1.2)
                    ends += [(steps[-1], means[-1], row, shades[row])] if name == "delta_x" else []
        axis.set(xlabel="step", ylabel="mean size of the change", title=title)
        axis.set_ylim(bottom=0)
        style.label_at_the_right(axis, ends)
    lines = style.matplotlib().lines
    key = [
        lines.Line2D([], [], color=GREY, label="labeled, $\\|\\Delta_L\\|$"),
        lines.Line2D([], [], color=GREY, ls=(0, (3, 1.5)), label="unlabeled, $\\|\\Delta_U\\|$"),
    ]
    figure.legend(handles=key, loc="outside lower center", ncols=2)
    return figure


def _has_deltas(summary: Summary, row: str) -> bool:
    return any(line["traces"].get("delta_x") for title in summary.columns for line in summary.of(row, title))


def draw_options(summary: Summary) -> Any:
    """Error over the values of each option that a row goes through; a panel an option and column."""
    rows = {name: row for name, row in summary.suite.rows.items() if row.each}
    titles = filled_columns(summary)
    if not rows or not titles:
        return None
    figure, axes = style.panels(len(rows) * len(titles), width=2.3, height=1.9, most=len(titles))
    places = [(name, title) for name in rows for title in titles]
    for axis, (name, title) in zip(axes, places, strict=True):
        option, values = next(iter(rows[name].each.items()))
        _draw_lines(axis, values, {"": [summary.estimate(f"{name} {value}", title) for value in values]})
        axis.set(xlabel=option.rpartition(".")[2].replace("_", " "), ylabel="test error, %", title=title)
    return figure


def draw_trend(summary: Summary) -> Any:
    """Error from column to column; a line a row."""
    rows, titles = summary.filled_rows(), filled_columns(summary)
    if not rows or len(titles) < 2:
        return None
    figure, (axis,) = style.panels(1, width=1.3 * COLUMN, height=2.7)
    _draw_lines(axis, titles, {row: [summary.estimate(row, title) for title in titles] for row in rows})
    axis.set_ylabel("test error, %")
    return figure


def _draw_lines(axis: Any, values: Sequence[Any], lines: dict[str, list[Estimate | None]]) -> None:
    """Lines with intervals over numbers (logarithmic if they span much) or words, named at their ends."""
    numeric = all(isinstance(value, int | float) for value in values)
    places = list(values) if numeric else list(range(len(values)))
    if numeric and min(places) > 0 and max(places) / min(places) > 20:
        axis.set_xscale("log")
    ends = []
    for index, (name, estimates) in enumerate(lines.items()):
        points = [(x, e) for x, e in zip(places, estimates, strict=True) if e is not None]
        if not points:
            continue
        colour, marker = SERIES[index % len(SERIES)], MARKERS[index % len(MARKERS)]
        axis.plot([x for x, _ in points], [e.mean for _, e in points], marker, ls="-", color=colour)
        for x, estimate in points:
            axis.plot([x, x], interval(estimate), color=colour, lw=0.8, alpha=0.6)
        ends += [(points[-1][0], points[-1][1].mean, name, colour)] if name else []
    axis.set_xticks(places, [f"{value:g}" if numeric else str(value) for value in values])
    axis.minorticks_off()
    axis.margins(x=0.06)
    style.label_at_the_right(axis, ends)


DRAWERS: dict[str, Draw] = {
    "errors": draw_errors,
    "ranks": draw_ranking,
    "time": draw_time,
    "curves": draw_curves,
    "deltas": draw_deltas,
    "options": draw_options,
    "trend": draw_trend,
}
