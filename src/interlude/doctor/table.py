"""A diagnosis as a person reads it in a terminal."""

from collections.abc import Iterator, Mapping

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from interlude.data.problem import shown
from interlude.doctor.diagnosis import LABELED, ROLES, TEST, VALIDATION, Diagnosis, Finding, files

FILES = 3  # named with a finding
CLASSES = 20  # rows of the table of classes
WIDTH = 110  # where there is no terminal to ask
STYLES = {"stop": "bold red", "warn": "yellow", "note": "cyan"}


def render(diagnosis: Diagnosis, console: Console | None = None) -> None:
    """Print a diagnosis."""
    console = console or Console(highlight=False)
    if not console.is_terminal:
        console.width = WIDTH
    console.print(Text(summary(diagnosis)))
    if diagnosis.classes:
        console.print(class_table(diagnosis.classes))
    if diagnosis.findings:
        console.print(finding_table(diagnosis.findings))
    console.print(Text(ending(diagnosis)))


def summary(diagnosis: Diagnosis) -> str:
    """How many images there are, in one line."""
    parts = ", ".join(f"{count:,} {role}" for role, count in diagnosis.roles.items() if count)
    classes = files(len(diagnosis.classes), "class")
    return f"{shown(diagnosis.folder)}: {files(diagnosis.images)}, {classes}; readable: {parts or 'none'}"


def class_table(classes: Mapping[str, Mapping[str, int]]) -> Table:
    """Images of each class, in as many columns as have any."""
    roles = [ROLES[role] for role in (LABELED, VALIDATION, TEST)]
    used = [
        role for role in roles if role == ROLES[LABELED] or any(counts[role] for counts in classes.values())
    ]
    table = Table("class", box=None, pad_edge=False)
    for role in used:
        table.add_column(role, justify="right")
    for name, counts in list(classes.items())[:CLASSES]:
        table.add_row(Text(shown(name)), *(f"{counts[role]:,}" for role in used))
    if len(classes) > CLASSES:
        table.add_row(f"... and {len(classes) - CLASSES:,} more")
    return table


def finding_table(findings: tuple[Finding, ...]) -> Table:
    """Findings, each with what to do about it and its first files."""
    table = Table("", "what was found, and what to do", show_lines=True)
    for finding in findings:
        advice = Text.assemble(("-> ", "bold"), shown(finding.do))
        table.add_row(
            Text(finding.severity, style=STYLES[finding.severity]),
            Group(Text(shown(finding.says)), advice, *examples(finding)),
        )
    return table


def examples(finding: Finding) -> Iterator[RenderableType]:
    """The first files of a finding, a line each; copies of each other in one line."""
    details = finding.details or {}

    def named(path: str) -> str:
        return f"{shown(path)} ({shown(details[path])})" if path in details else shown(path)

    lines = [" = ".join(map(named, one[:FILES])) + more(len(one)) for one in finding.sets[:FILES]]
    lines = lines or list(map(named, finding.files[:FILES]))
    if not finding.files and finding.count > 1:
        lines = [shown(detail) for detail in "; ".join(details.values()).split("; ")[:FILES]]
    for line in lines:
        yield Text(f"  {line}", style="dim")
    left = (len(finding.sets) or len(finding.files)) - FILES
    if left > 0:
        yield Text(f"  and {left:,} more", style="dim")


def more(count: int) -> str:
    """What follows the first files of a set."""
    return f" = {count - FILES:,} more" if count > FILES else ""


def ending(diagnosis: Diagnosis) -> str:
    """What it comes to."""
    left_out = (
        f" {files(len(diagnosis.excluded), 'file')} will be left out of training."
        if diagnosis.excluded
        else ""
    )
    if not diagnosis.findings:
        return "Nothing odd was found."
    if not diagnosis.stops:
        return f"Nothing here stops training.{left_out}"
    those = "it" if len(diagnosis.stops) == 1 else "them"
    return f"{files(len(diagnosis.stops), 'finding')} would stop training; correct {those} first.{left_out}"
