"""The comparison: every candidate on the same folds for the same number of steps, within the budget."""

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from interlude.config import Config
from interlude.data import Split
from interlude.fitting.budget import Schedule, schedule
from interlude.fitting.candidates import Candidate
from interlude.fitting.folds import Folds, make_folds
from interlude.fitting.trials import Trial, Trials, held_out
from interlude.fitting.verdict import HeldOut, Verdict, judge, no_estimate
from interlude.loop import fit
from interlude.method import find_method
from interlude.progress import Progress
from interlude.run import Run

PILOT = (3, 8)  # steps to warm up, steps to time
RESERVED = 0.9  # of the time there is, for training; evaluation and saving take the rest
PROBE_SECONDS = 5.0  # a regression in each fold


@dataclass(frozen=True)
class Comparison:
    """What the held-out runs showed."""

    folds: Folds
    schedule: Schedule
    trials: list[Trial]
    held_out: HeldOut | None
    verdict: Verdict


def plan_runs(
    configs: Mapping[Candidate, Config],
    split: Split,
    seconds: float,
    *,
    most_steps: int,
    repetitions: int | None = None,
) -> tuple[Folds, Schedule]:
    """The folds that labels and budget allow, and how many steps a run has."""
    folds = make_folds(split.labeled.labels_of().numpy(), groups_of(split))
    pace = {x.name: pace_of(cfg, split) for x, cfg in configs.items() if not x.is_probe}
    method = next(x for x in configs if x.kind == "method")
    made = schedule(
        RESERVED * seconds,
        pace,
        method=method.name,
        folds=folds.number,
        most_steps=most_steps,
        most_repetitions=repetitions,
        extra=PROBE_SECONDS if any(x.is_probe for x in configs) else 0.0,
    )
    return folds_for(split, made), made


def folds_for(split: Split, made: Schedule) -> Folds:
    """The folds of a schedule."""
    folds = make_folds(split.labeled.labels_of().numpy(), groups_of(split))
    return replace(folds, number=made.folds or folds.number)


def compare(
    path: Path,
    split: Split,
    configs: Mapping[Candidate, Config],
    folds: Folds,
    made: Schedule,
    *,
    quiet: bool = False,
) -> Comparison:
    """Train every candidate on the folds, keeping what is done in `path`, and judge."""
    method = next(x for x in configs if x.kind == "method")
    if not made.folds:
        return Comparison(folds, made, [], None, no_estimate(method.name, folds.why_not or made.why))
    trials = Trials(path, split, folds, configs)
    number = made.runs * len(configs)
    with Progress(f"{number} held-out runs", number * made.steps, quiet=quiet) as progress:

        def show(run: int, step: int) -> None:
            progress.show(run * made.steps + step, {"run": run + 1})

        done = trials.run(made.repetitions, show)
        progress.show(number * made.steps, {"run": number})
    found = held_out(done, split.labeled.labels_of().numpy(), groups_of(split))
    controls = [x.name for x in configs if x.kind == "control"]
    return Comparison(folds, made, done, found, judge(found, method.name, controls))


def pace_of(cfg: Config, split: Split) -> float:
    """Seconds of a step, from a few."""
    first, timed = PILOT
    run = Run(replace(cfg, steps=first + timed, labels_first=0), split, find_method(cfg.method.name))
    run.prepare()
    moments: list[float] = []
    fit(run, lambda: moments.append(time.perf_counter()))
    return (moments[-1] - moments[first - 1]) / timed


def shortened(cfg: Config, steps: int) -> Config:
    """The settings for so many steps: shares of a run stay shares."""
    first = min(round(cfg.labels_first * steps / cfg.steps), steps - 1)
    every = max(1, steps // 10)
    return replace(cfg, steps=steps, labels_first=first, eval_every=every, save_every=every)


def groups_of(split: Split) -> NDArray[Any] | None:
    """The group of each labeled image; one that stands alone is a group of its own."""
    if split.groups is None:
        return None
    groups = split.groups.labeled.numpy().copy()
    alone = groups < 0
    groups[alone] = -1 - np.arange(int(alone.sum()))
    return np.asarray(groups)
