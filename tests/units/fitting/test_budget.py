"""What a budget buys."""

from dataclasses import asdict

import pytest

from interlude.errors import UserError
from interlude.fitting.budget import (
    FEWEST_PARTS,
    FEWEST_STEPS,
    OVERRUN,
    WORTHWHILE,
    Patience,
    Schedule,
    overrun,
    parse_time,
    schedule,
    show_time,
)

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


def test_no_time_at_all_still_trains_and_as_few_steps_as_the_user_said() -> None:
    assert made(-5).steps == FEWEST_STEPS
    assert made(-5, most_steps=2).steps == 2
    assert made(-5).why.startswith("0 s are left")


def test_labels_that_cannot_be_held_out_leave_the_budget_to_the_final_model() -> None:
    assert made(60, folds=0).steps == 600


def test_runs_that_are_too_short_for_a_fair_verdict_are_called_so() -> None:
    short, fair = made(60), made(3000)
    assert FEWEST_STEPS <= short.steps < WORTHWHILE
    assert (short.short, fair.short) == (True, False)
    assert "longer --budget" in short.why


def test_runs_as_short_as_the_user_asked_for_are_not_called_short() -> None:
    assert not made(3000, most_steps=50).short


def test_what_each_run_needs_before_its_first_step_is_paid_for() -> None:
    made = schedule(300, PACE, method="method", folds=5, most_steps=1000, extra=10, beside=0.02)
    cost = made.steps * (made.runs * sum(PACE.values()) + PACE["method"] + 0.02) + (made.runs + 1) * 10
    assert 300 - sum(PACE.values()) * (made.runs + 1) <= cost <= 300


class Machine:
    """A clock that held-out runs and the last run move on, at a pace that may change."""

    def __init__(self, plan: Schedule, seconds: float, slower: dict[int, float]) -> None:
        self.plan, self.seconds, self.slower, self.now = plan, seconds, slower, 0.0
        self.steps_of_part = plan.steps * sum(PACE.values())

    def run(self, beyond: float) -> tuple[int, float]:
        """The parts that were held out, and the time when all is done."""
        more = Patience(self.plan, lambda: self.seconds - self.now, beyond)
        done, factor = 0, 1.0
        while more(done):
            factor = self.slower.get(done, factor)
            self.now += factor * self.steps_of_part
            done += 1
        return done, self.now + factor * self.plan.steps * PACE["method"]


def test_on_a_steady_machine_all_that_was_planned_is_held_out() -> None:
    for seconds in (100, 600, 3000):
        plan = schedule(0.9 * seconds, PACE, method="method", folds=5, most_steps=1000)
        done, end = Machine(plan, seconds, {}).run(beyond=0)
        assert (done, end <= seconds) == (plan.runs, True)


@pytest.mark.parametrize("factor", [1.5, 2, 3, 4])
@pytest.mark.parametrize("turn", [0, 1, 2, 4, 7])
def test_a_machine_that_turns_slower_keeps_the_budget_within_half_as_much_again(factor, turn) -> None:
    seconds = 3000
    plan = schedule(0.9 * seconds, PACE, method="method", folds=5, most_steps=1000)
    assert plan.runs > 5
    done, end = Machine(plan, seconds, {turn: factor}).run(beyond=OVERRUN * seconds)
    assert FEWEST_PARTS <= done <= plan.runs
    assert end <= 1.5 * seconds


@pytest.mark.parametrize("factor", [2, 3, 4, 5])
def test_even_where_the_folds_are_made_once_only(factor) -> None:
    seconds = 600
    plan = schedule(0.9 * seconds, PACE, method="method", folds=5, most_steps=1000)
    assert plan.repetitions == 1
    done, end = Machine(plan, seconds, {0: factor}).run(beyond=OVERRUN * seconds)
    assert done >= 1
    assert end <= (1 + OVERRUN) * seconds
    assert (done >= FEWEST_PARTS) == (factor < 4), "a second fold is worth half a budget, and no more"


def test_a_schedule_that_was_cut_ends_where_it_did_and_says_so() -> None:
    plan = schedule(2700, PACE, method="method", folds=5, most_steps=1000)
    cut = plan.ended_after(7, of=plan.runs, repetitions=2)
    assert (cut.runs, cut.repetitions) == (7, 2)
    assert cut.note.startswith(
        f"{plan.runs - 7} of {plan.runs} held-out runs of each candidate were left out"
    )
    assert Schedule(**asdict(cut)) == cut, "as it is written down and read again"
    endless = Patience(cut, lambda: 1e9)
    assert (endless(6), endless(7)) == (True, False), "a fit that goes on holds out no more"


def test_a_fit_that_took_too_long_says_how_long_and_where() -> None:
    parts = {"doctor": 30.0, "features": 700.0, "cross_validation": 400.0}
    assert overrun(640, 600, parts) == ""
    said = overrun(1130, 600, parts)
    assert "18.8 min of a budget of 10 min" in said
    assert "features 11.7 min and cross validation 6.67 min" in said
