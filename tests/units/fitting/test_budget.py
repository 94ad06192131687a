"""What a budget buys."""

import pytest

from interlude.errors import UserError
from interlude.fitting.budget import FEWEST_STEPS, WORTHWHILE, parse_time, schedule, show_time

PACE = {"method": 0.1, "plain": 0.02, "strong": 0.03}


@pytest.mark.parametrize(
    ("text", "seconds"), [("90s", 90), ("10m", 600), ("1h30m", 5400), ("0.5h", 1800), ("10 min", 600)]
)
def test_time_is_read_as_people_write_it(text: str, seconds: float) -> None:
    assert parse_time(text) == seconds


@pytest.mark.parametrize("text", ["", "10", "ten minutes", "0m", "m10", "-5m"])
def test_what_is_no_time_is_refused_in_one_sentence(text: str) -> None:
    with pytest.raises(UserError, match=r"90s, 10m or 1h30m|longer than"):
        parse_time(text)


def test_time_is_shown_in_a_fitting_unit() -> None:
    assert [show_time(45), show_time(600), show_time(7200)] == ["45 s", "10 min", "2 h"]


def made(seconds: float, folds: int = 5, most_steps: int = 1000):
    return schedule(seconds, PACE, method="method", folds=folds, most_steps=most_steps)


@pytest.mark.parametrize("seconds", [60, 120, 300, 600, 3000])
def test_all_runs_together_fit_into_the_budget(seconds: float) -> None:
    plan = made(seconds)
    cost = plan.runs * plan.steps * sum(PACE.values()) + plan.steps * PACE["method"]
    assert cost <= seconds + 1e-6


def test_fewer_folds_come_before_runs_that_are_too_short() -> None:
    plan = made(150)
    assert plan.folds < 5
    assert plan.steps >= WORTHWHILE


def test_a_long_budget_repeats_the_folds_and_never_exceeds_the_recipe() -> None:
    plan = made(5000)
    assert plan.steps == 1000
    assert plan.repetitions > 1


def test_a_budget_for_one_run_allows_no_estimate_and_says_so() -> None:
    plan = made(20)
    assert plan.folds == 0
    assert plan.steps >= FEWEST_STEPS
    assert "one run only" in plan.why


def test_labels_that_cannot_be_held_out_leave_the_budget_to_the_final_model() -> None:
    assert made(60, folds=0).steps == 600


def test_runs_that_are_too_short_for_a_fair_verdict_are_called_so() -> None:
    short, fair = made(60), made(3000)
    assert FEWEST_STEPS <= short.steps < WORTHWHILE
    assert (short.short, fair.short) == (True, False)
    assert "longer --budget" in short.why


def test_runs_as_short_as_the_user_asked_for_are_not_called_short() -> None:
    assert not made(3000, most_steps=50).short
