"""The table of a suite as Markdown, CSV and LaTeX: our figures, the published ones beside them."""

import csv
import io
from collections.abc import Sequence
from itertools import product
from pathlib import Path

from interlude.bench.published import Figure, published
from interlude.bench.statistics import Estimate
from interlude.bench.store import Line
from interlude.bench.summary import Summary

HEAD = ["row", "column", "runs", "mean", "std", "low95", "high95", "best_on_test", "seconds", "published"]
HEAD += ["published_spread", "published_source"]
HEAD += ["against", "difference", "difference_low95", "difference_high95"]


def write_tables(summary: Summary, folder: Path) -> list[Path]:
    """Write all three forms; the paths."""
    folder.mkdir(parents=True, exist_ok=True)
    stem = f"{summary.suite.name}-{summary.suite.scale}"
    written = []
    for ending, text in (("md", markdown(summary)), ("csv", as_csv(summary)), ("tex", latex(summary))):
        path = folder / f"{stem}.{ending}"
        path.write_text(text, encoding="utf-8")
        written.append(path)
    return written


def markdown(summary: Summary) -> str:
    """The table, how it was made, average ranks and sources."""
    parts = [f"# {summary.suite.title_of_scale}", _grid(summary), _caption(summary)]
    more = (_differences, _ranks, _fused, _notes, _sources)
    parts += [text for part in more if (text := part(summary))]
    return "\n\n".join(parts) + "\n"


def _grid(summary: Summary) -> str:
    """One line a row; a column of the paper's figures beside each of ours that has one."""
    heads, cells = [""], {row: [row] for row in _shown_rows(summary)}
    for title in summary.columns:
        heads.append(title)
        for row in cells:
            cells[row].append(_ours(summary, row, title))
        if any(summary.published(row, title) for row in cells):
            heads.append("paper")
            for row in cells:
                cells[row].append(_theirs(summary.published(row, title)))
    lines = [heads, ["---"] + ["---:"] * (len(heads) - 1), *cells.values()]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _shown_rows(summary: Summary) -> list[str]:
    """Rows with a result or a published figure."""
    return [
        row
        for row in summary.rows
        if any(summary.of(row, title) or summary.published(row, title) for title in summary.columns)
    ] or list(summary.rows)


def _ours(summary: Summary, row: str, title: str) -> str:
    estimate = summary.estimate(row, title)
    if estimate is None:
        return ""
    text = f"{estimate.mean:.2f}"
    if estimate.mean == summary.best(title):
        text = f"**{text}**"
    if estimate.std is not None and estimate.margin is not None:
        low, high = interval(estimate)
        text += f" ± {estimate.std:.2f} ({low:.2f} to {high:.2f})"
    missing = len(summary.suite.seeds) - estimate.count
    return text + (f" [{estimate.count} of {estimate.count + missing}]" if missing > 0 else "")


def interval(estimate: Estimate) -> tuple[float, float]:
    """The 95 % interval of the mean, cut at the ends that an error can have."""
    low, high = estimate.interval or (estimate.mean, estimate.mean)
    return max(0.0, low), min(100.0, high)


def _theirs(figure: Figure | None) -> str:
    return f"{figure.mean:.2f} ± {figure.spread:.2f}" if figure else ""


def _caption(summary: Summary) -> str:
    lines = [line for runs in summary.runs.values() for line in runs]
    seconds = sum(line["seconds"] for line in lines)
    repeats = max((len(runs) for runs in summary.runs.values()), default=0)
    text = (
        f"Test error in percent of {_weights(lines)}: mean ± standard deviation (95 % interval by "
        f"Student's t) over at most {repeats} repetitions; the lowest mean of a column is bold. "
        f"{len(lines)} runs, {seconds / 3600:.2f} hours of training in all."
    )
    if summary.suite.published:
        table = published(summary.suite.published)
        text += f" Paper: {table.title}, {table.unit}, ± is {table.spread}."
    machines = sorted({f"{line['machine']}, {line['threads']} threads" for line in lines})
    versions = sorted({f"{line['version']} ({line['commit']})" for line in lines})
    return text + (f"\n\nMachine: {'; '.join(machines)}. Version: {', '.join(versions)}." if lines else "")


def _weights(lines: Sequence[Line]) -> str:
    chosen = any("error_selected" in line for line in lines)
    return "the averaged weights best on validation" if chosen else "the last averaged weights"


def _differences(summary: Summary) -> str:
    """Each row less the row that it is compared with, repetition by repetition."""
    lines = []
    for row, other in summary.against.items():
        differences = [summary.difference(row, title) for title in summary.columns]
        if any(differences):
            lines.append("| " + " | ".join([row, other, *map(_points, differences)]) + " |")
    if not lines:
        return ""
    about = (
        "Error less the error of another row with the same labels and seed, in points: mean (95 % interval "
        "by Student's t) over the repetitions that both have. Below zero is better."
    )
    head = ["| " + " | ".join(["row", "less", *summary.columns]) + " |"]
    head.append("|---|---|" + "---:|" * len(summary.columns))
    return f"## Differences\n\n{about}\n\n" + "\n".join(head + lines)


def _points(difference: Estimate | None) -> str:
    if difference is None:
        return ""
    text = f"{difference.mean:+.2f}"
    if difference.interval is None:
        return text
    low, high = difference.interval
    return f"{text} ({low:+.2f} to {high:+.2f})"


def _ranks(summary: Summary) -> str:
    ranking, about = summary.ranking()
    if ranking is None or len(summary.columns) < 2:
        return ""
    ordered = sorted(zip(ranking.ranks, ranking.names, strict=True))
    lines = ["| average rank | row |", "|---:|---|", *(f"| {rank:.2f} | {name} |" for rank, name in ordered)]
    return "\n".join(lines) + (
        f"\n\nRanks over {ranking.num_blocks} blocks ({about}). Friedman: chi-square "
        f"{ranking.chi_square:.2f}, p = {ranking.probability:.3g}; critical difference (Nemenyi, 5 %) "
        f"{ranking.critical_difference:.2f}."
    )


def _fused(summary: Summary) -> str:
    """Errors with test images fused with each other, where they were measured."""
    orders = ("alone", "stored", "shuffled", "sorted")
    lines = []
    for row, column in product(summary.rows, summary.suite.columns):
        measured = [run["fused"] for run in summary.runs.get((row, column), ()) if run.get("fused")]
        if measured:
            means = [f"{Estimate(tuple(each[order] for each in measured)).mean:.2f}" for order in orders]
            lines.append("| " + " | ".join([row, column, *means]) + " |")
    if not lines:
        return ""
    head = (
        "| row | column | not fused | fused, order as stored | shuffled | sorted by class |\n|---|---|"
        + "---:|" * 4
    )
    about = (
        "Test error with each test image fused with the next one of a batch of 128, as the released code "
        "does. Sorted by class, the neighbour gives the label away."
    )
    return f"## Fusion at evaluation\n\n{about}\n\n" + "\n".join([head, *lines])


def _notes(summary: Summary) -> str:
    return "\n".join(f"- {note}" for note in summary.notes)


def _sources(summary: Summary) -> str:
    if summary.suite.published is None:
        return ""
    table = published(summary.suite.published)
    by_source: dict[str, list[str]] = {}
    for row in table.rows:
        by_source.setdefault(table.source(row), []).append(row)
    lines = [f"- {', '.join(rows)}: {source}" for source, rows in by_source.items()]
    return "\n".join(["## Where the paper's figures come from", "", *lines])


def as_csv(summary: Summary) -> str:
    """One line a cell, with everything."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(HEAD)
    for row in summary.rows:
        for title in summary.columns:
            estimate, figure = summary.estimate(row, title), summary.published(row, title)
            if estimate or figure:
                ours, theirs = _numbers(summary, row, title, estimate), figure or ("", "", "")
                writer.writerow([row, title, *ours, *theirs, *_compared(summary, row, title)])
    return text.getvalue()


def _numbers(summary: Summary, row: str, title: str, estimate: Estimate | None) -> Sequence[object]:
    if estimate is None:
        return [0, "", "", "", "", "", ""]
    runs = summary.of(row, title)
    low, high = interval(estimate) if estimate.margin is not None else (None, None)
    best = [run["error_best_on_test"] for run in runs if run["error_best_on_test"] is not None]
    shown = [estimate.mean, estimate.std, low, high, Estimate(tuple(best)).mean if best else None]
    seconds = Estimate(tuple(run["seconds"] for run in runs)).mean
    return [estimate.count, *("" if value is None else f"{value:.4f}" for value in shown), f"{seconds:.1f}"]


def _compared(summary: Summary, row: str, title: str) -> Sequence[str]:
    difference = summary.difference(row, title)
    if difference is None:
        return ["", "", "", ""]
    ends = ["", ""] if difference.interval is None else [f"{end:.4f}" for end in difference.interval]
    return [summary.against[row], f"{difference.mean:.4f}", *ends]


def latex(summary: Summary) -> str:
    """A booktabs table: our figures, and the published ones in grey below them."""
    lines = [
        "% needs \\usepackage{booktabs,xcolor}",
        "\\begin{tabular}{l" + "r" * len(summary.columns) + "}",
        "\\toprule",
        " & ".join(["", *map(_escape, summary.columns)]) + " \\\\",
        "\\midrule",
    ]
    for row in _shown_rows(summary):
        ours = [_latex_ours(summary, row, title) for title in summary.columns]
        lines.append(" & ".join([_escape(row), *ours]) + " \\\\")
        theirs = [summary.published(row, title) for title in summary.columns]
        if any(theirs):
            lines.append(" & ".join(["", *map(_latex_theirs, theirs)]) + " \\\\")
    return "\n".join([*lines, "\\bottomrule", "\\end{tabular}"]) + "\n"


def _latex_ours(summary: Summary, row: str, title: str) -> str:
    estimate = summary.estimate(row, title)
    if estimate is None:
        return "--"
    text = f"{estimate.mean:.2f}"
    if estimate.mean == summary.best(title):
        text = f"\\textbf{{{text}}}"
    return text + (f" {{\\scriptsize$\\pm${estimate.std:.2f}}}" if estimate.std is not None else "")


def _latex_theirs(figure: Figure | None) -> str:
    if figure is None:
        return ""
    return f"\\textcolor{{gray}}{{\\scriptsize {figure.mean:.2f}$\\pm${figure.spread:.2f}}}"


def _escape(text: str) -> str:
    for sign in "&%_#":
        text = text.replace(sign, f"\\{sign}")
    return text
