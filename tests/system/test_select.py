"""`--select validation`: the weights that did best on validation images count in the end."""

import json

import torch

from interlude import checkpoint, data
from interlude.config import Layer, resolve
from interlude.method import find_method
from interlude.run import Run, settle

SELECT = ["--select", "validation", "--data.validation", "0.1", "--eval-every", "2"]
FAST = ["--steps", "12", "--optimizer.rate", "0.5", "--ema.decay", "0"]  # so fast that it goes up and down


def scores(folder):
    """The watched balanced accuracy by step."""
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return {
        line["step"]: line["validation/balanced_accuracy"]
        for line in lines
        if "validation/balanced_accuracy" in line
    }


def test_the_first_of_the_best_weights_count(train, tmp_path):
    outcome = train(*SELECT, *FAST, "--out", "run")
    assert outcome.code == 0, outcome.err
    seen = scores(tmp_path / "run")
    best = max(seen, key=seen.get)
    assert list(seen) == [2, 4, 6, 8, 10, 12]
    assert best < 12, "choose another rate: the last weights are the best, and nothing is tested"
    summary = json.loads((tmp_path / "run/summary.json").read_text())
    assert summary["selected_step"] == best
    assert summary["validation"]["balanced_accuracy"] == seen[best]
    assert f"averaged weights of step {best}, best on validation" in outcome.out


def test_the_saved_model_is_the_one_that_counts(train, interlude, tmp_path):
    assert train(*SELECT, *FAST, "--out", "run").code == 0
    summary = json.loads((tmp_path / "run/summary.json").read_text())
    judged = json.loads(interlude("evaluate", "run", "--json").out)
    assert judged["test"]["balanced_accuracy"] == summary["test"]["balanced_accuracy"]


def test_without_it_the_last_weights_count(train, tmp_path):
    outcome = train("--data.validation", "0.1", "--eval-every", "2", *FAST, "--out", "run")
    summary = json.loads((tmp_path / "run/summary.json").read_text())
    assert summary["selected_step"] == summary["steps"] == 12
    assert summary["validation"]["balanced_accuracy"] == scores(tmp_path / "run")[12]
    assert "last averaged weights" in outcome.out


def make_run():
    settings = {
        "data": {"name": "digits", "validation": 0.1},
        "labels": 20,
        "batch": 4,
        "select": "validation",
    }
    cfg = settle(resolve([Layer("test", settings)]))
    split = data.load(cfg.data, labels=cfg.labels, fold=0)
    return Run(cfg, split, find_method(cfg.method.name))


def test_the_best_so_far_survives_a_checkpoint(tmp_path):
    run, resumed = make_run(), make_run()
    run.step = 4
    run.consider(50.0)
    with torch.no_grad():
        for parameter in run.ema.parameters():
            parameter.add_(1)
    run.step = 8
    run.consider(50.0)  # not better: the earlier ones stay
    checkpoint.save(tmp_path, run.state())
    state, _ = checkpoint.load(tmp_path)
    resumed.load(state)
    assert resumed.take_best() == run.take_best() == 4
    assert all(
        torch.equal(mine, theirs)
        for mine, theirs in zip(resumed.ema.parameters(), run.ema.parameters(), strict=True)
    )


def test_the_interval_of_looking_cannot_change_on_resume(train, tmp_path):
    assert train(*SELECT, "--steps", "2", "--out", "run").code == 0
    outcome = train(*SELECT[:-1], "1", "--steps", "2", "--out", "run", "--resume")
    assert outcome.code == 2
    assert "was started with eval_every = 2, not 1" in outcome.err


def test_it_needs_validation_images(train):
    outcome = train("--select", "validation", "--out", "run")
    assert outcome.code == 2
    assert "select=validation needs validation images" in outcome.err
