"""FreeMatch: several steps a second way, with the running state carried along, and what must hold of it."""

import by_hand
import numpy as np
import pytest
import torch
from stand_in import Bare, computing_in, four_views, gradients, labels_of, make, objective_of
from torch import nn

from interlude.methods.fixmatch import FixMatch
from interlude.methods.freematch import FreeMatch
from interlude.methods.interlude_plus import InterLUDEPlus
from interlude.parts.adaptive import AdaptiveThreshold
from interlude.parts.losses import probabilities

GROUPS, MU = 4, 3
LABELS = labels_of(GROUPS)


@pytest.mark.parametrize("decay", [0.0, 0.3, 0.6])
@pytest.mark.parametrize("fairness_weight", [0.05, -0.2])
def test_terms_gradients_and_state_equal_the_loops_over_four_steps(decay, fairness_weight):
    head = nn.Linear(5, 3, dtype=torch.float64)
    nn.init.normal_(head.weight, generator=torch.Generator().manual_seed(0))
    nn.init.zeros_(head.bias)
    method = make(FreeMatch, model=Bare(head), decay=decay, fairness_weight=fairness_weight, weight=0.7)
    state = by_hand.Thresholds(3, decay)
    for step in range(4):
        views = four_views(GROUPS, MU, 5, seed=step, scale=1.0)
        objective = objective_of(method, views, LABELS, step=step)
        x_weak, _, u_weak, u_strong = (head(view).detach().numpy() for view in views)

        q = by_hand.softmaxes(u_weak)
        state.update(q)
        mask, label = state.mask(q), q.argmax(1)
        assert 0 < mask.sum() < len(mask), "this batch does not test the mask"
        a, kept = by_hand.fairness_targets(state, by_hand.softmaxes(u_strong), mask)
        expected = {
            "supervised": by_hand.supervised(x_weak, LABELS.numpy()),
            "unlabeled": 0.7 * by_hand.unlabeled(u_strong, label, mask),
            "fairness": fairness_weight * by_hand.fairness(u_strong, mask, a, kept),
        }
        assert {name: term.item() for name, term in objective.terms.items()} == pytest.approx(
            expected, abs=1e-9
        )
        np.testing.assert_allclose(method.threshold.tau.value, state.tau, atol=1e-12)
        np.testing.assert_allclose(method.threshold.prior.value, state.prior, atol=1e-12)
        np.testing.assert_allclose(method.threshold.histogram.value, state.histogram, atol=1e-12)

        def loss(at, fixed=(label, mask, a, kept)):
            label, mask, a, kept = fixed
            strong = [at[1] @ row for row in at[0]]
            fair = by_hand.fairness(strong, mask, a, kept)
            return 0.7 * by_hand.unlabeled(strong, label, mask) + fairness_weight * fair

        leaves = [views[3], head.weight]
        generator = np.random.default_rng(step)
        direction = [generator.standard_normal(leaf.shape) for leaf in leaves]
        found = gradients(objective.loss - objective.terms["supervised"], leaves)
        slope = sum(float((g.numpy() * d).sum()) for g, d in zip(found, direction, strict=True))
        at = [leaf.detach().numpy() for leaf in leaves]
        assert slope == pytest.approx(by_hand.slope(loss, at, direction), abs=1e-6)
        with torch.no_grad():
            head.weight -= 0.1 * found[1]


def test_the_state_is_updated_before_it_is_used():
    views = four_views(GROUPS, MU)
    method = make(FreeMatch, decay=0.0)  # without memory, the threshold of a batch is the batch's own
    objective_of(method, views, LABELS)
    q = probabilities(views[2])
    torch.testing.assert_close(method.threshold.tau.value, q.max(-1).values.mean())
    torch.testing.assert_close(method.threshold.prior.value, q.mean(0))


def test_a_uniform_prior_and_a_fixed_tau_give_the_mask_of_fixmatch():
    views = four_views(GROUPS, MU, scale=3.0)
    free, fix = make(FreeMatch, decay=1.0, fairness_weight=0.0), make(FixMatch, threshold=0.8)
    free.threshold.tau.value.fill_(0.8)
    ours, theirs = objective_of(free, views, LABELS), objective_of(fix, views, LABELS)
    assert 0 < theirs.logged["mask"] < 1, "this batch does not test the mask"
    assert ours.logged["mask"] == theirs.logged["mask"]
    torch.testing.assert_close(ours.terms["unlabeled"], theirs.terms["unlabeled"])
    torch.testing.assert_close(ours.loss, theirs.loss)


def test_the_fairness_gradient_at_the_logits_of_b_is_a_minus_b():
    """The published sign: descent moves b away from a. Logits of b are the logarithms of p_bar / h_bar."""
    with computing_in(torch.float64):
        threshold = AdaptiveThreshold(3, 0.5)
    threshold.prior.value = torch.tensor([0.5, 0.3, 0.2], dtype=torch.float64)
    threshold.histogram.value = torch.tensor([0.4, 0.4, 0.2], dtype=torch.float64)
    strong = torch.tensor(
        [[3, 0, 0.5], [0, 2, 1], [0.2, 0, 1], [2, 1, 0]], dtype=torch.float64, requires_grad=True
    )
    value = threshold.fairness(strong, torch.ones(4, dtype=torch.float64), floor=0.0)

    p = strong.detach().softmax(-1).numpy()
    p_bar, h_bar = p.mean(0), np.array([2, 1, 1]) / 4
    a = by_hand.sum_norm(np.array([0.5 / 0.4, 0.3 / 0.4, 0.2 / 0.2]))
    b = by_hand.sum_norm(p_bar / h_bar)
    at_p_bar = (a - b) / p_bar  # d log(p_bar / h_bar) = d p_bar / p_bar
    expected = np.stack([row * (at_p_bar - row @ at_p_bar) for row in p]) / 4
    np.testing.assert_allclose(gradients(value, [strong])[0].numpy(), expected, atol=1e-12)


def test_descending_the_fairness_moves_b_away_from_a():
    with computing_in(torch.float64):
        threshold = AdaptiveThreshold(3, 0.5)
    threshold.prior.value = torch.tensor([0.5, 0.3, 0.2], dtype=torch.float64)
    a = threshold.prior.value / threshold.prior.value.sum()
    strong = torch.eye(3, dtype=torch.float64).mul(3).requires_grad_()
    mask = torch.ones(3, dtype=torch.float64)

    def distance(logits):
        b = logits.softmax(-1).mean(0)
        return float((a * (a / b).log()).sum())

    (gradient,) = gradients(threshold.fairness(strong, mask), [strong])
    assert distance(strong.detach() - 0.1 * gradient) > distance(strong.detach())


def test_permuting_the_classes_permutes_the_state():
    classes = torch.tensor([2, 0, 1])
    plain, permuted = (make(FreeMatch, decay=0.5) for _ in range(2))
    for step in range(3):
        views = four_views(GROUPS, MU, seed=step)
        renamed = [view[:, classes] for view in views]
        before = objective_of(plain, views, LABELS)
        after = objective_of(permuted, renamed, classes.argsort()[LABELS])
        torch.testing.assert_close(after.loss, before.loss)
        for average in ("prior", "histogram"):
            mine, yours = (getattr(method.threshold, average).value for method in (plain, permuted))
            torch.testing.assert_close(yours, mine[classes])
        torch.testing.assert_close(permuted.threshold.tau.value, plain.threshold.tau.value)


def test_no_gradient_reaches_the_weak_view_and_none_the_state():
    views = four_views(GROUPS, MU)
    method = make(FreeMatch, decay=0.5)
    objective = objective_of(method, views, LABELS)
    assert not gradients(objective.loss, views)[2].any()
    assert not any(value.requires_grad for value in method.state_dict().values())


def test_a_restored_method_gives_the_same_next_loss():
    method, again = (make(FreeMatch, decay=0.5) for _ in range(2))
    for step in range(2):
        objective_of(method, four_views(GROUPS, MU, seed=step), LABELS)
    fresh = objective_of(make(FreeMatch, decay=0.5), four_views(GROUPS, MU, seed=2), LABELS).loss
    again.load_state_dict(method.state_dict())
    mine, yours = (
        objective_of(each, four_views(GROUPS, MU, seed=2), LABELS).loss for each in (method, again)
    )
    assert torch.equal(mine, yours)
    assert not torch.equal(mine, fresh), "the state makes no difference here"


def test_the_order_of_the_unlabeled_rows_does_not_matter():
    x_weak, x_strong, u_weak, u_strong = views = four_views(GROUPS, MU)
    order = torch.randperm(len(u_weak), generator=torch.Generator().manual_seed(0))
    permuted = [x_weak, x_strong, u_weak[order], u_strong[order]]
    first, second = (objective_of(make(FreeMatch, decay=0.5), each, LABELS) for each in (views, permuted))
    torch.testing.assert_close(first.loss, second.loss)


def test_early_on_nearly_every_row_is_kept():
    objective = objective_of(make(FreeMatch), four_views(GROUPS, MU), LABELS)
    assert objective.logged["mask"] == 1, "with a decay of 0.999 the first thresholds lie at 1/K"


def test_interlude_plus_with_everything_off_is_freematch():
    free, plus = make(FreeMatch, decay=0.3), make(InterLUDEPlus, decay=0.3, alpha=0.0, delta_weight=0.0)
    for step in range(3):
        views = four_views(GROUPS, MU, seed=step)
        ours, theirs = (objective_of(method, views, LABELS, step=step) for method in (plus, free))
        assert 0 < ours.logged["mask"] < 1, "this batch does not test the mask"
        torch.testing.assert_close(ours.loss, theirs.loss)


def test_an_absent_class_changes_the_value_of_the_fairness_but_not_its_gradient():
    with computing_in(torch.float64):
        threshold = AdaptiveThreshold(3, 0.5)
    strong = torch.tensor([[3.0, 0, 0], [0, 2.0, 0]], dtype=torch.float64, requires_grad=True)
    mask = torch.ones(2, dtype=torch.float64)
    values = [threshold.fairness(strong, mask, floor=floor) for floor in (1e-9, 1e-12)]
    assert abs(values[0] - values[1]) > 1
    first, second = (gradients(value, [strong])[0] for value in values)
    torch.testing.assert_close(first, second, atol=1e-8, rtol=0)
