"""Runs a cell again and says whether its stored result holds."""

from dataclasses import dataclass

from interlude.bench.record import figure_of
from interlude.bench.store import Line
from interlude.errors import UserError

TOLERANCE = 1.0  # points of error between machines or versions


@dataclass(frozen=True)
class Verdict:
    """Whether a result holds, and why."""

    holds: bool
    reasons: tuple[str, ...]


def find_line(lines: list[Line], name: str) -> Line:
    """The newest line whose id begins with `name`, if that is one cell's."""
    found = {line["id"]: line for line in lines if line["id"].startswith(name) and "model_hash" in line}
    if not found:
        raise UserError(f"no result has an id that begins with {name!r}; the ids are in results/*.jsonl")
    if len(found) > 1:
        raise UserError(f"{name!r} is ambiguous: {', '.join(sorted(found)[:5])}")
    return next(iter(found.values()))


def compare(stored: Line, again: Line, *, tolerance: float = TOLERANCE) -> Verdict:
    """The same split and an error within tolerance; the same bits where machine and version are the same."""
    before, now = figure_of(stored, "error"), figure_of(again, "error")
    difference = abs(now - before)
    same_split = again["split_hash"] == stored["split_hash"]
    changed = [key for key in ("machine", "threads", "version", "commit") if again[key] != stored[key]]
    same_bits = again["model_hash"] == stored["model_hash"]
    reasons = [
        f"split: {'the same' if same_split else 'another'}",
        f"error: {before:.2f} % stored, {now:.2f} % now "
        f"({difference:.2f} points apart, {tolerance:g} allowed)",
        f"weights: {'the same bits' if same_bits else 'other bits'}, "
        + (f"another {' and '.join(changed)}" if changed else "same machine and version"),
    ]
    clean = not changed and not str(stored["commit"]).endswith("-dirty")
    return Verdict(same_split and difference <= tolerance and (same_bits or not clean), tuple(reasons))
