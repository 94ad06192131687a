"""The journal: means of terms, the first bad number, one line a step."""

import json

import pytest
import torch

from interlude.errors import NotFinite
from interlude.journal import Journal, Meter
from interlude.method import Objective


def objective(value):
    return Objective(supervised=torch.tensor(value), unlabeled=torch.tensor(1.0)).log(
        mask=torch.tensor([1.0, 0.0])
    )


def test_a_drain_gives_means_since_the_last_one():
    meter = Meter()
    meter.add(0, objective(1.0))
    meter.add(1, objective(3.0))
    expected = {"train/loss": 3.0, "train/supervised": 2.0, "train/unlabeled": 1.0, "mask": 0.5}
    assert meter.drain() == expected
    assert meter.drain() == {}


def test_the_first_step_and_term_that_is_no_number_are_named():
    meter = Meter()
    for step, value in enumerate([1.0, float("inf"), float("nan")], start=40):
        meter.add(step, objective(value))
    with pytest.raises(NotFinite, match="'supervised' became inf at step 41"):
        meter.drain()


def test_lines_carry_the_step(tmp_path):
    journal = Journal(tmp_path, step=0)
    journal.write(5, {"train/loss": 0.5})
    assert json.loads((tmp_path / "metrics.jsonl").read_text()) == {"step": 5, "train/loss": 0.5}


def test_a_resumed_journal_forgets_steps_that_were_not_saved_and_a_torn_line(tmp_path):
    (tmp_path / "metrics.jsonl").write_text('{"step": 1}\n{"step": 2}\n{"step": 3}\n{"ste')
    Journal(tmp_path, step=2).write(3, {"again": 1.0})
    lines = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    assert lines == [{"step": 1}, {"step": 2}, {"step": 3, "again": 1.0}]
