"""Meta Pseudo Labels: both updates a second way over several steps, and what must hold of them."""

import by_hand
import numpy as np
import pytest
import torch
from stand_in import Bare, batch_of, computing_in, four_views, labels_of, make
from torch import nn

from interlude.method import Clock
from interlude.methods.mpl import MPL, rise, without_dropout
from interlude.parts.gradients import gradient
from interlude.testing import toy_run

GROUPS, MU = 4, 3
LABELS = labels_of(GROUPS)
LATE = Clock(5, 10)  # all phases are over by then
ETA = 0.1


def linear_network(seed=0):
    head = nn.Linear(5, 3, dtype=torch.float64)
    nn.init.normal_(head.weight, generator=torch.Generator().manual_seed(seed))
    nn.init.zeros_(head.bias)
    return Bare(head)


def mpl(network=None, teacher_seed=7, **options):
    """MPL with a linear student, and a teacher that differs from it."""
    method = make(MPL, model=network or linear_network(), **options)
    if network is None:
        method.teacher.load_state_dict(linear_network(teacher_seed).state_dict())
    return method


def both(method, views, *, clock=LATE, eta=ETA, y=LABELS):
    """The two objectives of a step, the student moved in between; gradients are left on the weights."""
    step = method.step(batch_of(views[:1], y, views[2:]), clock)
    first = next(step)
    method.zero_grad(set_to_none=True)
    first.loss.backward()
    with torch.no_grad():
        for weight in method.parameters():
            if weight.grad is not None:
                weight -= eta * first.rate * weight.grad
    second = next(step)
    method.zero_grad(set_to_none=True)
    second.loss.backward()
    assert next(step, None) is None, "two updates a step"
    return first, second


def views_of(seed=0, scale=1.0):
    return four_views(GROUPS, MU, 5, seed=seed, scale=scale)


def logits_of(weight, bias, rows):
    return np.stack([weight @ row + bias for row in rows])


def numbers(*tensors):
    return [tensor.detach().clone().numpy() for tensor in tensors]


def smooth(label, share, num_classes=3):
    """(1 - s) onehot + s / K."""
    return np.array([(1 - share) * (c == label) + share / num_classes for c in range(num_classes)])


def soft_cross_entropy(logits, targets):
    rows = [by_hand.cross_entropy(row, target) for row, target in zip(logits, targets, strict=True)]
    return sum(rows) / len(rows)


def linear_gradient(weight, bias, rows, targets):
    """Of the mean soft cross-entropy of a linear classifier: mean of (p - t) x^T, and of p - t."""
    at_weight, at_bias = np.zeros_like(weight), np.zeros_like(bias)
    for row, target in zip(rows, targets, strict=True):
        difference = (by_hand.softmax(weight @ row + bias) - target) / len(rows)
        at_weight, at_bias = at_weight + np.outer(difference, row), at_bias + difference
    return at_weight, at_bias


@pytest.mark.parametrize("sign", ["old-new", "new-old"])
@pytest.mark.parametrize("baseline", ["none", "ema"])
def test_both_objectives_equal_the_loops_over_three_steps(sign, baseline):
    share, weight, keep = 0.15, 0.8, 0.7
    method = mpl(
        sign=sign, baseline=baseline, baseline_decay=keep, weight=weight, threshold=0.7, smoothing=share
    )
    y, mean = LABELS.numpy(), 0.0
    for step in range(3):
        views = views_of(step)
        x, _, u_weak, u_strong = numbers(*views)
        student = numbers(method.model.head.weight, method.model.head.bias)
        teacher = numbers(method.teacher.head.weight, method.teacher.head.bias)
        first, second = both(method, views)

        t_strong = logits_of(*teacher, u_strong)
        label = t_strong.argmax(1)
        targets = [smooth(one, share) for one in label]
        assert first.terms["student"].item() == pytest.approx(
            soft_cross_entropy(logits_of(*student, u_strong), targets), abs=1e-10
        )
        g = linear_gradient(*student, u_strong, targets)
        after = [part - ETA * slope for part, slope in zip(student, g, strict=True)]
        np.testing.assert_allclose(method.model.head.weight.detach(), after[0], atol=1e-12)

        old, new = (by_hand.supervised(logits_of(*each, x), y) for each in (student, after))
        gain = old - new if sign == "old-new" else new - old
        if baseline == "ema":
            mean = keep * mean + (1 - keep) * gain
            gain -= mean
        q = by_hand.softmaxes(logits_of(*teacher, u_weak) / 0.7)
        mask = q.max(1) >= 0.7
        assert 0 < mask.mean() < 1, "this batch does not test the mask"
        expected = {
            "supervised": soft_cross_entropy(logits_of(*teacher, x), [smooth(one, share) for one in y]),
            "consistency": weight * by_hand.unlabeled(t_strong, q, mask),
            "feedback": gain * soft_cross_entropy(t_strong, label),
        }
        assert {name: term.item() for name, term in second.terms.items()} == pytest.approx(
            expected, abs=1e-10
        )
        assert second.logged["mask"].item() == pytest.approx(mask.mean())
        assert second.logged["gain"].item() == pytest.approx(gain, rel=1e-5)

        # the teacher's gradient, with targets, mask and gain held fixed
        def teacher_loss(at, views=(x, u_strong), fixed=(label, q, mask, gain)):
            (x, u_strong), (label, q, mask, gain) = views, fixed
            strong = logits_of(*at, u_strong)
            supervised = soft_cross_entropy(logits_of(*at, x), [smooth(one, share) for one in y])
            consistency = weight * by_hand.unlabeled(strong, q, mask)
            return supervised + consistency + gain * soft_cross_entropy(strong, label)

        generator = np.random.default_rng(step)
        along = [generator.standard_normal(part.shape) for part in teacher]
        found = numbers(method.teacher.head.weight.grad, method.teacher.head.bias.grad)
        slope = sum((part * d).sum() for part, d in zip(found, along, strict=True))
        assert slope == pytest.approx(by_hand.slope(teacher_loss, teacher, along), abs=1e-7)
        with torch.no_grad():
            method.teacher.head.weight -= ETA * method.teacher.head.weight.grad


def test_the_feedback_moves_the_teacher():
    """The original trains on its own soft prediction, where the gradient h (p - p) is zero."""
    method, views = mpl(smoothing=0.0), views_of()
    step = method.step(batch_of(views[:1], LABELS, views[2:]), LATE)
    next(step).loss.backward()
    with torch.no_grad():
        for weight in method.model.parameters():
            weight -= weight.grad
    second = next(step)
    (found,) = torch.autograd.grad(second.terms["feedback"], method.teacher.head.weight)

    (u_strong,) = numbers(views[3])
    t_strong = logits_of(*numbers(method.teacher.head.weight, method.teacher.head.bias), u_strong)
    expected = sum(
        second.logged["gain"].item() * np.outer(by_hand.softmax(row) - np.eye(3)[row.argmax()], image)
        for row, image in zip(t_strong, u_strong, strict=True)
    ) / len(u_strong)
    np.testing.assert_allclose(found.numpy(), expected, atol=1e-7)
    assert np.abs(expected).max() > 1e-3


def test_a_step_that_helps_is_rewarded_in_proportion_to_how_the_gradients_agree():
    """old - new = eta <grad L_l, grad L_u> to first order; both public codes have the other sign."""
    products = []
    for seed in range(6):
        method, views, eta = mpl(), views_of(seed), 1e-5
        labeled = gradient(method.supervised(method.model(views[0]), LABELS), method.model)
        label = method.teacher(views[3]).argmax(-1)
        targets = method.smooth(label, method.model(views[3]))
        student = gradient(nn.functional.cross_entropy(method.model(views[3]), targets), method.model)
        _, second = both(method, views, eta=eta)
        product = (labeled @ student).item()
        assert second.logged["gain"].item() == pytest.approx(eta * product, rel=1e-2, abs=1e-8)
        products.append(product)
    assert min(products) < -0.01 < 0.01 < max(products), "these batches do not test the sign"


def test_the_public_sign_is_the_opposite():
    views = views_of()
    (_, mine), (_, theirs) = both(mpl(), views), both(mpl(sign="new-old"), views)
    assert mine.logged["gain"] == -theirs.logged["gain"] != 0
    torch.testing.assert_close(mine.terms["feedback"], -theirs.terms["feedback"])


def test_student_and_feedback_share_one_label_of_the_strong_view():
    """The PyTorch port labels the student from the weak view."""
    views = views_of(1)
    method = mpl(smoothing=0.0)
    weak, strong = (method.teacher(view).argmax(-1) for view in views[2:])
    assert (weak != strong).any(), "this batch does not test the label"
    expected = nn.functional.cross_entropy(method.model(views[3]), strong)
    feedback = nn.functional.cross_entropy(method.teacher(views[3]), strong)
    first, second = both(method, views)
    torch.testing.assert_close(first.terms["student"], expected)
    torch.testing.assert_close(second.terms["feedback"], second.logged["gain"] * feedback)


def test_a_drawn_label_is_used_for_both_losses():
    views, method = views_of(1), mpl(label="sample", smoothing=0.0)
    torch.manual_seed(3)
    drawn = torch.multinomial(method.teacher(views[3]).softmax(-1), 1).squeeze(-1)
    assert (drawn != method.teacher(views[3]).argmax(-1)).any(), "this draw does not test the label"
    expected = nn.functional.cross_entropy(method.model(views[3]), drawn)
    feedback = nn.functional.cross_entropy(method.teacher(views[3]), drawn)
    torch.manual_seed(3)
    first, second = both(method, views)
    torch.testing.assert_close(first.terms["student"], expected)
    torch.testing.assert_close(second.terms["feedback"], second.logged["gain"] * feedback)


def test_drawn_labels_are_as_frequent_as_predicted():
    method, q = mpl(label="sample"), torch.tensor([0.6, 0.3, 0.1])
    torch.manual_seed(0)
    labels = method.label_of(q.log().expand(20_000, 3))
    torch.testing.assert_close(labels.bincount(minlength=3) / 20_000, q, atol=0.02, rtol=0)


def noisy_network():
    torch.manual_seed(0)
    body = nn.Sequential(nn.Linear(5, 6), nn.BatchNorm1d(6), nn.ReLU(), nn.Dropout(0.5))
    with computing_in(torch.float64):
        return Bare(nn.Linear(6, 3), body=body).double()


def test_a_student_that_stands_still_brings_no_gain():
    """In public code `old` sees unlabeled rows and dropout, so that BatchNorm and noise alone bring some."""
    method = mpl(noisy_network())
    _, second = both(method, views_of(), clock=Clock(0, 10))
    assert second.logged["gain"] == 0
    _, second = both(method, views_of(), clock=LATE)
    assert second.logged["gain"] != 0


def test_each_network_records_the_statistics_of_one_pass():
    method = mpl(noisy_network())
    both(method, views_of())
    assert method.model.body[1].num_batches_tracked == 1
    assert method.teacher.body[1].num_batches_tracked == 1
    assert all(part.training for part in method.modules()), "the labeled losses leave the mode as it was"


def test_without_dropout_only_batch_norm_is_in_training_mode():
    network = noisy_network()
    with without_dropout(network):
        assert [name for name, part in network.named_modules() if part.training] == ["body.1"]
    with without_dropout(network.eval()):
        assert not any(part.training for part in network.modules())


def test_each_objective_reaches_one_network_alone():
    method, views = mpl(), views_of()
    step = method.step(batch_of(views[:1], LABELS, views[2:]), LATE)
    for moving, still in ((method.model, method.teacher), (method.teacher, method.model)):
        method.zero_grad(set_to_none=True)
        next(step).loss.backward()
        assert all(weight.grad is not None for weight in moving.parameters())
        assert all(weight.grad is None for weight in still.parameters())


def test_the_mask_is_taken_from_the_sharpened_prediction():
    """Of two classes, 0.55 becomes 0.57 at a temperature of 0.7, and 0.6 becomes 0.64."""
    logits = torch.tensor([[0.55, 0.45], [0.6, 0.4], [0.5, 0.5]], dtype=torch.float64).log()
    network = Bare(nn.Linear(2, 2, dtype=torch.float64))
    nn.init.eye_(network.head.weight)
    nn.init.zeros_(network.head.bias)
    for temperature, kept in ((0.7, 1), (1.0, 0)):
        method = make(MPL, num_classes=2, model=network, threshold=0.62, temperature=temperature)
        _, second = both(method, [logits[:1], logits[:1], logits, logits], y=torch.tensor([0]), eta=0.0)
        assert second.logged["mask"].item() == pytest.approx(kept / 3)


def test_the_target_of_the_consistency_takes_no_gradient():
    views = views_of()
    method = mpl(threshold=0.0)
    step = method.step(batch_of(views[:1], LABELS, views[2:]), LATE)
    next(step)
    u_weak, u_strong = torch.autograd.grad(next(step).terms["consistency"], views[2:], allow_unused=True)
    assert u_weak is None or not u_weak.any()
    assert u_strong.any()


def test_smoothing_takes_hard_and_soft_labels_and_class_weights():
    method, views = mpl(class_weights=[1.0, 2.0, 4.0]), views_of()
    hard, soft = (
        both(mpl(class_weights=[1.0, 2.0, 4.0]), views),
        both(method, views, y=torch.eye(3)[LABELS].double()),
    )
    for name, term in hard[1].terms.items():
        torch.testing.assert_close(soft[1].terms[name], term)


def test_the_phases_are_those_of_the_paper_in_a_run_of_its_length():
    cfg, total = MPL.Config(), 300_000
    student = {
        step: rise(Clock(step, total), after=cfg.wait, over=cfg.warmup) for step in (0, 3000, 5500, 8000)
    }
    assert student == {0: 0.0, 3000: 0.0, 5500: 0.5, 8000: 1.0}
    consistency = [cfg.weight * rise(Clock(step, total), over=cfg.ramp) for step in (0, 2500, 5000, 9000)]
    assert consistency == [0.0, 4.0, 8.0, 8.0]


def test_in_a_short_run_no_phase_takes_more_than_a_fifth():
    assert [rise(Clock(step, 10), after=3000, over=5000) for step in range(6)] == [0, 0, 0, 0.5, 1, 1]
    assert [rise(Clock(step, 10), over=0) for step in range(2)] == [1, 1]
    assert [rise(Clock(step, 10), after=1, over=0) for step in range(2)] == [0, 1]


def test_the_rate_of_the_student_is_that_of_its_phase_and_the_teacher_never_waits():
    method, views = mpl(), views_of()
    rates = [
        [objective.rate for objective in both(method, views, clock=Clock(step, 10))] for step in range(5)
    ]
    assert rates == [[0.0, 1.0], [0.0, 1.0], [0.0, 1.0], [0.5, 1.0], [1.0, 1.0]]


def test_the_student_is_what_is_averaged():
    run = toy_run(MPL)
    with torch.no_grad():
        for weight in run.method.teacher.parameters():
            weight.fill_(100.0)
    run.ema.update(run.method.model)
    assert all(weight.abs().max() < 100 for weight in run.ema.model.parameters())


def test_the_mean_gain_is_kept_in_the_state_dict():
    method, again = mpl(baseline="ema"), mpl(baseline="ema")
    both(method, views_of())
    assert method.mean_gain.value != 0
    again.load_state_dict(method.state_dict())
    (_, mine), (_, yours) = (both(each, views_of(1)) for each in (method, again))
    assert torch.equal(mine.loss, yours.loss)
