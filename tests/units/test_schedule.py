"""The learning rate as a function of the step."""

from itertools import pairwise
from math import cos, pi

import pytest

from interlude.schedule import factor


def test_the_first_step_has_the_whole_rate():
    assert factor(0, 1000) == 1


def test_the_end_has_a_fifth_of_it():
    assert factor(1000, 1000) == pytest.approx(cos(7 * pi / 16))
    assert factor(1000, 1000) == pytest.approx(0.19509, abs=5e-6)


def test_it_falls_at_every_step():
    assert all(later < earlier for earlier, later in pairwise(factor(step, 500) for step in range(501)))


def test_it_depends_on_the_share_of_the_steps_only():
    for step in (0, 10, 77, 100):
        assert factor(step, 100) == pytest.approx(factor(10 * step, 1000))


def test_warm_up_rises_in_a_straight_line_from_zero():
    assert [factor(step, 100, warmup=4) for step in range(5)] == [0, 0.25, 0.5, 0.75, 1]


def test_after_warm_up_the_cosine_has_the_remaining_steps():
    for step in (20, 50, 99, 100):
        assert factor(step, 100, warmup=20) == factor(step - 20, 80)
    assert factor(100, 100, warmup=20) == pytest.approx(0.19509, abs=5e-6)


@pytest.mark.parametrize("warmup", [1, 5, 10])
def test_a_run_no_longer_than_its_warm_up_has_finite_rates(warmup):
    assert all(0 <= factor(step, 5, warmup=warmup) <= 1 for step in range(6))


@pytest.mark.parametrize("warmup", [0, 30])
def test_rates_are_never_negative(warmup):
    assert min(factor(step, 200, warmup=warmup) for step in range(201)) >= 0


def test_a_fall_of_a_half_ends_at_zero():
    assert factor(1000, 1000, fall=0.5) == pytest.approx(0, abs=1e-12)


def test_a_fall_of_nothing_keeps_the_rate():
    assert {factor(step, 10, fall=0) for step in range(11)} == {1}
