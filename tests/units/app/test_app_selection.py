"""The benchmark of the selection: every way chooses as many labels from the same images."""

import sys
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

sys.path.append(str(Path(__file__).parents[3] / "benchmarks"))
import selection

DIGITS = selection.digits()
WAYS = [(labels, name) for labels, known in selection.ways(DIGITS).items() for name in known if labels < 200]


@pytest.mark.parametrize(("labels", "name"), WAYS)
def test_every_way_chooses_so_many_different_images_of_the_draw(labels, name):
    draw = selection.Draw(DIGITS, seed=3)
    chosen = selection.ways(DIGITS)[labels][name](draw)
    assert len(set(chosen.tolist())) == len(chosen) == labels
    assert set(chosen.tolist()) <= set(draw.rows.tolist())


def test_draws_differ_and_come_again():
    one, again, two = (selection.Draw(DIGITS, seed).rows.tolist() for seed in (1, 1, 2))
    assert one == again != two


def test_an_interval_is_that_of_student():
    values = [1.0, 2.0, 4.0, 5.0]
    low, high = stats.t.interval(0.95, 3, loc=np.mean(values), scale=stats.sem(values))
    assert selection.interval(values) == {"mean": 3.0, "low": round(low, 2), "high": round(high, 2)}
