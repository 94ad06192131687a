"""AdaMatch: several steps a second way, both versions, and what must hold of them."""

import math

import by_hand
import numpy as np
import pytest
import torch
from stand_in import Bare, four_views, gradients, labels_of, make, objective_of
from torch import nn

from interlude import testing
from interlude.method import Clock
from interlude.methods.adamatch import AdaMatch, uniform_window
from interlude.methods.fixmatch import FixMatch

GROUPS, MU = 4, 3
LABELS = labels_of(GROUPS)


class Means:
    """Running mean predictions of labeled and unlabeled images; they are updated first and used then."""

    def __init__(self, decay, window=None):
        self.decay = decay
        self.of_x, self.of_u = np.full(3, 1 / 3), None
        self.window = None if window is None else [np.full(3, 1 / 3)] * window

    def aligned(self, p_x, p_u):
        self.of_x = self.decay * self.of_x + (1 - self.decay) * p_x.mean(0)
        if self.window is not None:
            self.window = [*self.window[1:], p_u.mean(0)]
            self.of_u = sum(self.window) / len(self.window)
        elif self.of_u is None:
            self.of_u = p_u.mean(0)
        else:
            self.of_u = self.decay * self.of_u + (1 - self.decay) * p_u.mean(0)
        scaled = [row * (self.of_x + 1e-6) / (self.of_u + 1e-6) for row in p_u]
        return np.stack([row / row.sum() for row in scaled])


def drawn_head():
    head = nn.Linear(5, 3, dtype=torch.float64)
    nn.init.normal_(head.weight, generator=torch.Generator().manual_seed(0))
    nn.init.zeros_(head.bias)
    return head


@pytest.mark.parametrize("decay", [0.0, 0.3, 0.9])
def test_terms_gradients_and_state_equal_the_loops_over_four_steps(decay):
    tau, weight, head = 0.95, 0.7, drawn_head()
    method = make(AdaMatch, model=Bare(head), decay=decay, weight=weight)
    state = Means(decay)
    for step in range(4):
        views = four_views(GROUPS, MU, 5, seed=step, scale=1.0)
        objective = objective_of(method, views, LABELS, step=step)
        x_weak, _, u_weak, u_strong = (head(view).detach().numpy() for view in views)

        p_x, p_u = by_hand.softmaxes(x_weak), by_hand.softmaxes(u_weak)
        q = state.aligned(p_x, p_u)
        relative = tau * np.mean([row.max() for row in p_x])
        mask, label = q.max(1) >= relative, q.argmax(1)
        assert 0 < mask.sum() < len(mask), "this batch does not test the mask"
        expected = {
            "supervised": by_hand.supervised(x_weak, LABELS.numpy()),
            "unlabeled": weight * by_hand.unlabeled(u_strong, label, mask),
        }
        assert {name: term.item() for name, term in objective.terms.items()} == pytest.approx(
            expected, abs=1e-9
        )
        assert objective.logged["mask"].item() == pytest.approx(mask.mean())
        np.testing.assert_allclose(method.prior_x.value, state.of_x, atol=1e-12)
        np.testing.assert_allclose(method.prior_u.value, state.of_u, atol=1e-12)

        def loss(at, fixed=(label, mask)):
            labeled = by_hand.supervised(np.stack([at[2] @ row for row in at[0]]), LABELS.numpy())
            return labeled + weight * by_hand.unlabeled([at[2] @ row for row in at[1]], *fixed)

        leaves = [views[0], views[3], head.weight]
        generator = np.random.default_rng(step)
        direction = [generator.standard_normal(leaf.shape) for leaf in leaves]
        found = gradients(objective.loss, leaves)
        slope = sum(float((g.numpy() * d).sum()) for g, d in zip(found, direction, strict=True))
        at = [leaf.detach().numpy() for leaf in leaves]
        assert slope == pytest.approx(by_hand.slope(loss, at, direction), abs=1e-6)
        with torch.no_grad():
            head.weight -= 0.1 * found[2]


def test_the_full_version_equals_the_loops_over_four_steps():
    """With a network that treats rows one by one the two passes agree, and interpolation changes nothing."""
    tau, head = 0.9, drawn_head()
    method = make(AdaMatch, model=Bare(head), full=True, threshold=tau, decay=0.3, weight=0.7)
    assert method.labeled == ("weak", "strong")
    state, shares = Means(0.3, window=128), []
    for step in range(4):
        views = four_views(GROUPS, MU, 5, seed=step, scale=1.0)
        objective = objective_of(method, views, LABELS, step=step)
        x_weak, x_strong, u_weak, u_strong = (head(view).detach().numpy() for view in views)

        p_x = by_hand.softmaxes(x_weak)
        q = state.aligned(p_x, by_hand.softmaxes(u_weak))
        mask = q.max(1) >= tau * np.mean([row.max() for row in p_x])
        shares.append(mask.mean())
        ramp = 0.5 - 0.5 * math.cos(math.pi * min(1, 2 * step / 10))
        y = LABELS.numpy()
        expected = {
            "supervised": (by_hand.supervised(x_weak, y) + by_hand.supervised(x_strong, y)) / 2,
            "unlabeled": 0.7 * ramp * by_hand.unlabeled(u_strong, q.argmax(1), mask),
        }
        assert {name: term.item() for name, term in objective.terms.items()} == pytest.approx(
            expected, abs=1e-9
        )
    assert all(0 < share < 1 for share in shares), "these batches do not test the mask"


class Joint(nn.Module):
    """A body whose output depends on the batch, as BatchNorm's does: the mean of all rows is taken off."""

    def forward(self, z):
        return z - z.mean(0)


def test_the_full_version_interpolates_between_the_two_passes_entry_by_entry(monkeypatch):
    shares = [torch.rand(GROUPS, 3, dtype=torch.float64) for _ in range(2)]
    left = list(shares)
    monkeypatch.setattr(torch, "rand_like", lambda logits: left.pop(0))
    views = four_views(GROUPS, MU)
    method = make(AdaMatch, model=Bare(body=Joint()), full=True)
    objective = objective_of(method, views, LABELS, step=9)

    every = np.concatenate([view.detach().numpy() for view in views])
    labeled = every[: 2 * GROUPS]
    joint, alone = labeled - every.mean(0), labeled - labeled.mean(0)
    share = torch.cat(shares).numpy()
    between = joint + (alone - joint) * share
    assert not np.allclose(joint, alone)
    y = LABELS.numpy()
    expected = (by_hand.supervised(between[:GROUPS], y) + by_hand.supervised(between[GROUPS:], y)) / 2
    assert objective.terms["supervised"].item() == pytest.approx(expected, abs=1e-9)
    of_x = 0.999 / 3 + 0.001 * by_hand.softmaxes(between[:GROUPS]).mean(0)
    np.testing.assert_allclose(method.prior_x.value, of_x, atol=1e-12)


def test_the_labeled_pass_of_the_full_version_is_not_recorded_by_batchnorm():
    def after_a_step(full):
        norm = nn.BatchNorm1d(3, dtype=torch.float64)
        views = four_views(GROUPS, MU)
        views[1] = views[0]
        method = make(AdaMatch, model=Bare(body=norm), full=full)
        method.labeled = ("weak", "strong")  # the same joint pass in both
        objective_of(method, views, LABELS)
        return norm

    full, plain = after_a_step(True), after_a_step(False)
    torch.testing.assert_close(full.running_mean, plain.running_mean)
    torch.testing.assert_close(full.running_var, plain.running_var)
    assert full.num_batches_tracked == plain.num_batches_tracked == 1


def test_the_weight_of_the_full_version_rises_from_0_to_1_until_mid_training():
    method = make(AdaMatch, full=True)
    ramp = [method.ramp(Clock(step, 100)) for step in range(100)]
    assert ramp[0] == 0
    assert ramp[25] == pytest.approx(0.5)
    assert all(value == 1 for value in ramp[50:])
    assert ramp[:51] == sorted(set(ramp[:51])), "not strictly rising"


def test_the_window_is_the_mean_of_the_last_batches():
    recent = uniform_window(torch.full((2,), 0.5), 3)
    news = [torch.tensor([k, 1 - k]) for k in (0.1, 0.2, 0.4, 0.8)]
    means = [recent.update(new) for new in news]
    torch.testing.assert_close(means[0], (news[0] + 1.0) / 3)
    torch.testing.assert_close(means[3], (news[1] + news[2] + news[3]) / 3)


def test_equal_means_leave_the_predictions_as_they_are():
    """p_l == p_u gives q == p, and a labeled confidence of 1 makes the rule FixMatch's."""
    views = four_views(GROUPS, MU, scale=3.0)
    views[0] = (one_sure_row_per_label() * 100).requires_grad_()
    ada, fix = make(AdaMatch, decay=1.0, threshold=0.9), make(FixMatch, threshold=0.9)
    ada.prior_u.seen.fill_(True)  # both means stay uniform
    ours, theirs = (objective_of(method, views, LABELS) for method in (ada, fix))
    assert 0 < theirs.logged["mask"] < 1, "this batch does not test the mask"
    assert ours.logged["mask"] == theirs.logged["mask"]
    torch.testing.assert_close(ours.loss, theirs.loss)


def one_sure_row_per_label():
    return nn.functional.one_hot(LABELS, 3).double()


def test_the_label_is_that_of_the_aligned_prediction():
    views = four_views(GROUPS, MU)
    lean = torch.tensor([1.5, 0.0, -0.5], dtype=torch.float64)
    views[2] = (views[2].detach() * 0.6 + lean).requires_grad_()
    objective = objective_of(make(AdaMatch, threshold=0.0), views, LABELS)  # keeps every row
    p_x, p_u = (by_hand.softmaxes(view.detach().numpy()) for view in (views[0], views[2]))
    q = Means(0.999).aligned(p_x, p_u)
    assert (q.argmax(1) != p_u.argmax(1)).any(), "this batch does not tell the two labels apart"
    every = np.ones(len(q), bool)
    expected = by_hand.unlabeled(views[3].detach().numpy(), q.argmax(1), every)
    assert objective.terms["unlabeled"].item() == pytest.approx(expected, abs=1e-9)


def test_the_threshold_is_relative_to_the_labeled_confidence():
    views = four_views(GROUPS, MU)
    shares = []
    for scale in (0.0, 1.0, 50.0):
        moved = [(views[0].detach() * scale).requires_grad_(), *views[1:]]
        objective = objective_of(make(AdaMatch), moved, LABELS)
        confidence = by_hand.softmaxes(moved[0].detach().numpy()).max(1).mean()
        assert objective.logged["threshold"].item() == pytest.approx(0.95 * confidence)
        shares.append(objective.logged["mask"].item())
    assert shares[0] == 1, "a model that knows nothing of labeled images trains on every row"
    assert shares[0] > shares[1] > shares[2]


@pytest.mark.parametrize("full", [False, True])
def test_no_gradient_reaches_the_weak_view_and_none_the_state(full):
    views, method = four_views(GROUPS, MU), make(AdaMatch, full=full, threshold=0.5)
    objective = objective_of(method, views, LABELS, step=5)
    x_weak, x_strong, u_weak, u_strong = gradients(objective.loss, views)
    assert not u_weak.any()
    assert u_strong.any()
    assert x_weak.any()
    assert x_strong.any() == full, "the strong labeled view is trained on in the full version only"
    assert not any(value.requires_grad for value in method.state_dict().values())


@pytest.mark.parametrize("full", [False, True])
def test_a_restored_method_gives_the_same_next_loss(full):
    method, again = (make(AdaMatch, decay=0.5, full=full, threshold=0.6) for _ in range(2))
    for step in range(2):
        objective_of(method, four_views(GROUPS, MU, seed=step), LABELS, step=step)
    again.load_state_dict(method.state_dict())
    for step in (2, 3):
        views = four_views(GROUPS, MU, seed=step)
        mine, yours = (objective_of(each, views, LABELS, step=step + 5).loss for each in (method, again))
        assert torch.equal(mine, yours)


def test_the_order_of_the_unlabeled_rows_does_not_matter():
    x_weak, x_strong, u_weak, u_strong = views = four_views(GROUPS, MU)
    order = torch.randperm(len(u_weak), generator=torch.Generator().manual_seed(0))
    permuted = [x_weak, x_strong, u_weak[order], u_strong[order]]
    first, second = (objective_of(make(AdaMatch, decay=0.5), each, LABELS) for each in (views, permuted))
    torch.testing.assert_close(first.loss, second.loss)


def test_the_full_version_keeps_the_contract():
    testing.check_method(AdaMatch, full=True)
