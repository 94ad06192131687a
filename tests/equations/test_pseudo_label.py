"""Pseudo-Label: the loss a second way, and what must hold of it."""

import by_hand
import pytest
import torch
from stand_in import Bare, batch_of, four_views, gradients, labels_of, make
from torch import nn

from interlude.method import Clock
from interlude.methods.pseudo_label import PseudoLabel
from interlude.methods.supervised import Supervised

GROUPS, MU = 4, 3
LABELS = labels_of(GROUPS)


def two_views(seed=0, scale=2.0, width=3):
    x, _, u, _ = four_views(GROUPS, MU, width, seed=seed, scale=scale)
    return x, u


def objective_of(method, x, u, *, step=9, total=10):
    (objective,) = method.step(batch_of([x], LABELS, [u]), Clock(step, total))
    return objective


@pytest.mark.parametrize("options", [{}, {"threshold": 0.8, "weight": 3.0}, {"threshold": 0.9, "ramp": 0.8}])
def test_terms_and_gradients_equal_the_loops(options):
    numbers = {"threshold": 0.95, "weight": 1.0, "ramp": 0.4} | options
    head = nn.Linear(5, 3, dtype=torch.float64)
    nn.init.normal_(head.weight, generator=torch.Generator().manual_seed(0))
    method = make(PseudoLabel, model=Bare(head), **options)
    for step in (0, 1, 3, 8):
        x, u = two_views(seed=step, scale=1.5, width=5)
        objective = objective_of(method, x, u, step=step)
        logits_x, logits_u = (head(view).detach().numpy() for view in (x, u))

        q = by_hand.softmaxes(logits_u)
        mask, label = q.max(1) >= numbers["threshold"], q.argmax(1)
        assert 0 < mask.mean() < 1, "this batch does not test the mask"
        alpha = numbers["weight"] * min(1, step / 10 / numbers["ramp"])
        expected = {
            "supervised": by_hand.supervised(logits_x, LABELS.numpy()),
            "unlabeled": alpha * by_hand.unlabeled(logits_u, label, mask),
        }
        assert {name: term.item() for name, term in objective.terms.items()} == pytest.approx(
            expected, abs=1e-12
        )
        assert objective.logged["mask"].item() == pytest.approx(mask.mean())

        def loss(at, alpha=alpha, label=label, mask=mask):
            of_x, of_u = ([at[2] @ row + at[3] for row in view] for view in at[:2])
            labeled = sum(by_hand.cross_entropy(row, c) for row, c in zip(of_x, LABELS, strict=True))
            return labeled / GROUPS + alpha * by_hand.unlabeled(of_u, label, mask)

        leaves = [x, u, head.weight, head.bias]
        generator = torch.Generator().manual_seed(step)
        direction = [torch.randn(leaf.shape, generator=generator).double() for leaf in leaves]
        found = gradients(objective.loss, leaves)
        slope = sum((g * d).sum().item() for g, d in zip(found, direction, strict=True))
        at = [leaf.detach().numpy() for leaf in leaves]
        assert slope == pytest.approx(by_hand.slope(loss, at, [d.numpy() for d in direction]), abs=1e-7)


def test_the_term_is_the_mean_of_minus_log_confidence_over_the_kept_rows():
    x, u = two_views()
    objective = objective_of(make(PseudoLabel, threshold=0.8), x, u, step=2)
    confidence = u.detach().softmax(-1).max(-1).values
    mask = confidence >= 0.8
    assert 0 < mask.double().mean() < 1, "this batch does not test the mask"
    torch.testing.assert_close(objective.terms["unlabeled"].detach(), 0.5 * -(mask * confidence.log()).mean())


def test_a_row_counts_by_its_own_mask():
    """Public code multiplies (B,) by (B, 1): every row then counts with the mean of the mask."""
    x, u = two_views()
    objective = objective_of(make(PseudoLabel, threshold=0.8), x, u)
    confidence = u.detach().softmax(-1).max(-1).values
    mask = (confidence >= 0.8).double()
    assert 0 < mask.mean() < 1, "this batch does not test the mask"
    broadcast = mask.mean() * -confidence.log().mean()
    assert abs(objective.terms["unlabeled"].item() - broadcast.item()) > 0.01
    _, at_u = gradients(objective.terms["unlabeled"], [x, u])
    assert ((at_u.abs().sum(-1) > 0) == mask.bool()).all(), "a dropped row has a gradient"


def test_the_first_step_is_supervised_and_after_the_ramp_the_step_does_not_matter():
    x, u = two_views()
    method = make(PseudoLabel, threshold=0.8)
    (supervised,) = make(Supervised).step(batch_of([x], LABELS), Clock(0, 10))
    assert torch.equal(objective_of(method, x, u, step=0).loss, supervised.loss)
    full = [objective_of(method, x, u, step=step).loss for step in (4, 5, 9)]
    assert torch.equal(full[0], full[1])
    assert torch.equal(full[0], full[2])
    assert objective_of(method, x, u, step=3).loss != full[0]
    at_once = make(PseudoLabel, threshold=0.8, ramp=0.0)
    assert torch.equal(objective_of(at_once, x, u, step=0).loss, full[0])


def test_without_a_threshold_every_row_counts():
    """As Lee has it."""
    x, u = two_views()
    objective = objective_of(make(PseudoLabel, threshold=0.0, weight=3.0), x, u)
    assert objective.logged["mask"] == 1
    expected = 3 * nn.functional.cross_entropy(u, u.argmax(-1))
    torch.testing.assert_close(objective.terms["unlabeled"], expected)


def test_without_a_confident_row_the_loss_is_the_supervised_one():
    x, u = two_views()
    objective = objective_of(make(PseudoLabel, threshold=1.0), x, u)
    assert objective.terms["unlabeled"] == 0
    assert torch.equal(objective.loss, objective.terms["supervised"])
    assert not gradients(objective.loss, [x, u])[1].any()


def test_one_more_masked_row_multiplies_the_term_by_n_over_n_plus_one():
    x, u = two_views()
    method = make(PseudoLabel, threshold=0.8)
    before = objective_of(method, x, u)
    assert 0 < before.logged["mask"] < 1, "this batch does not test the mask"
    after = objective_of(method, x, torch.cat([u, torch.zeros(1, 3, dtype=torch.float64)]))
    torch.testing.assert_close(after.terms["unlabeled"], before.terms["unlabeled"] * len(u) / (len(u) + 1))


def test_the_order_of_the_unlabeled_rows_does_not_matter():
    x, u = two_views()
    method = make(PseudoLabel, threshold=0.8)
    order = torch.randperm(len(u), generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(objective_of(method, x, u[order]).loss, objective_of(method, x, u).loss)


def test_only_labeled_images_enter_the_running_statistics_and_each_batch_is_normalised_by_itself():
    x, u = two_views()
    norm, fresh = (nn.BatchNorm1d(3, dtype=torch.float64) for _ in range(2))
    objective = objective_of(make(PseudoLabel, model=Bare(body=norm), threshold=0.5), x, 3 * u + 1)
    logits_x = fresh(x)
    torch.testing.assert_close(objective.terms["supervised"], nn.functional.cross_entropy(logits_x, LABELS))
    assert all(torch.equal(value, fresh.state_dict()[name]) for name, value in norm.state_dict().items())
    q = fresh(3 * u + 1).softmax(-1).max(-1).values
    assert 0 < (q >= 0.5).double().mean() < 1, "this batch does not test the mask"
    torch.testing.assert_close(objective.terms["unlabeled"], -((q >= 0.5) * q.log()).mean())


def test_the_method_keeps_nothing_from_step_to_step():
    assert not make(PseudoLabel).state_dict()
