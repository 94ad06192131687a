"""FixMatch: the loss a second way, and what must hold of it."""

import by_hand
import pytest
import torch
from stand_in import Bare, batch_of, four_views, gradients, labels_of, make, objective_of
from torch import nn

from interlude.method import Clock
from interlude.methods.fixmatch import FixMatch
from interlude.methods.supervised import Supervised

GROUPS, MU = 4, 3
LABELS = labels_of(GROUPS)


def fixmatch_of(views, y=LABELS, **options):
    return objective_of(make(FixMatch, **options), views, y)


@pytest.mark.parametrize("weight", [1.0, 0.3])
@pytest.mark.parametrize("threshold", [0.6, 0.8])
def test_terms_and_gradients_equal_the_loops(weight, threshold):
    head = nn.Linear(5, 3, dtype=torch.float64)
    nn.init.normal_(head.weight, generator=torch.Generator().manual_seed(0))
    nn.init.zeros_(head.bias)
    method = make(FixMatch, model=Bare(head), threshold=threshold, weight=weight)
    for step in range(3):
        views = four_views(GROUPS, MU, 5, seed=step, scale=1.0)
        objective = objective_of(method, views, LABELS, step=step)
        x_weak, _, u_weak, u_strong = (head(view).detach().numpy() for view in views)

        q = by_hand.softmaxes(u_weak)
        mask = q.max(1) >= threshold
        assert 0 < mask.sum() < len(mask), "this batch does not test the mask"
        expected = {
            "supervised": by_hand.supervised(x_weak, LABELS.numpy()),
            "unlabeled": weight * by_hand.unlabeled(u_strong, q.argmax(1), mask),
        }
        assert {name: term.item() for name, term in objective.terms.items()} == pytest.approx(
            expected, abs=1e-10
        )
        assert objective.logged["mask"].item() == pytest.approx(mask.mean())

        def loss(at, mask=mask, label=q.argmax(1)):
            x, u = ([at[2] @ row + at[3] for row in view] for view in at[:2])
            labeled = (
                sum(by_hand.cross_entropy(row, c) for row, c in zip(x, LABELS.numpy(), strict=True)) / GROUPS
            )
            return labeled + weight * by_hand.unlabeled(u, label, mask)

        leaves = [views[0], views[3], head.weight, head.bias]
        direction = [
            torch.randn(leaf.shape, generator=torch.Generator().manual_seed(step)).double() for leaf in leaves
        ]
        found = gradients(objective.loss, leaves)
        slope = sum((g * d).sum().item() for g, d in zip(found, direction, strict=True))
        # the head also sees the weak rows, but nothing flows back from there
        at = [leaf.detach().numpy() for leaf in leaves]
        assert slope == pytest.approx(by_hand.slope(loss, at, [d.numpy() for d in direction]), abs=1e-7)
        with torch.no_grad():
            head.weight -= 0.1 * found[2]


def test_a_threshold_of_zero_keeps_every_row():
    views = four_views(GROUPS, MU)
    objective = fixmatch_of(views, threshold=0.0)
    expected = nn.functional.cross_entropy(views[3], views[2].argmax(-1))
    torch.testing.assert_close(objective.terms["unlabeled"], expected)


def test_a_threshold_that_no_row_reaches_leaves_the_supervised_loss():
    views = four_views(GROUPS, MU)
    objective = fixmatch_of(views, threshold=1.0)
    (supervised,) = make(Supervised).step(batch_of(views[:1], LABELS), Clock(0, 1))
    assert objective.terms["unlabeled"] == 0
    assert torch.equal(objective.loss, supervised.loss)
    assert not gradients(objective.loss, views)[3].any()


def test_a_row_exactly_at_the_threshold_is_kept():
    views = [torch.zeros(1, 2), torch.zeros(1, 2), torch.zeros(1, 2), torch.zeros(1, 2)]
    method = make(FixMatch, num_classes=2, threshold=0.5, dtype=torch.float32)
    assert objective_of(method, views, torch.tensor([0])).logged["mask"] == 1


def test_one_more_masked_row_multiplies_the_unlabeled_term_by_n_over_n_plus_one():
    x_weak, x_strong, u_weak, u_strong = views = four_views(GROUPS, MU, scale=3.0)
    before = fixmatch_of(views, threshold=0.9)
    assert 0 < before.logged["mask"] < 1, "this batch does not test the mask"
    n, unsure = len(u_weak), torch.zeros(1, 3, dtype=torch.float64)
    more = [x_weak, x_strong, torch.cat([u_weak, unsure]), torch.cat([u_strong, unsure])]
    after = fixmatch_of(more, threshold=0.9)
    torch.testing.assert_close(after.terms["unlabeled"], before.terms["unlabeled"] * n / (n + 1))


def test_no_gradient_reaches_the_weak_view():
    views = four_views(GROUPS, MU, scale=3.0)
    objective = fixmatch_of(views, threshold=0.9)
    _, _, u_weak, u_strong = gradients(objective.loss, views)
    assert not u_weak.any()
    assert u_strong.any()


def test_dropped_rows_send_no_gradient_to_their_strong_view():
    views = four_views(GROUPS, MU, scale=3.0)
    strong = gradients(fixmatch_of(views, threshold=0.9).loss, views)[3]
    kept = views[2].softmax(-1).max(-1).values >= 0.9
    assert 0 < kept.sum() < len(kept)
    assert ((strong.abs().sum(-1) > 0) == kept).all()


def test_the_order_of_the_unlabeled_rows_does_not_matter():
    x_weak, x_strong, u_weak, u_strong = views = four_views(GROUPS, MU, scale=3.0)
    order = torch.randperm(len(u_weak), generator=torch.Generator().manual_seed(0))
    permuted = [x_weak, x_strong, u_weak[order], u_strong[order]]
    torch.testing.assert_close(
        fixmatch_of(permuted, threshold=0.9).loss, fixmatch_of(views, threshold=0.9).loss
    )


def test_the_method_keeps_nothing_from_step_to_step():
    method = make(FixMatch)
    assert not method.state_dict()
    views = four_views(GROUPS, MU)
    assert torch.equal(objective_of(method, views, LABELS).loss, objective_of(method, views, LABELS).loss)


@pytest.mark.parametrize("step", [0, 9])
def test_the_weight_of_the_unlabeled_term_does_not_depend_on_the_step(step):
    views = four_views(GROUPS, MU)
    whole, third = (objective_of(make(FixMatch, weight=w), views, LABELS, step=step) for w in (1.0, 1 / 3))
    torch.testing.assert_close(whole.terms["unlabeled"], 3 * third.terms["unlabeled"])
