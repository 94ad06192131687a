"""Dash: warm-up, thresholds and losses a second way over a whole short run, and what must hold of them."""

import math

import by_hand
import numpy as np
import pytest
import torch
from stand_in import Bare, batch_of, four_views, gradients, labels_of, make
from torch import nn

from interlude.loop import fit
from interlude.method import Clock
from interlude.methods.dash import Dash
from interlude.methods.fixmatch import FixMatch
from interlude.testing import toy_run

GROUPS, MU, TOTAL = 4, 5, 40
LABELS = labels_of(GROUPS)


def objective_of(method, views, y=LABELS, *, step, total=TOTAL):
    x, _, *u = views
    (objective,) = method.step(batch_of([x], y, u), Clock(step, total))
    return objective


def warmed(rho_0=1.0, **options):
    """Dash after its warm-up, with this labeled loss."""
    method = make(Dash, **{"warmup": 0.1, "period": 0.1, **options})
    method.rho_0.fill_(rho_0)
    return method


def linear():
    head = nn.Linear(5, 3, dtype=torch.float64)
    nn.init.normal_(head.weight, generator=torch.Generator().manual_seed(0))
    nn.init.zeros_(head.bias)
    return head


def sharpened(row, temperature):
    power = by_hand.softmax(row) ** (1 / temperature)
    return power / power.sum()


def targets_of(weak, rho, floor, selection):
    """Target of each row, soft above the floor and hard at it; and whether its loss is at most rho."""
    targets, mask = [], []
    for row in weak:
        hard = np.eye(len(row))[row.argmax()]
        target = sharpened(row, 0.5) if rho > floor else hard
        targets.append(target)
        mask.append(by_hand.cross_entropy(row, target if selection == "soft" else hard) <= rho)
    return targets, np.array(mask)


@pytest.mark.parametrize("selection", ["hard", "soft"])
def test_a_run_equals_the_loops(selection):
    """12 labeled steps, of which the last 3 give rho_0; then a fall every 4 steps, down to the floor."""
    head, floor = linear(), 0.3
    options = {"warmup": 0.3, "measured": 0.25, "period": 0.1, "gamma": 1.5, "floor": floor, "weight": 0.7}
    method = make(Dash, model=Bare(head), selection=selection, **options)
    history, phases = [], set()
    for step in range(TOTAL):
        views = four_views(GROUPS, MU, 5, seed=step, scale=1.0)
        objective = objective_of(method, views, step=step)
        at = [head.weight.detach().numpy().copy(), head.bias.detach().numpy().copy()]
        x, _, weak, strong = (view.detach().numpy() @ at[0].T + at[1] for view in views)
        expected = {"supervised": by_hand.supervised(x, LABELS.numpy())}
        if step < 12:
            history.append(expected["supervised"])
        else:
            rho = max(1.0001 * 1.5 ** -((step - 12) // 4) * np.mean(history[-3:]), floor)
            target, mask = targets_of(weak, rho, floor, selection)
            expected["unlabeled"] = 0.7 * by_hand.unlabeled(strong, target, mask)
            assert objective.logged["rho"].item() == pytest.approx(rho, abs=1e-6)
            assert objective.logged["mask"].item() == pytest.approx(mask.mean())
            phases.add((rho > floor, 0 < mask.mean() < 1))
        assert {name: term.item() for name, term in objective.terms.items()} == pytest.approx(
            expected, abs=1e-10
        )
        found = gradients(objective.loss, [head.weight])
        with torch.no_grad():
            head.weight -= 0.05 * found[0]
    assert {(True, True), (False, True)} <= phases, "this run does not test the mask in both phases"
    np.testing.assert_allclose(method.rho_0, np.mean(history[-3:]), atol=1e-12)


@pytest.mark.parametrize("rho_0", [0.5, 0.01])
@pytest.mark.parametrize("selection", ["hard", "soft"])
def test_gradients_equal_the_loops(selection, rho_0):
    method, views = warmed(rho_0, selection=selection, floor=0.3), four_views(GROUPS, MU)
    objective = objective_of(method, views, step=6)
    x, _, weak, strong = (view.detach().numpy() for view in views)
    target, mask = targets_of(weak, max(1.0001 * rho_0, 0.3), 0.3, selection)
    assert 0 < mask.mean() < 1, "this batch does not test the mask"

    def loss(at):
        return by_hand.supervised(at[0], LABELS.numpy()) + by_hand.unlabeled(at[1], target, mask)

    generator = np.random.default_rng(0)
    direction = [generator.standard_normal(view.shape) for view in (x, strong)]
    found = gradients(objective.loss, [views[0], views[3]])
    slope = sum(float((g.numpy() * d).sum()) for g, d in zip(found, direction, strict=True))
    assert slope == pytest.approx(by_hand.slope(loss, [x, strong], direction), abs=1e-7)


# The threshold


@pytest.mark.parametrize("rho_0", [2.3, 0.4, 0.03])
def test_after_j_falls_the_threshold_is_c_gamma_to_the_minus_j_rho_0_but_not_below_the_floor(rho_0):
    method = warmed(rho_0)
    for step in range(4, TOTAL):
        falls = (step - 4) // 4
        expected = max(1.0001 * 1.27**-falls * rho_0, 0.05)
        assert method.threshold(Clock(step, TOTAL)).item() == pytest.approx(expected, abs=1e-12)


def test_at_the_floor_dash_is_fixmatch_with_a_threshold_of_exp_minus_the_floor():
    views = four_views(GROUPS, MU)
    for dtype in (torch.float32, torch.float64):
        at = [view.to(dtype) for view in views]
        dash = make(Dash, dtype=dtype)
        ours = objective_of(dash, at, step=TOTAL - 1)
        theirs = make(FixMatch, dtype=dtype, threshold=math.exp(-0.05))
        (fixmatch,) = theirs.step(batch_of(at[:1], LABELS, at[2:]), Clock(0, 1))
        assert 0 < ours.logged["mask"] < 1, "this batch does not test the mask"
        assert ours.logged["mask"] == fixmatch.logged["mask"]
        torch.testing.assert_close(ours.loss, fixmatch.loss)


def test_a_full_run_has_the_published_phases():
    method, total = make(Dash), 2**20
    assert method.warmup_steps(Clock(0, total)) == 2048
    method.rho_0.fill_(math.log(10))
    first_fall = 2048 + 10 * 1024
    before, after = (method.threshold(Clock(first_fall + d, total)).item() for d in (-1, 0))
    assert before / after == pytest.approx(1.27)
    last_fall = 2048 + 17 * 10 * 1024
    assert method.threshold(Clock(last_fall - 1, total)) > 0.05
    assert method.threshold(Clock(last_fall, total)) == 0.05


def test_targets_are_soft_until_the_floor_and_hard_from_then_on():
    views = four_views(GROUPS, MU)
    _, _, weak, strong = views
    soft, hard = (weak * 2).softmax(-1).detach(), weak.argmax(-1)
    above, at = (objective_of(warmed(rho_0), views, step=4) for rho_0 in (100.0, 0.0))
    assert above.logged["mask"] == 1
    torch.testing.assert_close(above.terms["unlabeled"], nn.functional.cross_entropy(strong, soft))
    mask = weak.softmax(-1).max(-1).values >= math.exp(-0.05)
    expected = (nn.functional.cross_entropy(strong, hard, reduction="none") * mask).mean()
    torch.testing.assert_close(at.terms["unlabeled"], expected)


def test_soft_selection_goes_by_the_loss_of_the_target():
    views = four_views(GROUPS, MU, scale=1.0)
    hard, soft = (
        objective_of(warmed(0.6, selection=kind), views, step=4).logged["mask"] for kind in ("hard", "soft")
    )
    assert 0 < soft < hard < 1, "the loss of a soft target is the larger one"


# The warm-up


def test_the_threshold_starts_at_the_labeled_training_loss_at_the_end_of_the_warm_up():
    """A public implementation takes the loss on the test set, and that of a network it has not trained."""
    losses = []
    run = toy_run(Dash, warmup=0.5, measured=0.4)
    step = run.method.step

    def spy(batch, clock):
        for objective in step(batch, clock):
            losses.append(objective.terms["supervised"].item())
            yield objective

    run.method.step = spy
    run.split.tests["test"] = None  # whoever evaluates on it fails here
    fit(run)
    assert run.method.rho_0.item() == pytest.approx(np.mean(losses[1:3]), abs=1e-6)
    assert run.method.rho_0 < losses[0]


def test_the_warm_up_is_a_phase_of_the_run_not_an_addition_to_it():
    """A public implementation adds steps, by which the learning rate falls faster."""
    run, seen = toy_run(Dash, warmup=0.5), []
    step = run.method.step
    run.method.step = lambda batch, clock: seen.append(clock) or step(batch, clock)
    fit(run)
    assert [clock.step for clock in seen] == list(range(run.cfg.steps))


def test_the_warm_up_trains_on_labeled_images_alone():
    views = four_views(GROUPS, MU)
    nothing = [torch.full_like(view, torch.nan) for view in views[2:]]
    method = make(Dash, warmup=0.1)
    objective = objective_of(method, [*views[:2], *nothing], step=3)
    assert list(objective.terms) == ["supervised"]
    assert torch.equal(objective.loss, nn.functional.cross_entropy(views[0], LABELS))
    assert "unlabeled" in objective_of(method, views, step=4).terms


@pytest.mark.parametrize("total", [1, 6, 300, 1000])
def test_a_short_run_warms_up_for_one_step_at_least_and_measures_it(total):
    method, views = make(Dash), four_views(GROUPS, MU)
    steps = method.warmup_steps(Clock(0, total))
    assert 1 <= steps <= 2
    for step in range(steps):
        supervised = objective_of(method, views, step=step, total=total).loss
    torch.testing.assert_close(method.rho_0, supervised.detach())


def test_a_restored_method_gives_the_same_next_loss():
    views = four_views(GROUPS, MU, scale=0.5)
    method, again, fresh = (make(Dash, warmup=0.1, period=1.0) for _ in range(3))
    for step in range(4):
        objective_of(method, views, step=step)
    again.load_state_dict(method.state_dict())
    mine, yours, new = (objective_of(each, views, step=4).loss for each in (method, again, fresh))
    assert torch.equal(mine, yours)
    assert not torch.equal(mine, new), "the state makes no difference here"


# The unlabeled term


@pytest.mark.parametrize("rho_0", [1.0, 0.0])
@pytest.mark.parametrize("selection", ["hard", "soft"])
def test_no_gradient_reaches_the_weak_view(selection, rho_0):
    views = four_views(GROUPS, MU)
    objective = objective_of(warmed(rho_0, selection=selection), views, step=5)
    _, _, u_weak, u_strong = gradients(objective.loss, views)
    assert not u_weak.any()
    assert u_strong.any()


def test_one_more_masked_row_multiplies_the_unlabeled_term_by_n_over_n_plus_one():
    """The official code divides by the rows kept."""
    x_weak, x_strong, u_weak, u_strong = views = four_views(GROUPS, MU)
    before = objective_of(warmed(0.3), views, step=5)
    assert 0 < before.logged["mask"] < 1, "this batch does not test the mask"
    n, unsure = len(u_weak), torch.zeros(1, 3, dtype=torch.float64)
    more = [x_weak, x_strong, torch.cat([u_weak, unsure]), torch.cat([u_strong, unsure])]
    after = objective_of(warmed(0.3), more, step=5)
    torch.testing.assert_close(after.terms["unlabeled"], before.terms["unlabeled"] * n / (n + 1))


def test_the_order_of_the_unlabeled_rows_does_not_matter():
    x_weak, x_strong, u_weak, u_strong = views = four_views(GROUPS, MU)
    order = torch.randperm(len(u_weak), generator=torch.Generator().manual_seed(0))
    permuted = [x_weak, x_strong, u_weak[order], u_strong[order]]
    first, second = (objective_of(warmed(0.3), each, step=5) for each in (views, permuted))
    torch.testing.assert_close(first.loss, second.loss)
