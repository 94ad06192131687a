"""Time as people write it, and how much training it buys."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

from interlude.errors import UserError

UNITS = {"h": 3600, "m": 60, "s": 1}
_TIME = re.compile(r"(?:(\d+(?:\.\d+)?)h)?(?:(\d+(?:\.\d+)?)m(?:in)?)?(?:(\d+(?:\.\d+)?)s)?")

FEWEST_STEPS = 100  # below, a run says nothing
WORTHWHILE = 300  # steps below which fewer folds are better than shorter runs
MOST_REPETITIONS = 4
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

    @property
    def runs(self) -> int:
        """Held-out runs of each candidate."""
        return self.folds * self.repetitions


def schedule(
    seconds: float,
    pace: Mapping[str, float],
    *,
    method: str,
    folds: int,
    most_steps: int,
    extra: float = 0.0,
    most_repetitions: int | None = None,
) -> Schedule:
    """What fits into `seconds`, given the seconds of a step of each candidate, `method` the dearest.

    Every candidate trains as many steps as the final model. `extra` seconds go to what a held-out run of
    all candidates needs besides. Fewer folds come before runs that are too short, repetitions last.
    """
    held_out = sum(pace.values())

    def affordable(parts: int) -> int:
        return int((seconds - parts * extra) / (parts * held_out + pace[method]))

    for number in range(folds, 1, -1):
        steps = min(most_steps, affordable(number))
        if steps >= min(WORTHWHILE, most_steps) or (number == 2 and steps >= FEWEST_STEPS):
            break
    else:
        steps = min(most_steps, int(seconds / pace[method]))
        why = "nothing can be held out"
        if folds >= 2:
            needed = 2 * extra + FEWEST_STEPS * (2 * held_out + pace[method])
            why = f"{show_time(seconds)} are enough for one run only; an estimate takes {show_time(needed)}"
        return Schedule(max(FEWEST_STEPS, steps), 0, 0, why)
    repetitions = 1
    while (
        repetitions < (most_repetitions or MOST_REPETITIONS)
        and affordable(number * (repetitions + 1)) >= most_steps
    ):
        repetitions += 1
    made = Schedule(steps, number, repetitions, "", short=steps < min(WORTHWHILE, most_steps))
    why = f"{show_time(seconds)} at {1000 * pace[method]:.0f} ms a step, {made.runs} held-out runs of each"
    return replace(made, why=why + (f"; {TOO_SHORT}" if made.short else ""))
