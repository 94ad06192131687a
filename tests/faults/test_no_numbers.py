"""NaN in weights, data or loss: the run ends, names the step, and every checkpoint that is left is good."""

import pytest
import torch

from interlude import checkpoint

pytestmark = pytest.mark.slow

WEIGHTS = """
from interlude.optimizer import Optimizer

take = Optimizer.step

def spoil(self, step, *rest):
    take(self, step, *rest)
    if step == {step}:
        self.torch.param_groups[0]["params"][0].data.view(-1)[0] = float("nan")

Optimizer.step = spoil
"""
DATA = """
from interlude.run import Run

make = Run.batch

def spoil(self, step):
    batch = make(self, step)
    if step == {step}:
        batch.x[0][0, 0, 0, 0] = float("nan")
    return batch

Run.batch = spoil
"""
LOSS = """
from interlude import loop

make = loop.objectives

def spoil(run, batch):
    for objective in make(run, batch):
        if run.step == {step}:
            name = next(iter(objective.terms))
            objective.terms[name] = objective.terms[name] * float("nan")
        yield objective

loop.objectives = spoil
"""


@pytest.mark.parametrize(
    ("script", "step", "said"),
    [
        pytest.param(WEIGHTS, 9, "at step 10", id="weights"),
        pytest.param(WEIGHTS, 11, "by step 12", id="weights as they are saved"),
        pytest.param(DATA, 9, "at step 9", id="data"),
        pytest.param(LOSS, 9, "at step 9", id="loss"),
    ],
)
def test_the_run_ends_and_what_is_saved_is_good(here, script, step, said):
    outcome = here.train("--out", "run", script=script.format(step=step))
    assert outcome.code == 1
    assert f"became nan {said}" in outcome.message
    assert (
        "the last good checkpoint is of step 8 (run); a lower optimizer.rate is the usual cure"
        in outcome.message
    )
    for name, saved in (("last.pt", 8), ("previous.pt", 4)):
        state = checkpoint.read(here.folder / "run/checkpoints" / name)
        assert state["step"] == saved
        assert all(torch.isfinite(value).all() for value in state["method"].values())
    assert not (here.folder / "run/model.safetensors").exists()
