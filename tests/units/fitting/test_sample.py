"""Labels drawn at random among chosen ones: what is judged, what is said, and whether the number is true."""

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from interlude.config import Layer, resolve
from interlude.data import DataConfig, load
from interlude.data.hold_out import hold_out
from interlude.fitting.budget import Schedule
from interlude.fitting.candidates import Candidate
from interlude.fitting.compare import compare, folds_for
from interlude.fitting.folds import make_folds
from interlude.fitting.outcome import Outcome
from interlude.fitting.relations import heeded
from interlude.fitting.sample import basis, too_few
from interlude.fitting.trials import Trial, held_out, predictions
from interlude.fitting.verdict import HeldOut
from interlude.intervals import balanced_accuracy

TINY = {"data": "digits", "model": "cnn", "augment": "digits", "batch": 4, "mu": 1, "steps": 2, "threads": 1}
NAMES = tuple("0123456789")


def sides(count: int, random: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Numbers around -1 and 1, and which of both they are of: the nearer one is right for 84 of 100."""
    labels = random.integers(2, size=count)
    return random.normal(2 * labels - 1, 1), labels


def judged(values: np.ndarray, labels: np.ndarray, sampled: np.ndarray | None) -> HeldOut:
    """The nearest class mean by cross-validation."""
    trials = []
    for fold, (learned, held) in enumerate(make_folds(labels, sampled=sampled).repetition(0)):
        means = [values[learned][labels[learned] == label].mean() for label in (0, 1)]
        apart = np.abs(values[held][:, None] - np.array(means))
        trials.append(Trial("a", 0, fold, "key", held, -apart))
    return held_out(trials, labels, None)


def test_chosen_labels_flatter_the_number_and_a_sample_among_them_tells_the_truth() -> None:
    """Most of the labels are typical of their class, 20 drawn at random; the truth is 84 %."""
    random = np.random.default_rng(0)
    truth = 100 * 0.8413
    held = {"all": 0, "sample": 0}
    means = []
    for _ in range(40):
        values, labels = sides(400, random)
        typical = np.argsort(np.abs(np.abs(values) - 1) + 9 * (values * (2 * labels - 1) < 0))[:60]
        drawn = random.permutation(400)[:20]
        rows = np.union1d(typical, drawn)
        sampled = np.isin(rows, drawn)
        for name, mask in (("all", None), ("sample", sampled)):
            found = judged(values[rows], labels[rows], mask).accuracy("a")
            held[name] += found.low <= truth <= found.high
            if name == "sample":
                means.append(found.mean)
    assert held["sample"] >= 35
    assert held["all"] <= 15
    assert np.mean(means) == pytest.approx(truth, abs=4)


def test_a_number_says_what_it_rests_on() -> None:
    assert basis(np.array([0, 1, 1]), ["cat", "dog"]) == "judged on the 3 labels that were drawn at random"
    assert basis(np.array([0, 0, 2]), ["cat", "dog", "owl"]).endswith("none of them is of 'dog'")


@pytest.mark.parametrize(("number", "classes"), [(8, 2), (40, 10)])
def test_so_many_are_enough(number: int, classes: int) -> None:
    assert too_few(number, classes) == ""


def test_what_lacks_is_said_in_numbers() -> None:
    assert "label 8 more" in too_few(0, 0)
    assert "label 1 more" in too_few(7, 2)
    assert "one class" in too_few(20, 1)


@pytest.fixture
def split():
    made = load(DataConfig(name="digits"), labels=40, fold=0)
    sampled = torch.arange(40) % 2 == 0
    return replace(made, sampled=sampled)


@pytest.fixture
def configs():
    cfg = resolve([Layer("test", {**TINY, "method": "supervised"})])
    return {Candidate("method", "method", ""): cfg, Candidate("labels", "control", ""): cfg}


def test_everything_that_is_judged_is_of_the_sample(split, configs, tmp_path: Path) -> None:
    made = Schedule(2, 2, 1, "")
    found = compare(tmp_path / "cv.jsonl", split, configs, folds_for(split, made), made, quiet=True)
    rows, logs = predictions(found.trials, found.verdict.keep)
    assert sorted(rows) == list(range(0, 40, 2))
    labels = split.labeled.labels_of().numpy()
    right = (logs.argmax(1) == labels[rows]).astype(float)
    by_hand = balanced_accuracy(right, labels[rows])
    assert found.held_out.accuracy(found.verdict.keep) == by_hand
    assert found.basis.startswith("judged on the 20 labels that were drawn at random")
    assert told(found, split)["sampled"] == told(found, split)["images"] == 20


def told(found, split):
    made = Outcome("x", "", "", {}, [], [], found, split, None)
    return json.loads(json.dumps(made._crossed()))


def test_folds_that_were_not_run_can_leave_too_few_for_a_number(split, configs, tmp_path: Path) -> None:
    made = Schedule(2, 5, 1, "")
    path = tmp_path / "cv.jsonl"
    found = compare(
        path, split, configs, folds_for(split, made), made, more=lambda done: done < 1, quiet=True
    )
    assert (found.held_out, found.trials, found.verdict.outcome) == (None, [], "no estimate")
    assert "more of the random images" in told(found, split)["why_not"]


def test_a_table_without_the_column_is_judged_on_all_labels(split, configs, tmp_path: Path) -> None:
    made, split = Schedule(2, 2, 1, ""), replace(split, sampled=None)
    found = compare(tmp_path / "cv.jsonl", split, configs, folds_for(split, made), made, quiet=True)
    assert (len(found.held_out.labels), found.basis) == (40, "")
    assert told(found, split)["sampled"] is None


def test_the_sample_follows_the_labels_that_the_doctor_leaves(split) -> None:
    names = split.labeled.names_of()
    paths = names + [name for name in split.unlabeled.names_of() if name not in names]
    listing = SimpleNamespace(paths=paths, sampled=np.arange(len(paths)) % 2 == 0)
    diagnosis = SimpleNamespace(excluded={names[0]}, together=np.arange(len(paths)))
    left = heeded(split, listing, diagnosis)
    assert left.sampled.tolist() == [row % 2 == 0 for row in range(1, 40)]


def test_the_sample_of_a_part_is_that_of_its_labels(split) -> None:
    part = hold_out(split, torch.tensor([0, 1]), learned=torch.tensor([2, 3, 6]))
    assert part.sampled.tolist() == [True, False, True]
