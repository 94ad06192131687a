"""Mean Teacher: several steps a second way, with the teacher carried along, and what must hold of it."""

import copy

import by_hand
import numpy as np
import pytest
import torch
from stand_in import Bare, batch_of, four_views, gradients, labels_of, make, objective_of
from torch import nn

from interlude.loop import fit
from interlude.method import Clock
from interlude.methods.mean_teacher import MeanTeacher
from interlude.methods.pi_model import PiModel
from interlude.methods.supervised import Supervised
from interlude.testing import toy_run

GROUPS, MU = 4, 3
LABELS = labels_of(GROUPS)


def linear():
    return Bare(nn.Linear(5, 3, dtype=torch.float64))


def normed():
    return Bare(body=nn.BatchNorm1d(3, dtype=torch.float64))


def advance(method, views, *, step, rate=0.5):
    """One step as the loop takes it, by plain gradient descent; returns the objective."""
    x, _, *u = views
    for objective in method.step(batch_of([x], LABELS, u), Clock(step, 10)):
        weights = list(method.model.parameters())
        slopes = gradients(objective.loss, weights)
        with torch.no_grad():
            for weight, gradient in zip(weights, slopes, strict=True):
                weight -= rate * gradient
    return objective


def moved(method, by=0.3):
    """The method with a teacher that differs from its student."""
    generator = torch.Generator().manual_seed(5)
    with torch.no_grad():
        for weight in method.teacher.parameters():
            weight += by * torch.randn(weight.shape, generator=generator, dtype=weight.dtype)
    return method


def factor(warmup, decay, t):
    return min(decay, {"recent": (1 + t) / (10 + t), "mean": 1 - 1 / (t + 1), "none": 1.0}[warmup])


@pytest.mark.parametrize("decay", [0.6, 0.999])
@pytest.mark.parametrize("warmup", ["recent", "mean", "none"])
def test_terms_gradients_and_teacher_equal_the_loops_over_five_steps(warmup, decay):
    model = linear()
    method = make(MeanTeacher, model=model, warmup=warmup, decay=decay, weight=20.0)
    teacher = [part.detach().numpy().copy() for part in model.parameters()]
    for step in range(5):
        views = four_views(GROUPS, MU, 5, seed=step)
        before = [part.detach().numpy().copy() for part in model.parameters()]
        objective = advance(method, views, step=step)

        x, _, u_teacher, u_student = (view.detach().numpy() for view in views)
        q = by_hand.softmaxes([teacher[0] @ row + teacher[1] for row in u_teacher])
        weight = 20.0 * min(1, step / 10 / 0.4)

        def losses(at, q=q, weight=weight, x=x, u_student=u_student):
            rows = np.stack([at[0] @ row + at[1] for row in x])
            p = by_hand.softmaxes([at[0] @ row + at[1] for row in u_student])
            squares = [(p[i][c] - q[i][c]) ** 2 for i in range(len(p)) for c in range(3)]
            return by_hand.supervised(rows, LABELS.numpy()), weight * sum(squares) / (len(p) * 3)

        supervised, consistency = losses(before)
        assert objective.terms["supervised"].item() == pytest.approx(supervised, abs=1e-12)
        assert objective.terms["consistency"].item() == pytest.approx(consistency, abs=1e-12)
        assert step == 0 or consistency > 1e-3, "this batch does not test the term"

        after = [part.detach().numpy() for part in model.parameters()]
        for index, (old, new) in enumerate(zip(before, after, strict=True)):  # new = old - rate * gradient
            for entry in np.ndindex(old.shape):
                direction = [np.zeros_like(part) for part in before]
                direction[index][entry] = 1.0
                slope = by_hand.slope(lambda at, losses=losses: sum(losses(at)), before, direction)
                assert (old - new)[entry] == pytest.approx(0.5 * slope, abs=1e-7)

        share = factor(warmup, decay, step + 1)
        teacher = [share * old + (1 - share) * new for old, new in zip(teacher, after, strict=True)]
        for mine, theirs in zip(method.teacher.model.parameters(), teacher, strict=True):
            np.testing.assert_allclose(mine.detach(), theirs, atol=1e-12)


@pytest.mark.parametrize("step", [1, 3, 9])
def test_a_teacher_equal_to_the_student_gives_the_loss_of_the_pi_model(step):
    model, views = linear(), four_views(GROUPS, MU, 5)
    ours = objective_of(make(MeanTeacher, model=model, weight=7.0), views, LABELS, step=step)
    theirs = objective_of(make(PiModel, model=model, weight=7.0), views, LABELS, step=step)
    assert ours.terms["consistency"] > 0
    torch.testing.assert_close(ours.loss, theirs.loss)
    for a, b in zip(gradients(ours.loss, [*views]), gradients(theirs.loss, [*views]), strict=True):
        torch.testing.assert_close(a, b)


def test_the_consistency_term_moves_the_student():
    """Public code compares the teacher with itself: the term is 0 and has no gradient."""
    method = moved(make(MeanTeacher, model=linear()))
    views = four_views(GROUPS, MU, 5)
    term = objective_of(method, views, LABELS, step=9).terms["consistency"]
    assert term > 0
    assert all(gradient.any() for gradient in gradients(term, list(method.model.parameters())))


def test_the_same_view_for_both_still_moves_the_student_when_the_teacher_differs():
    method = moved(make(MeanTeacher, model=linear()))
    x, other, u, _ = four_views(GROUPS, MU, 5)
    term = objective_of(method, [x, other, u, u], LABELS, step=9).terms["consistency"]
    assert term > 0
    assert gradients(term, [method.model.head.weight])[0].any()


def test_no_gradient_reaches_the_teacher_or_its_view():
    method = moved(make(MeanTeacher, model=linear()))
    views = four_views(GROUPS, MU, 5)
    objective = objective_of(method, views, LABELS, step=9)
    _, _, at_teacher, at_student = gradients(objective.loss, views)
    assert not at_teacher.any()
    assert at_student.any()
    assert not any(weight.requires_grad for weight in method.teacher.parameters())


def test_the_teacher_follows_the_moved_weights_once_a_step():
    method = make(MeanTeacher, model=linear(), decay=0.75, warmup="none")
    start = copy.deepcopy(method.model.head.weight)
    step = method.step(batch_of((views := four_views(GROUPS, MU, 5))[:1], LABELS, views[2:]), Clock(0, 10))
    next(step)
    assert torch.equal(method.teacher.model.head.weight, start), "it waits for the optimiser"
    with torch.no_grad():
        method.model.head.weight += 1
    assert next(step, None) is None
    torch.testing.assert_close(method.teacher.model.head.weight.data, start.data + 0.25)


def test_the_mean_teacher_of_the_authors_is_the_mean_of_all_weights_at_first():
    method = make(MeanTeacher, model=linear(), warmup="mean")
    seen = [method.model.head.weight.detach().clone()]
    for step in range(6):
        advance(method, four_views(GROUPS, MU, 5, seed=step), step=step)
        seen.append(method.model.head.weight.detach().clone())
        torch.testing.assert_close(method.teacher.model.head.weight.data, torch.stack(seen).mean(0))


@pytest.mark.parametrize("warmup", ["recent", "mean", "none"])
def test_late_in_a_long_run_the_factor_is_alpha_whatever_the_warmup(warmup):
    method = make(MeanTeacher, model=linear(), warmup=warmup, decay=0.999)
    method.teacher.updates = 2**16
    start = method.model.head.weight.detach().clone()
    views = four_views(GROUPS, MU, 5)
    for _ in method.step(batch_of(views[:1], LABELS, views[2:]), Clock(2**16, 2**20)):
        with torch.no_grad():
            method.model.head.weight += 1
    torch.testing.assert_close(method.teacher.model.head.weight.data, start + 0.001)


def test_the_first_step_is_supervised_and_after_the_ramp_the_step_does_not_matter():
    model, views = linear(), four_views(GROUPS, MU, 5)
    (supervised,) = make(Supervised, model=model).step(batch_of(views[:1], LABELS), Clock(0, 10))
    method = moved(make(MeanTeacher, model=model, decay=1.0, warmup="none"))  # the teacher stays
    assert torch.equal(objective_of(method, views, LABELS, step=0).loss, supervised.loss)
    third, full, last = (objective_of(method, views, LABELS, step=step).loss for step in (3, 4, 9))
    assert torch.equal(full, last)
    assert third < full


@pytest.mark.parametrize("prepare", [lambda method: method, lambda method: method.train()])
def test_the_teacher_normalises_by_its_batch_and_only_labeled_images_enter_the_statistics(prepare):
    x, other, u_teacher, u_student = four_views(GROUPS, MU)
    u_teacher, u_student = 3 * u_teacher + 1, u_student - 2
    method, fresh = prepare(make(MeanTeacher, model=normed())), normed()
    method.teacher.model.body.running_mean.fill_(100.0)  # must not matter
    objective = objective_of(method, [x, other, u_teacher, u_student], LABELS, step=9)
    torch.testing.assert_close(objective.terms["supervised"], nn.functional.cross_entropy(fresh(x), LABELS))
    after_x = copy.deepcopy(fresh.state_dict())
    for network in (method.model, method.teacher.model):  # the teacher's are copies of the student's
        assert all(torch.equal(value, after_x[name]) for name, value in network.state_dict().items())
    expected = 50 * (fresh(u_student).softmax(-1) - fresh(u_teacher).softmax(-1)).square().mean()
    torch.testing.assert_close(objective.terms["consistency"], expected)


def test_the_pass_of_the_teacher_records_nothing():
    method = make(MeanTeacher, model=normed())
    before = copy.deepcopy(method.teacher.state_dict())
    views = four_views(GROUPS, MU)
    next(method.step(batch_of(views[:1], LABELS, views[2:]), Clock(5, 10)))
    after = method.teacher.state_dict()
    assert all(torch.equal(value, after[name]) for name, value in before.items())


def test_the_order_of_the_unlabeled_rows_does_not_matter():
    x, other, first, second = views = four_views(GROUPS, MU, 5)
    order = torch.randperm(len(first), generator=torch.Generator().manual_seed(0))
    method = moved(make(MeanTeacher, model=linear(), decay=1.0, warmup="none"))
    permuted = objective_of(method, [x, other, first[order], second[order]], LABELS, step=9)
    torch.testing.assert_close(permuted.loss, objective_of(method, views, LABELS, step=9).loss)


def test_the_teacher_is_saved_and_not_trained():
    run = toy_run(MeanTeacher)
    start = [weight.clone() for weight in run.method.teacher.parameters()]
    fit(run)
    assert any(name.startswith("teacher.model.") for name in run.method.state_dict())
    trained = {id(p) for group in run.optimizer.torch.param_groups for p in group["params"]}
    weights = list(run.method.teacher.parameters())
    assert not trained & {id(weight) for weight in weights}
    assert any(not torch.equal(a, b) for a, b in zip(start, weights, strict=True)), "it follows the student"
