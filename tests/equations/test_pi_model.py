"""Pi-Model: the loss a second way, and what must hold of it."""

import by_hand
import pytest
import torch
from stand_in import Bare, batch_of, four_views, gradients, labels_of, make, objective_of
from torch import nn

from interlude.method import Clock
from interlude.methods.pi_model import PiModel
from interlude.methods.supervised import Supervised

GROUPS, MU = 4, 3
LABELS = labels_of(GROUPS)


def mean_square(first, second):
    """Over rows and classes, one by one; probabilities given."""
    total = 0.0
    for p, q in zip(first, second, strict=True):
        for c in range(len(p)):
            total += (q[c] - p[c]) ** 2
    return total / (len(first) * len(first[0]))


@pytest.mark.parametrize("options", [{}, {"weight": 3.0, "ramp": 0.8}, {"symmetric": True}])
def test_terms_and_gradients_equal_the_loops(options):
    numbers = {"weight": 10.0, "ramp": 0.4, "symmetric": False} | options
    head = nn.Linear(5, 3, dtype=torch.float64)
    method = make(PiModel, model=Bare(head), **options)
    for step in (0, 1, 3, 8):
        views = four_views(GROUPS, MU, 5, seed=step)
        objective = objective_of(method, views, LABELS, step=step)
        x, _, first, second = (head(view).detach().numpy() for view in views)
        weight = numbers["weight"] * min(1, step / 10 / numbers["ramp"])
        expected = {
            "supervised": by_hand.supervised(x, LABELS.numpy()),
            "consistency": weight * mean_square(by_hand.softmaxes(first), by_hand.softmaxes(second)),
        }
        assert {name: term.item() for name, term in objective.terms.items()} == pytest.approx(
            expected, abs=1e-12
        )

        def term(at, fixed=by_hand.softmaxes(first), weight=weight):
            first, second = (by_hand.softmaxes([at[2] @ row + at[3] for row in view]) for view in at[:2])
            return weight * mean_square(first if numbers["symmetric"] else fixed, second)

        leaves = [views[2], views[3], head.weight, head.bias]
        generator = torch.Generator().manual_seed(step)
        direction = [torch.randn(leaf.shape, generator=generator).double() for leaf in leaves]
        found = gradients(objective.terms["consistency"], leaves)
        slope = sum((g * d).sum().item() for g, d in zip(found, direction, strict=True))
        at = [leaf.detach().numpy() for leaf in leaves]
        assert slope == pytest.approx(by_hand.slope(term, at, [d.numpy() for d in direction]), abs=1e-6)


def test_two_equal_views_leave_the_supervised_loss():
    x, other, u, _ = four_views(GROUPS, MU)
    objective = objective_of(make(PiModel), [x, other, u, u], LABELS, step=9)
    assert objective.terms["consistency"] == 0


def test_the_first_step_is_supervised_and_after_the_ramp_the_step_does_not_matter():
    views, method = four_views(GROUPS, MU), make(PiModel)
    (supervised,) = make(Supervised).step(batch_of(views[:1], LABELS), Clock(0, 10))
    assert torch.equal(objective_of(method, views, LABELS, step=0).loss, supervised.loss)
    third, full, last = (objective_of(method, views, LABELS, step=step).loss for step in (3, 4, 9))
    assert torch.equal(full, last)
    assert third < full
    assert torch.equal(objective_of(make(PiModel, ramp=0.0), views, LABELS, step=0).loss, full)


def test_the_distance_is_a_mean_over_classes():
    """A class that nobody predicts leaves all differences as they are, but there is one class more."""
    views = four_views(GROUPS, MU)
    never = [torch.cat([view, torch.full((len(view), 1), -200.0)], -1) for view in views]
    three, four = (objective_of(make(PiModel), rows, LABELS, step=9) for rows in (views, never))
    torch.testing.assert_close(four.terms["consistency"], three.terms["consistency"] * 3 / 4)


@pytest.mark.parametrize("symmetric", [False, True])
def test_the_first_view_is_a_fixed_target_unless_symmetric(symmetric):
    views = four_views(GROUPS, MU)
    objective = objective_of(make(PiModel, symmetric=symmetric), views, LABELS, step=9)
    _, _, first, second = gradients(objective.terms["consistency"], views)
    assert second.any()
    assert first.any() == symmetric


def test_symmetric_the_views_can_change_places():
    x, other, first, second = four_views(GROUPS, MU)
    method = make(PiModel, symmetric=True)
    there = objective_of(method, [x, other, first, second], LABELS, step=9)
    back = objective_of(method, [x, other, second, first], LABELS, step=9)
    torch.testing.assert_close(there.loss, back.loss)
    for a, b in zip(
        gradients(there.loss, [first, second]), gradients(back.loss, [first, second]), strict=True
    ):
        torch.testing.assert_close(a, b)


@pytest.mark.parametrize("symmetric", [False, True])
def test_no_graph_is_made_for_a_fixed_target(symmetric):
    """Public code makes one for the first view and throws it away."""
    seen = []

    class Watched(Bare):
        def forward(self, images):
            seen.append(torch.is_grad_enabled())
            return super().forward(images)

    objective_of(make(PiModel, model=Watched(), symmetric=symmetric), four_views(GROUPS, MU), LABELS)
    assert seen == [True, symmetric, True]


def test_the_order_of_the_unlabeled_rows_does_not_matter():
    x, other, first, second = views = four_views(GROUPS, MU)
    order = torch.randperm(len(first), generator=torch.Generator().manual_seed(0))
    permuted = [x, other, first[order], second[order]]
    torch.testing.assert_close(
        objective_of(make(PiModel), permuted, LABELS, step=9).loss,
        objective_of(make(PiModel), views, LABELS, step=9).loss,
    )


def test_only_labeled_images_enter_the_running_statistics_and_each_view_is_normalised_by_itself():
    x, other, first, second = four_views(GROUPS, MU)
    first, second = 3 * first + 1, second - 2
    norm, fresh = (nn.BatchNorm1d(3, dtype=torch.float64) for _ in range(2))
    method = make(PiModel, model=Bare(body=norm))
    objective = objective_of(method, [x, other, first, second], LABELS, step=9)
    torch.testing.assert_close(objective.terms["supervised"], nn.functional.cross_entropy(fresh(x), LABELS))
    assert all(torch.equal(value, fresh.state_dict()[name]) for name, value in norm.state_dict().items())
    expected = 10 * (fresh(second).softmax(-1) - fresh(first).softmax(-1)).square().mean()
    torch.testing.assert_close(objective.terms["consistency"], expected)


def test_the_method_keeps_nothing_from_step_to_step():
    assert not make(PiModel).state_dict()
