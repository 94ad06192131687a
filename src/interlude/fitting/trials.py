"""Held-out training: every candidate learns from the other labels and judges the images left out."""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from interlude.config import Config
from interlude.data import Split
from interlude.data.hold_out import hold_out
from interlude.fitting.candidates import Candidate
from interlude.fitting.folds import Folds, Rows
from interlude.fitting.probe import fit_probe
from interlude.fitting.verdict import HeldOut
from interlude.loop import fit
from interlude.method import find_method
from interlude.run import Run

Log = NDArray[np.float64]
Told = Callable[[int, int], None]  # the number of the run, counted from 0, and the steps it has made


@dataclass(frozen=True)
class Trial:
    """What one candidate said about the images that one fold of one repetition held out."""

    candidate: str
    repetition: int
    fold: int
    key: str  # what it was trained with; a trial of other settings does not count
    held: Rows  # rows of the labeled images
    log_probabilities: Log  # (n, K)

    def to_json(self) -> str:
        """One line."""
        values = vars(self) | {
            "held": self.held.tolist(),
            "log_probabilities": np.round(self.log_probabilities, 5).tolist(),
        }
        return json.dumps(values)

    @classmethod
    def from_json(cls, line: str) -> "Trial":
        """What `to_json` wrote."""
        values: dict[str, Any] = json.loads(line)
        held, logs = (
            np.array(values.pop("held"), np.int64),
            np.array(values.pop("log_probabilities"), np.float64),
        )
        return cls(**values, held=held, log_probabilities=logs)


class Trials:
    """The held-out runs of a fit, one line each in a file as they finish; a second start goes on."""

    def __init__(self, path: Path, split: Split, folds: Folds, configs: Mapping[Candidate, Config]) -> None:
        self.path, self.split, self.folds, self.configs = path, split, folds, configs
        self.done = {
            (t.candidate, t.repetition, t.fold): t for t in read(path) if t.key == self.key(t.candidate)
        }

    def key(self, name: str) -> str:
        """A fingerprint of the settings of a candidate; empty if there is no such candidate now."""
        found = [cfg for candidate, cfg in self.configs.items() if candidate.name == name]
        return f"{found[0].fingerprint()}-{self.split.record.split_hash}" if found else ""

    def run(
        self,
        repetitions: int,
        told: Told = lambda run, step: None,
        more: Callable[[int], bool] = lambda done: True,
    ) -> list[Trial]:
        """All trials, those that are not done yet made now; `told` hears of each step of those.

        `more` says whether, after so many folds, another one is wanted.
        """
        trials: list[Trial] = []
        for number, (candidate, repetition, fold, learned, held) in enumerate(self.wanted(repetitions)):
            done, others = divmod(number, len(self.configs))
            if not others and not more(done):
                break
            place = candidate.name, repetition, fold
            if place not in self.done or self.done[place].held.tolist() != held.tolist():
                heard = partial(told, number)
                heard(0)
                self.done[place] = self.trial(candidate, repetition, fold, learned, held, heard)
                append(self.path, self.done[place].to_json())
            trials.append(self.done[place])
        return trials

    def wanted(self, repetitions: int) -> Iterator[tuple[Candidate, int, int, Rows, Rows]]:
        """Fold by fold, so that a comparison can be made of what is there at any time."""
        for repetition in range(repetitions):
            for fold, (learned, held) in enumerate(self.folds.repetition(repetition)):
                for candidate in self.configs:
                    yield candidate, repetition, fold, learned, held

    def trial(
        self,
        candidate: Candidate,
        repetition: int,
        fold: int,
        learned: Rows,
        held: Rows,
        heard: Callable[[int], None],
    ) -> Trial:
        """Train on the labels of the rows `learned`, judge those of `held`; `heard` is told each step."""
        part = hold_out(self.split, torch.from_numpy(held), learned=torch.from_numpy(learned))
        cfg = replace(self.configs[candidate], seed=self.configs[candidate].seed + repetition)
        run = Run(cfg, part, find_method(cfg.method.name))
        run.prepare()
        if candidate.is_probe:
            fit_probe(run)
        else:
            fit(run, lambda: heard(run.step))
        assert part.validation is not None
        logs = run.predict(part.validation).double().clamp_min(1e-12).log()
        return Trial(candidate.name, repetition, fold, self.key(candidate.name), held, logs.numpy())


def read(path: Path) -> list[Trial]:
    """The finished trials in a file; a line that was being written when the process died is passed over."""
    if not path.exists():
        return []
    trials = []
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
        try:
            trials.append(Trial.from_json(line))
        except (ValueError, KeyError, TypeError, AttributeError, OverflowError):
            continue
    return trials


def append(path: Path, line: str) -> None:
    """Add a line, apart from one that a killed process left half written."""
    with path.open("a+b") as file:
        if file.tell() and path.read_bytes()[-1:] != b"\n":
            file.write(b"\n")
        file.write(line.encode() + b"\n")


def held_out(trials: list[Trial], labels: Rows, groups: NDArray[Any] | None) -> HeldOut:
    """For each candidate, how often each image was judged rightly; only images that all of them judged."""
    names = list(dict.fromkeys(trial.candidate for trial in trials))
    right = {name: np.zeros(len(labels)) for name in names}
    tries = {name: np.zeros(len(labels)) for name in names}
    for trial in trials:
        right[trial.candidate][trial.held] += trial.log_probabilities.argmax(1) == labels[trial.held]
        tries[trial.candidate][trial.held] += 1
    judged = np.flatnonzero(np.min(list(tries.values()), axis=0) > 0)
    shares = {name: right[name][judged] / tries[name][judged] for name in names}
    return HeldOut(labels[judged], None if groups is None else groups[judged], shares)


def predictions(trials: list[Trial], name: str) -> tuple[Rows, Log]:
    """The rows that a candidate judged while they were held out, and what it said, one line a try."""
    own = [trial for trial in trials if trial.candidate == name]
    return np.concatenate([t.held for t in own]), np.concatenate([t.log_probabilities for t in own])
