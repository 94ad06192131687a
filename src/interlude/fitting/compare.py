"""The comparison: every candidate on the same folds for the same number of steps, within the budget."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from interlude.config import Config
from interlude.data import Split
from interlude.fitting.budget import Schedule, schedule
from interlude.fitting.candidates import Candidate
from interlude.fitting.folds import Folds, make_folds, possible
from interlude.fitting.sample import basis, too_few
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
    basis: str = ""  # which labels were judged, where not all were


def plan_runs(
    configs: Mapping[Candidate, Config],
    split: Split,
    seconds: float,
    *,
    most_steps: int,
    repetitions: int | None = None,
) -> tuple[Folds, Schedule]:
    """The folds that labels and budget allow, and how many steps a run has."""
    folds, began = possible_folds(split), time.perf_counter()
    paces = {x.name: pace_of(cfg, split) for x, cfg in configs.items() if not x.is_probe}
    method, probed = next(x for x in configs if x.kind == "method"), any(x.is_probe for x in configs)
    made = schedule(
        RESERVED * (seconds - (time.perf_counter() - began)),
        {name: pace.step for name, pace in paces.items()},
        method=method.name,
        folds=folds.number,
        most_steps=most_steps,
        most_repetitions=repetitions,
        extra=sum(pace.start for pace in paces.values()) + (PROBE_SECONDS if probed else 0.0),
        beside=min(pace.step for pace in paces.values()) if probed else 0.0,  # a head on labels alone
    )
    return folds_for(split, made), made


def folds_for(split: Split, made: Schedule) -> Folds:
    """The folds of a schedule."""
    folds = possible_folds(split)
    return possible(replace(folds, number=made.folds or folds.number))


def possible_folds(split: Split) -> Folds:
    """The folds that the labels allow."""
    sampled = None if split.sampled is None else split.sampled.numpy()
    return make_folds(split.labeled.labels_of().numpy(), groups_of(split), sampled)


def compare(
    path: Path,
    split: Split,
    configs: Mapping[Candidate, Config],
    folds: Folds,
    made: Schedule,
    *,
    more: Callable[[int], bool] = lambda done: True,
    quiet: bool = False,
) -> Comparison:
    """Train every candidate on the folds, keeping what is done in `path`, and judge.

    `more` is asked before each fold; its no ends the comparison with those that are done.
    """
    method = next(x for x in configs if x.kind == "method")
    if not made.folds or folds.why_not:
        return Comparison(folds, made, [], None, no_estimate(method.name, folds.why_not or made.why))
    trials = Trials(path, split, folds, configs)
    planned = min(made.runs, len(list(trials.wanted(made.repetitions))) // len(configs))
    number = planned * len(configs)
    with Progress(f"{number} held-out runs", number * made.steps, quiet=quiet) as progress:

        def show(run: int, step: int) -> None:
            progress.show(run * made.steps + step, {"run": run + 1})

        done = trials.run(made.repetitions, show, more)
        progress.show(len(done) * made.steps, {"run": len(done)})
    if len(done) < number:
        repetitions = done[-1].repetition + 1
        made = made.ended_after(len(done) // len(configs), of=planned, repetitions=repetitions)
    found = held_out(done, split.labeled.labels_of().numpy(), groups_of(split))
    controls = [x.name for x in configs if x.kind == "control"]
    if split.sampled is None:
        return Comparison(folds, made, done, found, judge(found, method.name, controls))
    if why := too_few(len(found.labels), len(np.unique(found.labels))):  # where not all folds were run
        return Comparison(replace(folds, why_not=why), made, [], None, no_estimate(method.name, why))
    verdict = judge(found, method.name, controls)
    return Comparison(folds, made, done, found, verdict, basis(found.labels, split.class_names))


class Pace(NamedTuple):
    """Seconds of a step, and before the first."""

    step: float
    start: float


def pace_of(cfg: Config, split: Split) -> Pace:
    """How fast a candidate trains, from a few steps."""
    first, timed = PILOT
    began = time.perf_counter()
    run = Run(replace(cfg, steps=first + timed, labels_first=0), split, find_method(cfg.method.name))
    run.prepare()
    moments = [time.perf_counter()]
    fit(run, lambda: moments.append(time.perf_counter()))
    return Pace((moments[-1] - moments[first]) / timed, moments[0] - began)


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
