"""InstanT: several steps a second way, with the transition matrix carried along, and what must hold of it."""

import by_hand
import numpy as np
import pytest
import torch
from stand_in import Bare, four_views, gradients, labels_of, make, objective_of
from torch import nn

from interlude import testing
from interlude.loop import fit
from interlude.method import Clock
from interlude.methods.adamatch import AdaMatch
from interlude.methods.instant import InstanT, forward_corrected, match_posterior

GROUPS, MU = 4, 3
LABELS = labels_of(GROUPS)


def drawn_head():
    head = nn.Linear(5, 3, dtype=torch.float64)
    nn.init.normal_(head.weight, generator=torch.Generator().manual_seed(0))
    nn.init.zeros_(head.bias)
    return head


def network():
    """A network with features, of which the estimator may make its copy."""
    model = Bare(drawn_head())
    model.num_features = 5
    return model


def class_matrix(entries, scale):
    """rownorm(scale I + sigmoid(W) o (1 - I))."""
    k = len(entries)
    t = np.empty((k, k))
    for i in range(k):
        for j in range(k):
            t[i, j] = scale if i == j else 1 / (1 + np.exp(-entries[i, j]))
        t[i] /= t[i].sum()
    return t


def tau(p, t):
    """T_kk P_(2) + sum over i != k of T_ik P_i."""
    k = int(p.argmax())
    second = sorted(p)[-2]
    return t[k, k] * second + sum(t[i, k] * p[i] for i in range(len(p)) if i != k)


def corrected(strong, label, mask, matrices):
    """-log sum_i p_i T_ik over the kept rows, divided by the number of all rows."""
    total = 0.0
    for row, k, keep, t in zip(strong, label, mask, matrices, strict=True):
        if keep:
            p = by_hand.softmax(row)
            total -= np.log(sum(p[i] * t[i, k] for i in range(len(p))))
    return total / len(strong)


class Alignment:
    """Running mean predictions: that of labeled images starts at 1/K, the other at the first batch."""

    def __init__(self, decay):
        self.decay, self.of_x, self.of_u = decay, np.full(3, 1 / 3), None

    def aligned(self, p_x, p_u):
        self.of_x = self.decay * self.of_x + (1 - self.decay) * p_x.mean(0)
        new = p_u.mean(0)
        self.of_u = new if self.of_u is None else self.decay * self.of_u + (1 - self.decay) * new
        scaled = [row * (self.of_x + 1e-6) / (self.of_u + 1e-6) for row in p_u]
        return np.stack([row / row.sum() for row in scaled])


@pytest.mark.parametrize("posterior", ["flat", "aligned"])
@pytest.mark.parametrize("decay", [0.3, 0.9])
def test_terms_gradients_and_state_equal_the_loops_over_five_steps(decay, posterior):
    """Two steps of warm-up, then three with the matrix, whose entries are moved as training would."""
    weight, scale, base, head = 0.7, 2.0, 0.8, drawn_head()
    method = make(
        InstanT, model=Bare(head), decay=decay, weight=weight, scale=scale, threshold=base, warmup=0.2,
        posterior=posterior,
    )  # fmt: skip
    entries, state = method.transition.entries, Alignment(decay)
    for step in range(5):
        views = four_views(GROUPS, MU, 5, seed=step, scale=1.0)
        objective = objective_of(method, views, LABELS, step=step)
        x_weak, _, u_weak, u_strong = (head(view).detach().numpy() for view in views)

        q = state.aligned(by_hand.softmaxes(x_weak), by_hand.softmaxes(u_weak))
        label, warm = q.argmax(1), step < 2
        t = class_matrix(entries.detach().numpy().reshape(3, 3), scale)
        p = q if posterior == "aligned" else by_hand.softmaxes(q / 0.5)
        thresholds = [base * q.max(1).mean() + (0 if warm else tau(row, t)) for row in p]
        mask = np.array([row.max() >= min(c, 0.99) for row, c in zip(q, thresholds, strict=True)])
        assert 0 < mask.sum() < len(mask), "this batch does not test the mask"

        def unlabeled(strong, w, fixed=(label, mask, warm)):
            label, mask, warm = fixed
            if warm:
                return weight * by_hand.unlabeled(strong, label, mask)
            return weight * corrected(strong, label, mask, [class_matrix(w, scale)] * len(label))

        expected = {
            "supervised": by_hand.supervised(x_weak, LABELS.numpy()),
            "unlabeled": unlabeled(u_strong, entries.detach().numpy().reshape(3, 3)),
        }
        assert {name: term.item() for name, term in objective.terms.items()} == pytest.approx(
            expected, abs=1e-9
        )
        assert objective.logged["mask"].item() == pytest.approx(mask.mean())

        leaves = [views[3], head.weight, entries]
        generator = np.random.default_rng(step)
        direction = [generator.standard_normal(leaf.shape) for leaf in leaves]
        found = gradients(objective.terms["unlabeled"], leaves)
        slope = sum(float((g.numpy() * d).sum()) for g, d in zip(found, direction, strict=True))

        def loss(at, unlabeled=unlabeled):
            return unlabeled([at[1] @ row for row in at[0]], at[2].reshape(3, 3))

        at = [leaf.detach().numpy() for leaf in leaves]
        assert slope == pytest.approx(by_hand.slope(loss, at, direction), abs=1e-6)
        assert found[2].any() != warm, "the matrix is learned after the warm-up"
        with torch.no_grad():
            head.weight -= 0.1 * found[1]
            entries -= 5.0 * found[2]


def test_the_paper_s_version_equals_the_loops_over_three_steps():
    """T of each image from a second network; its own term, from labeled rows, is all that trains it."""
    method = make(
        InstanT, model=network(), transition="instance", posterior="aligned", decay=0.5, warmup=0.0,
        threshold=0.6, scale=1.0,
    )  # fmt: skip
    head, estimator, state, shares = method.model.head, method.transition.network.head, Alignment(0.5), []
    for step in range(3):
        views = four_views(GROUPS, MU, 5, seed=step, scale=1.0)
        objective = objective_of(method, views, LABELS, step=step)
        x_weak, _, u_weak, u_strong = (head(view).detach().numpy() for view in views)
        of_x, of_u = (
            [np.stack([by_hand.softmax(row) for row in m.reshape(3, 3) + np.eye(3)]) for m in out]
            for out in (estimator(views[0]).detach().numpy(), estimator(views[2]).detach().numpy())
        )

        p_x = by_hand.softmaxes(x_weak)
        q = state.aligned(p_x, by_hand.softmaxes(u_weak))
        thresholds = [0.6 * q.max(1).mean() + tau(row, t) for row, t in zip(q, of_u, strict=True)]
        mask = np.array([row.max() >= min(c, 0.99) for row, c in zip(q, thresholds, strict=True)])
        shares.append(mask.mean())
        match = [
            -sum(p[j] * np.log(t[y, j]) for j in range(3))
            for p, t, y in zip(p_x, of_x, LABELS.tolist(), strict=True)
        ]
        expected = {
            "supervised": by_hand.supervised(x_weak, LABELS.numpy()),
            "unlabeled": corrected(u_strong, q.argmax(1), mask, of_u),
            "transition": np.mean(match),
        }
        assert {name: term.item() for name, term in objective.terms.items()} == pytest.approx(
            expected, abs=1e-9
        )
        with torch.no_grad():
            estimator.weight -= 0.5 * gradients(objective.terms["transition"], [estimator.weight])[0]
    assert any(0 < share < 1 for share in shares), "no batch tests the mask"


def test_in_the_paper_s_version_labels_alone_train_the_matrix():
    method = make(InstanT, model=network(), transition="instance", warmup=0.0, threshold=0.0)
    objective = objective_of(method, four_views(GROUPS, MU, 5), LABELS)
    estimator, head = method.transition.network.head.weight, method.model.head.weight
    assert not gradients(objective.terms["unlabeled"], [estimator])[0].any()
    assert gradients(objective.terms["transition"], [estimator])[0].any()
    assert not gradients(objective.terms["transition"], [head])[0].any(), "the posterior is a fixed target"


def test_soft_labels_mix_the_rows_of_the_matrix():
    t = torch.rand(1, 3, 3, dtype=torch.float64).softmax(-1)
    p = torch.tensor([[0.5, 0.3, 0.2]], dtype=torch.float64)
    y = torch.tensor([[0.25, 0.75, 0.0]], dtype=torch.float64)
    row = 0.25 * t[0, 0] + 0.75 * t[0, 1]
    torch.testing.assert_close(match_posterior(t, y, p), -(p[0] * row.log()).sum())
    hard, sure = torch.tensor([1]), torch.tensor([[0.0, 1.0, 0.0]], dtype=torch.float64)
    torch.testing.assert_close(match_posterior(t, hard, p), match_posterior(t, sure, p))


def test_the_model_descends_the_unlabeled_term_once():
    """The authors call backward on it twice without clearing gradients between: their weight 1 acts as 2."""
    run = testing.toy_run(InstanT, threshold=0.0, warmup=0.0)
    (objective,) = run.method.step(run.batch(0), Clock(0, 6))
    weights = [p for p in run.method.model.parameters() if p.requires_grad]
    parts = [torch.autograd.grad(term, weights, retain_graph=True) for term in objective.terms.values()]
    run.optimizer.step(0, objective.loss, objective.rate)
    for weight, labeled, unlabeled in zip(weights, *parts, strict=True):
        torch.testing.assert_close(weight.grad, labeled + unlabeled, atol=1e-5, rtol=1e-3)
    assert max(part.abs().max() for part in parts[1]) > 1e-2, "too small to tell once from twice"


def test_one_step_moves_the_matrix_at_its_own_rate():
    moved = []
    for rate in (1 / 3, 1.0):
        run = testing.toy_run(InstanT, threshold=0.0, warmup=0.0, transition_rate=rate)
        before = run.method.transition.entries.detach().clone()
        (objective,) = run.method.step(run.batch(0), Clock(0, 6))
        run.optimizer.step(0, objective.loss, objective.rate)
        moved.append(run.method.transition.entries.detach() - before)
    assert moved[0].any()
    torch.testing.assert_close(3 * moved[0], moved[1], atol=1e-6, rtol=1e-4)


def test_the_matrix_takes_no_weight_decay():
    run = testing.toy_run(InstanT)
    groups = run.optimizer.torch.param_groups
    (own,) = [group for group in groups if any(p is run.method.transition.entries for p in group["params"])]
    assert own["weight_decay"] == 0
    assert own["scale"] == pytest.approx(1 / 3)


def test_training_goes_on_after_the_warm_up():
    """The authors' code crashes there: it adds to a counter that was never made."""
    run = testing.toy_run(InstanT, warmup=0.5)
    before = run.method.transition.entries.detach().clone()
    fit(run)
    assert run.step == 6
    assert not torch.equal(before, run.method.transition.entries)


def test_the_rows_of_the_matrix_sum_to_one_and_its_diagonal_leads():
    _, t = make(InstanT, scale=5.0).transition(torch.zeros(1, 3), torch.zeros(4, 3))
    assert t.shape == (4, 3, 3)
    torch.testing.assert_close(t.sum(-1), torch.ones(4, 3, dtype=torch.float64))
    beside = 1 / (1 + np.exp(2.0))
    torch.testing.assert_close(t[0, 1, 1].item(), 5 / (5 + 2 * beside))


def test_a_matrix_without_noise_corrects_nothing():
    logits, label = torch.randn(5, 3, dtype=torch.float64), torch.tensor([0, 1, 2, 1, 0])
    column = nn.functional.one_hot(label, 3).double()
    torch.testing.assert_close(
        forward_corrected(logits, column),
        nn.functional.cross_entropy(logits, label, reduction="none"),
        atol=1e-9,
        rtol=1e-9,
    )


def test_the_more_noise_the_higher_the_threshold():
    method = make(InstanT, posterior="aligned")
    q = torch.tensor([[0.6, 0.3, 0.1]], dtype=torch.float64)
    label_is_clean, label_is_noise = (
        torch.tensor([[0.8, beside, beside]], dtype=torch.float64) for beside in (0.0, 0.4)
    )
    assert method.threshold_of(q, label_is_clean).item() == pytest.approx(0.8 * 0.3)
    assert method.threshold_of(q, label_is_noise).item() == pytest.approx(0.8 * 0.3 + 0.4 * 0.4)


def test_in_the_warm_up_the_rule_is_alignment_and_a_share_of_the_mean_confidence():
    """With the same targets and the same mask as AdaMatch's, the same loss."""
    views = four_views(GROUPS, MU, scale=1.5)
    ours = objective_of(make(InstanT, decay=0.5, warmup=1.0), views, LABELS)
    q = Alignment(0.5).aligned(*(by_hand.softmaxes(views[k].detach().numpy()) for k in (0, 2)))
    share = 0.9 * q.max(1).mean() / by_hand.softmaxes(views[0].detach().numpy()).max(1).mean()
    theirs = objective_of(make(AdaMatch, decay=0.5, threshold=share), views, LABELS)
    assert 0 < theirs.logged["mask"] < 1, "this batch does not test the mask"
    torch.testing.assert_close(ours.loss, theirs.loss)


def test_the_threshold_never_exceeds_its_cap():
    method = make(InstanT, threshold=5.0, decay=1.0)
    method.prior_u.seen.fill_(True)  # no alignment
    x = torch.zeros(GROUPS, 3, dtype=torch.float64)
    u = torch.tensor([[9.0, 0.0, 0.0], [3.0, 0.0, 0.0]], dtype=torch.float64)  # confidences 0.9998 and 0.91
    assert objective_of(method, [x, x, u, u], LABELS).logged["mask"] == 0.5


def test_no_gradient_reaches_the_weak_view():
    views = four_views(GROUPS, MU)
    objective = objective_of(make(InstanT, warmup=0.0, threshold=0.3), views, LABELS)
    _, _, u_weak, u_strong = gradients(objective.loss, views)
    assert not u_weak.any()
    assert u_strong.any()


def test_a_restored_method_gives_the_same_next_loss():
    method, again = (make(InstanT, decay=0.5, warmup=0.0) for _ in range(2))
    for step in range(2):
        objective = objective_of(method, four_views(GROUPS, MU, seed=step), LABELS, step=step)
        entries = method.transition.entries
        (slope,) = gradients(objective.loss, [entries])
        with torch.no_grad():
            entries -= 10 * slope
    views = four_views(GROUPS, MU, seed=2)
    fresh = objective_of(make(InstanT, decay=0.5, warmup=0.0), views, LABELS).loss
    again.load_state_dict(method.state_dict())
    mine, yours = (objective_of(each, views, LABELS).loss for each in (method, again))
    assert torch.equal(mine, yours)
    assert not torch.equal(mine, fresh), "the state makes no difference here"


def test_the_order_of_the_unlabeled_rows_does_not_matter():
    x_weak, x_strong, u_weak, u_strong = views = four_views(GROUPS, MU)
    order = torch.randperm(len(u_weak), generator=torch.Generator().manual_seed(0))
    permuted = [x_weak, x_strong, u_weak[order], u_strong[order]]
    first, second = (objective_of(make(InstanT, warmup=0.0), each, LABELS) for each in (views, permuted))
    torch.testing.assert_close(first.loss, second.loss)


def test_the_paper_s_version_keeps_the_contract():
    testing.check_method(InstanT, transition="instance", posterior="aligned")
