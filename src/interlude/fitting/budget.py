"""Time as people write it, and how much training it buys."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from interlude.errors import UserError

UNITS = {"h": 3600, "m": 60, "s": 1}
_TIME = re.compile(r"(?:(\d+(?:\.\d+)?)h)?(?:(\d+(?:\.\d+)?)m(?:in)?)?(?:(\d+(?:\.\d+)?)s)?")

FEWEST_STEPS = 100  # below, a run says nothing
WORTHWHILE = 300  # steps below which fewer folds are better than shorter runs
MOST_REPETITIONS = 4
FEWEST_PARTS = 2  # of the labels, held out in turn, for which an estimate is worth a longer time
OVERRUN = 0.5  # of the budget that these may take beyond it
TOLERATED = 0.1  # of the budget: what is not worth a word
TOO_SHORT = "runs this short may not do the method justice: with a longer --budget the verdict may change"


def parse_time(text: str) -> float:
    """Seconds of `90s`, `10m`, `1h30m`."""
    match = _TIME.fullmatch(text.strip().replace(" ", "").lower())
    numbers = match.groups() if match else ()
    if not any(numbers):
        raise UserError(f"cannot read the time {text!r}; write it as 90s, 10m or 1h30m")
    seconds = sum(float(number or 0) * unit for number, unit in zip(numbers, UNITS.values(), strict=True))
    if seconds <= 0:
        raise UserError(f"a budget must be longer than {text!r}")
    return seconds


def show_time(seconds: float) -> str:
    """`45 s`, `3.5 min`, `1.2 h`."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.3g} min" if seconds < 5400 else f"{seconds / 3600:.3g} h"


@dataclass(frozen=True)
class Schedule:
    """How long each run trains, and how often the labels are parted into folds; no folds: no estimate."""

    steps: int
    folds: int
    repetitions: int
    why: str
    short: bool = False  # whether a longer budget would have bought runs that do the method more justice
    final: float = 0.5  # how long the last run takes, beside the runs of all candidates on one fold
    parts: int | None = None  # held-out runs of each candidate where time did not allow all
    note: str = ""  # a sentence about those left out

    @property
    def runs(self) -> int:
        """Held-out runs of each candidate."""
        return self.folds * self.repetitions if self.parts is None else self.parts

    def ended_after(self, runs: int, *, of: int, repetitions: int) -> "Schedule":
        """The schedule of which time allowed so many of the held-out runs, and so many repetitions."""
        words = f"{of - runs} of {of} held-out runs of each candidate were left out"
        note = f"{words}: this machine became slower than it was at first, and the budget is kept"
        return replace(self, repetitions=repetitions, parts=runs, note=note)


class Patience:
    """Whether another fold is held out: a planned one, if it and the final run end in time at the last pace.

    `left` says how many seconds there are; the first folds may take `beyond` seconds more.
    """

    def __init__(self, made: Schedule, left: Callable[[], float], beyond: float = 0.0) -> None:
        self.made, self.left, self.beyond = made, left, beyond
        self.before = left()

    def __call__(self, done: int) -> bool:
        left = self.left()
        last, self.before = self.before - left, left
        if done == 0 or done >= self.made.runs:
            return done < self.made.runs
        allowed = left + self.beyond if done < FEWEST_PARTS else left
        return last * (1 + self.made.final) <= allowed


def overrun(seconds: float, budget: float, parts: Mapping[str, float]) -> str:
    """A sentence where it took longer than it may; else nothing."""
    if seconds <= (1 + TOLERATED) * budget:
        return ""
    longest = sorted(parts, key=lambda name: -parts[name])[:2]
    most = " and ".join(f"{name.replace('_', ' ')} {show_time(parts[name])}" for name in longest)
    return f"it took {show_time(seconds)} of a budget of {show_time(budget)} (most of it: {most})"


def schedule(
    seconds: float,
    pace: Mapping[str, float],
    *,
    method: str,
    folds: int,
    most_steps: int,
    extra: float = 0.0,
    beside: float = 0.0,
    most_repetitions: int | None = None,
) -> Schedule:
    """What fits into `seconds`, given the seconds of a step of each candidate, `method` the dearest.

    Every candidate trains as many steps as the final model, for each of which `beside` seconds are added.
    `extra` seconds go to what a held-out run of all candidates needs besides, and the last run too. Fewer
    folds come before runs that are too short, repetitions last.
    """
    held_out, final = sum(pace.values()), pace[method] + beside

    def affordable(parts: int) -> int:
        return int((seconds - (parts + 1) * extra) / (parts * held_out + final))

    for number in range(folds, 1, -1):
        steps = min(most_steps, affordable(number))
        if steps >= min(WORTHWHILE, most_steps) or (number == 2 and steps >= FEWEST_STEPS):
            break
    else:
        needed = 3 * extra + FEWEST_STEPS * (2 * held_out + final)
        why = one_run(seconds, needed) if folds >= 2 else "nothing can be held out"
        return Schedule(min(most_steps, max(FEWEST_STEPS, affordable(0))), 0, 0, why)
    repetitions = 1
    while (
        repetitions < (most_repetitions or MOST_REPETITIONS)
        and affordable(number * (repetitions + 1)) >= most_steps
    ):
        repetitions += 1
    made = Schedule(steps, number, repetitions, "", short=steps < min(WORTHWHILE, most_steps))
    made = replace(made, final=(steps * final + extra) / (steps * held_out + extra))
    why = f"{show_time(seconds)} at {1000 * pace[method]:.0f} ms a step, {made.runs} held-out runs of each"
    return replace(made, why=why + (f"; {TOO_SHORT}" if made.short else ""))


def one_run(seconds: float, needed: float) -> str:
    """Why nothing is held out in so short a time."""
    left, wanted = show_time(max(0.0, seconds)), show_time(needed)
    return f"{left} are left, for one run only; an estimate takes {wanted}"
