"""A clock that is set back again and again: nothing is measured or decided by it."""

import json

import pytest

from runs import final_bits

pytestmark = pytest.mark.slow

# every look at the clock of the wall finds it a minute earlier than the one before
BACKWARDS = """
import itertools, time

def backwards(clock, minute):
    back = itertools.count(0, minute)
    return lambda: clock() - next(back)

time.time, time.time_ns = backwards(time.time, 60), backwards(time.time_ns, 60 * 10**9)
"""


def test_a_clock_that_runs_backwards_changes_nothing(here, whole):
    outcome = here.train("--out", "run", script=BACKWARDS)
    assert outcome.code == 0, outcome.err
    assert final_bits(here.folder / "run") == final_bits(whole)
    assert json.loads((here.folder / "run/summary.json").read_text())["seconds"] > 0
    assert all(
        json.loads(line)["images_per_second"] > 0
        for line in (here.folder / "run/metrics.jsonl").read_text().splitlines()
    )
