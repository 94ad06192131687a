"""SIGKILL at random moments: the run always goes on, and ends with the weights of one that nobody killed."""

import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))
from endurance import Endurance

pytestmark = pytest.mark.slow


def test_a_run_killed_at_ten_moments_loses_nothing(tmp_path):
    found = Endurance(tmp_path, kills=10, seed=1).endure()
    assert (found["survived"], found["lost"]) == (10, 0)
    assert found["moments"].keys() == {"start", "step", "write", "end"}
    assert found["same_bits"]
    assert found["journal_has_each_step_once"]
