"""The loop: labels alone before the method's own steps where a run asks for them, batches made ahead."""

from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F

from interlude import checkpoint
from interlude.errors import UserError
from interlude.loop import fit
from interlude.methods.fixmatch import FixMatch
from interlude.methods.interlude import InterLUDE
from interlude.methods.supervised import Supervised
from interlude.run import Run, settle
from interlude.testing import STEPS, stop_after, toy_config, toy_run, toy_split

FIRST = 2


def begun_on_labels(method, **options):
    return Run(replace(toy_config(method, **options), labels_first=FIRST), toy_split(), method)


def weights(run):
    return torch.cat([parameter.detach().flatten() for parameter in run.method.model.parameters()])


def test_the_first_steps_see_no_unlabeled_image():
    run = begun_on_labels(FixMatch)
    assert [len(run.batch(step).rows_u) for step in range(4)] == [0, 0, 8, 8]


def test_a_method_of_both_labeled_views_starts_like_the_fair_control():
    run, control = begun_on_labels(InterLUDE), toy_run(Supervised, strong=True)
    stop_after(run, FIRST)
    stop_after(control, FIRST)
    torch.testing.assert_close(weights(run), weights(control), rtol=0, atol=0)


def test_a_step_on_labels_descends_their_cross_entropy():
    run = begun_on_labels(InterLUDE)
    batch = run.batch(0)
    (objective,) = run.method.step_on_labels(batch)
    by_view = [F.cross_entropy(logits, batch.y) for logits in run.method.model.together(*batch.x)]
    torch.testing.assert_close(objective.loss, sum(by_view) / 2)


def test_the_clock_of_the_method_starts_after_them():
    run = begun_on_labels(FixMatch)
    clocks = []
    step = run.method.step
    run.method.step = lambda batch, clock: (clocks.append(clock), step(batch, clock))[1]
    fit(run)
    assert [clock.step for clock in clocks] == list(range(STEPS - FIRST))
    assert {clock.total for clock in clocks} == {STEPS - FIRST}


def test_the_learning_rate_falls_over_all_steps():
    run = begun_on_labels(FixMatch)
    assert run.optimizer.rate(STEPS // 2) == toy_run(FixMatch).optimizer.rate(STEPS // 2)


def test_a_run_of_labels_alone_is_another_method():
    with pytest.raises(UserError, match="labels_first must be below the 6 steps"):
        settle(replace(toy_config(FixMatch), labels_first=STEPS))


def test_making_batches_ahead_changes_no_bit():
    one_by_one, ahead = begun_on_labels(FixMatch), begun_on_labels(FixMatch)
    fit(one_by_one)
    fit(ahead, overlap=True)
    assert checkpoint.digest(ahead.state()) == checkpoint.digest(one_by_one.state())


def test_a_run_at_its_end_makes_no_batch():
    run = toy_run(FixMatch)
    run.step = STEPS
    run.batch = None
    fit(run, overlap=True)


def test_each_step_trains_on_its_own_batch_also_after_a_stop():
    run = toy_run(FixMatch)
    stop_after(run, 2)
    taken = []
    step = run.method.step
    run.method.step = lambda batch, clock: (
        taken.append((clock.step, batch.rows_u.tolist())),
        step(batch, clock),
    )[1]
    fit(run, overlap=True)
    assert taken == [(number, run.batch(number).rows_u.tolist()) for number in range(2, STEPS)]
