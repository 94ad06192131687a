"""SoftMatch: several steps a second way, with the running Gaussian carried along, and what must hold."""

import by_hand
import numpy as np
import pytest
import torch
from stand_in import Bare, four_views, gradients, labels_of, make, objective_of
from torch import nn

from interlude import testing
from interlude.methods.softmatch import SoftMatch

GROUPS, MU = 4, 3
LABELS = labels_of(GROUPS)


class Gaussian:
    """Running mean, variance and mean prediction; they are updated first and used then."""

    def __init__(self, decay, sigmas=2.0, paper=False):
        self.decay, self.sigmas, self.paper = decay, sigmas, paper
        self.mean, self.variance, self.prior = 1 / 3, 1.0, None

    def move(self, old, new):
        return self.decay * old + (1 - self.decay) * new

    def weights(self, p):
        self.prior = p.mean(0) if self.prior is None else self.move(self.prior, p.mean(0))
        q = np.empty_like(p)
        for i, row in enumerate(p):
            scaled = [row[c] * (1 / 3 + 1e-6) / (self.prior[c] + 1e-6) for c in range(len(row))]
            q[i] = np.array(scaled) / sum(scaled)
        seen = [row.max() for row in (p if self.paper else q)]
        average = sum(seen) / len(seen)
        spread = sum((c - average) ** 2 for c in seen) / (len(seen) - 1)
        self.mean, self.variance = self.move(self.mean, average), self.move(self.variance, spread)
        return np.array([self.weight(row.max()) for row in q])

    def weight(self, c):
        if c >= self.mean:
            return 1.0
        return np.exp(-((c - self.mean) ** 2) / (2 * self.variance / self.sigmas**2))


def weighted(strong, label, weight):
    """Mean over all rows of the weighted cross-entropy."""
    total = sum(w * by_hand.cross_entropy(row, c) for row, c, w in zip(strong, label, weight, strict=True))
    return total / len(strong)


@pytest.mark.parametrize("paper", [False, True])
@pytest.mark.parametrize(("decay", "sigmas"), [(0.0, 2.0), (0.3, 2.0), (0.6, 1.0), (0.6, 3.0)])
def test_terms_gradients_and_state_equal_the_loops_over_four_steps(decay, sigmas, paper):
    head = nn.Linear(5, 3, dtype=torch.float64)
    nn.init.normal_(head.weight, generator=torch.Generator().manual_seed(0))
    nn.init.zeros_(head.bias)
    method = make(SoftMatch, model=Bare(head), decay=decay, sigmas=sigmas, weight=0.7, paper=paper)
    state = Gaussian(decay, sigmas, paper)
    for step in range(4):
        views = four_views(GROUPS, MU, 5, seed=step, scale=1.0)
        objective = objective_of(method, views, LABELS, step=step)
        x_weak, _, u_weak, u_strong = (head(view).detach().numpy() for view in views)

        p = by_hand.softmaxes(u_weak)
        weight, label = state.weights(p), p.argmax(1)
        assert step == 0 or 0 < weight.mean() < 1, "this batch does not test the weights"
        expected = {
            "supervised": by_hand.supervised(x_weak, LABELS.numpy()),
            "unlabeled": 0.7 * weighted(u_strong, label, weight),
        }
        assert {name: term.item() for name, term in objective.terms.items()} == pytest.approx(
            expected, abs=1e-9
        )
        assert objective.logged["weight"].item() == pytest.approx(weight.mean())
        np.testing.assert_allclose(method.mean.value, state.mean, atol=1e-12)
        np.testing.assert_allclose(method.variance.value, state.variance, atol=1e-12)
        np.testing.assert_allclose(method.prior.value, state.prior, atol=1e-12)

        def loss(at, fixed=(label, weight)):
            return 0.7 * weighted([at[1] @ row for row in at[0]], *fixed)

        leaves = [views[3], head.weight]
        generator = np.random.default_rng(step)
        direction = [generator.standard_normal(leaf.shape) for leaf in leaves]
        found = gradients(objective.terms["unlabeled"], leaves)
        slope = sum(float((g.numpy() * d).sum()) for g, d in zip(found, direction, strict=True))
        at = [leaf.detach().numpy() for leaf in leaves]
        assert slope == pytest.approx(by_hand.slope(loss, at, direction), abs=1e-6)
        with torch.no_grad():
            head.weight -= 0.1 * found[1]


def test_the_weight_is_one_from_the_mean_on_and_rises_strictly_below_it():
    method = make(SoftMatch)
    method.mean.value.fill_(0.7)
    method.variance.value.fill_(0.04)
    confidence = torch.linspace(0.34, 1.0, 34, dtype=torch.float64)
    weight = method.gaussian(confidence)
    assert (weight[confidence >= 0.7] == 1).all()
    below = weight[confidence < 0.7]
    assert (below < 1).all()
    assert (below.diff() > 0).all()
    one_sigma = method.gaussian(
        torch.tensor([0.5], dtype=torch.float64)
    )  # mean - sigma: exp(-n^2 / 2), n = 2
    torch.testing.assert_close(one_sigma, torch.tensor([np.exp(-2.0)]))


def skewed_views():
    """Weak predictions that prefer class 0 so much that alignment changes the label of some rows."""
    views = four_views(GROUPS, MU)
    lean = torch.tensor([1.5, 0.0, -0.5], dtype=torch.float64)
    views[2] = (views[2].detach() * 0.6 + lean).requires_grad_()
    return views


def test_the_label_is_that_of_the_raw_prediction_and_the_weight_of_the_aligned_one():
    """The easiest thing to get wrong: here the two labels differ in some rows."""
    method, views = make(SoftMatch, decay=0.5), skewed_views()
    objective = objective_of(method, views, LABELS)
    p = by_hand.softmaxes(views[2].detach().numpy())
    aligned = p / p.mean(0)
    assert (p.argmax(1) != aligned.argmax(1)).any(), "this batch does not tell the two labels apart"
    weight = Gaussian(0.5).weights(p)
    strong = views[3].detach().numpy()
    expected, wrong = (weighted(strong, each.argmax(1), weight) for each in (p, aligned))
    assert objective.terms["unlabeled"].item() == pytest.approx(expected, abs=1e-9)
    assert objective.terms["unlabeled"].item() != pytest.approx(wrong, abs=1e-3)
    raw = np.array([Gaussian(0.5, paper=True).weight(row.max()) for row in p])
    assert weight != pytest.approx(raw, abs=1e-3), "this batch does not tell the two weights apart"


def test_mean_and_variance_are_of_the_raw_confidences_in_the_paper_only():
    views = skewed_views()
    ours, paper = make(SoftMatch, decay=0.0), make(SoftMatch, decay=0.0, paper=True)
    for method in (ours, paper):
        objective_of(method, views, LABELS)
    p = views[2].detach().softmax(-1)
    torch.testing.assert_close(paper.mean.value, p.max(-1).values.mean())
    torch.testing.assert_close(paper.variance.value, p.max(-1).values.var())
    assert abs(ours.mean.value - paper.mean.value) > 1e-3


def test_without_movement_the_state_stays_at_its_start():
    method = make(SoftMatch, decay=1.0)
    for step in range(2):
        objective_of(method, four_views(GROUPS, MU, seed=step), LABELS)
    torch.testing.assert_close(method.mean.value, torch.tensor(1 / 3, dtype=torch.float64))
    assert method.variance.value == 1


def test_the_mean_prediction_starts_at_the_first_batch():
    method, views = make(SoftMatch), four_views(GROUPS, MU)
    objective_of(method, views, LABELS)
    torch.testing.assert_close(method.prior.value, views[2].detach().softmax(-1).mean(0))


@pytest.mark.parametrize("rows", [1, 3])
def test_a_variance_of_zero_gives_finite_weights(rows):
    """In USB the variance of one row is NaN, and so is every weight from then on."""
    method = make(SoftMatch, decay=0.0)
    x = torch.zeros(GROUPS, 3, dtype=torch.float64)
    u = torch.tensor([[1.0, 0.0, 0.0]] * rows, dtype=torch.float64)
    objective = objective_of(method, [x, x, u, u], LABELS)
    assert method.variance.value < 1e-12
    assert objective.logged["weight"] == 1
    assert objective.loss.isfinite()


def test_no_gradient_reaches_the_weak_view_and_none_the_state():
    views, method = four_views(GROUPS, MU), make(SoftMatch, decay=0.5)
    objective = objective_of(method, views, LABELS)
    _, _, u_weak, u_strong = gradients(objective.loss, views)
    assert not u_weak.any()
    assert u_strong.any()
    assert not any(value.requires_grad for value in method.state_dict().values())


def test_a_restored_method_gives_the_same_next_loss():
    method, again = (make(SoftMatch, decay=0.5) for _ in range(2))
    for step in range(2):
        objective_of(method, four_views(GROUPS, MU, seed=step), LABELS)
    views = four_views(GROUPS, MU, seed=2)
    fresh = objective_of(make(SoftMatch, decay=0.5), views, LABELS).loss
    again.load_state_dict(method.state_dict())
    mine, yours = (objective_of(each, views, LABELS).loss for each in (method, again))
    assert torch.equal(mine, yours)
    assert not torch.equal(mine, fresh), "the state makes no difference here"


def test_the_order_of_the_unlabeled_rows_does_not_matter():
    x_weak, x_strong, u_weak, u_strong = views = four_views(GROUPS, MU)
    order = torch.randperm(len(u_weak), generator=torch.Generator().manual_seed(0))
    permuted = [x_weak, x_strong, u_weak[order], u_strong[order]]
    first, second = (objective_of(make(SoftMatch, decay=0.5), each, LABELS) for each in (views, permuted))
    torch.testing.assert_close(first.loss, second.loss)


def test_two_processes_estimate_what_one_does(monkeypatch):
    """USB's variance crashes with two processes; a mean of the two variances would be too small."""
    confidence = torch.tensor([0.4, 0.5, 0.9, 0.8], dtype=torch.float64)
    whole, half = make(SoftMatch, decay=0.0), make(SoftMatch, decay=0.0)
    whole.estimate(confidence)
    answers = [  # what an all-reduce of the two halves would give, in the order it is asked
        confidence.mean(),
        (confidence - confidence.mean()).square().mean(),
    ]
    from interlude import distributed

    monkeypatch.setattr(distributed, "count", lambda rows: 2 * rows)
    monkeypatch.setattr(distributed, "mean", lambda value: answers.pop(0) if answers else value)
    half.estimate(confidence[:2])
    torch.testing.assert_close(half.mean.value, whole.mean.value)
    torch.testing.assert_close(half.variance.value, whole.variance.value)
    torch.testing.assert_close(whole.variance.value, confidence.var())


def test_the_paper_s_variant_keeps_the_contract():
    testing.check_method(SoftMatch, paper=True)
