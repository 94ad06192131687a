"""FlatMatch: several steps a second way, with the running state carried along, and what must hold of it."""

import copy

import by_hand
import numpy as np
import pytest
import torch
from stand_in import Bare, computing_in, four_views, labels_of, make, objective_of
from torch import nn

from interlude.methods.flatmatch import FlatMatch
from interlude.methods.freematch import FreeMatch
from interlude.parts.gradients import gradient

GROUPS, MU = 4, 3
LABELS = labels_of(GROUPS)
RHO, WEIGHT, FAIRNESS = 0.3, 0.7, 0.2


def linear_network(seed=1):
    head = nn.Linear(5, 3, dtype=torch.float64)
    nn.init.normal_(head.weight, generator=torch.Generator().manual_seed(seed))
    nn.init.normal_(head.bias, generator=torch.Generator().manual_seed(seed + 1))
    return Bare(head)


def network_with_norm():
    torch.manual_seed(0)
    with computing_in(torch.float64):
        return Bare(nn.Linear(4, 3), body=nn.Sequential(nn.Linear(5, 4), nn.BatchNorm1d(4), nn.Tanh()))


def labeled_loss(weights, x, y):
    """Mean cross-entropy of a linear classifier whose weights are [W, b]."""
    return by_hand.supervised(np.stack([weights[0] @ row + weights[1] for row in x]), y)


def labeled_gradient(weights, x, y):
    """Its gradient: the mean over rows of (p - onehot) x^T, and of p - onehot."""
    at_weight, at_bias = np.zeros_like(weights[0]), np.zeros_like(weights[1])
    for row, label in zip(x, y, strict=True):
        difference = by_hand.softmax(weights[0] @ row + weights[1])
        difference[label] -= 1
        at_weight += np.outer(difference, row) / len(x)
        at_bias += difference / len(x)
    return [at_weight, at_bias]


def moved(weights, g, rho):
    """theta + rho g / ||g||, the norm over all weights."""
    norm = np.sqrt(sum((part**2).sum() for part in g))
    return [weight + rho * part / norm for weight, part in zip(weights, g, strict=True)]


def numbers(views):
    return [view.detach().numpy() for view in views]


@pytest.mark.parametrize("decay", [0.0, 0.3, 0.6])
def test_terms_gradient_and_state_equal_the_loops_over_four_steps(decay):
    network = linear_network()
    method = make(FlatMatch, model=network, decay=decay, rho=RHO, weight=WEIGHT, fairness_weight=FAIRNESS)
    state, y = by_hand.Thresholds(3, decay), LABELS.numpy()
    for step in range(4):
        views = four_views(GROUPS, MU, 5, seed=step, scale=1.0)
        objective = objective_of(method, views, LABELS, step=step)
        x, _, u_weak, u_strong = numbers(views)
        weights = numbers([network.head.weight, network.head.bias])

        q = by_hand.softmaxes(np.stack([weights[0] @ row + weights[1] for row in u_weak]))
        state.update(q)
        mask, label = state.mask(q), q.argmax(1)
        assert 0 < mask.mean() < 1, "this batch does not test the mask"
        g = labeled_gradient(weights, x, y)
        worst = moved(weights, g, RHO)
        worst_strong = np.stack([worst[0] @ row + worst[1] for row in u_strong])
        a, kept = by_hand.fairness_targets(state, by_hand.softmaxes(worst_strong), mask)

        expected = {
            "supervised": labeled_loss(weights, x, y),
            "worst_supervised": labeled_loss(worst, x, y),
            "unlabeled": WEIGHT * by_hand.unlabeled(worst_strong, label, mask),
            "fairness": FAIRNESS * by_hand.fairness(worst_strong, mask, a, kept),
        }
        assert {name: term.item() for name, term in objective.terms.items()} == pytest.approx(
            expected, abs=1e-9
        )
        np.testing.assert_allclose(method.threshold.prior.value, state.prior, atol=1e-12)

        def at_worst(at, x=x, u_strong=u_strong, fixed=(label, mask, a, kept)):
            label, mask, a, kept = fixed
            strong = [at[0] @ row + at[1] for row in u_strong]
            unlabeled = WEIGHT * by_hand.unlabeled(strong, label, mask)
            return labeled_loss(at, x, y) + unlabeled + FAIRNESS * by_hand.fairness(strong, mask, a, kept)

        # grad L_l(theta) + grad [L_l + SAT + SAF](theta + e), along a direction
        generator = np.random.default_rng(step)
        along = [generator.standard_normal(weight.shape) for weight in weights]
        expected_slope = sum((part * d).sum() for part, d in zip(g, along, strict=True))
        expected_slope += by_hand.slope(at_worst, worst, along)
        network.zero_grad()
        objective.loss.backward()
        found = [network.head.weight.grad.numpy(), network.head.bias.grad.numpy()]
        slope = sum((part * d).sum() for part, d in zip(found, along, strict=True))
        assert slope == pytest.approx(expected_slope, abs=1e-6)
        with torch.no_grad():
            network.head.weight -= 0.1 * network.head.weight.grad


def test_without_a_move_it_is_freematch_with_the_labeled_loss_twice():
    flat, free = (
        make(method, model=linear_network(), decay=0.3, **options)
        for method, options in ((FlatMatch, {"rho": 0.0}), (FreeMatch, {}))
    )
    for step in range(3):
        views = four_views(GROUPS, MU, 5, seed=step, scale=1.0)
        ours, theirs = (objective_of(method, views, LABELS, step=step) for method in (flat, free))
        assert 0 < ours.logged["mask"] < 1, "this batch does not test the mask"
        for name, term in theirs.terms.items():
            torch.testing.assert_close(ours.terms[name], term)
        torch.testing.assert_close(ours.terms["worst_supervised"], theirs.terms["supervised"])
        twice = gradient(theirs.loss, free.model) + gradient(theirs.terms["supervised"], free.model)
        torch.testing.assert_close(gradient(ours.loss, flat.model), twice)


def test_the_labeled_gradient_here_is_part_of_the_step():
    """Under mixed precision the authors' release loses it."""
    method = make(FlatMatch, model=linear_network(), rho=RHO)
    views = four_views(GROUPS, MU, 5, scale=1.0)
    objective = objective_of(method, views, LABELS)
    expected = gradient(method.supervised(method.model(views[0]), LABELS), method.model)
    torch.testing.assert_close(gradient(objective.terms["supervised"], method.model), expected)
    assert expected.norm() > 0.01


def test_the_move_raises_the_labeled_loss_by_rho_times_the_length_of_its_gradient():
    rho = 1e-4
    method = make(FlatMatch, model=linear_network(), rho=rho)
    views = four_views(GROUPS, MU, 5, scale=1.0)
    objective = objective_of(method, views, LABELS)
    g = gradient(objective.terms["supervised"], method.model)
    rise = (objective.terms["worst_supervised"] - objective.terms["supervised"]).item()
    assert rise == pytest.approx(rho * g.norm().item(), rel=1e-3)


def test_labels_and_mask_come_from_the_weights_that_did_not_move():
    views = four_views(GROUPS, MU, 5, scale=1.0)
    flat = make(FlatMatch, model=linear_network(), decay=0.3, rho=50.0)
    free = make(FreeMatch, model=linear_network(), decay=0.3)
    ours, theirs = (objective_of(method, views, LABELS) for method in (flat, free))
    assert ours.logged["mask"] == theirs.logged["mask"]
    for name, value in free.threshold.state_dict().items():
        assert torch.equal(value, flat.threshold.state_dict()[name])
    assert abs(ours.terms["unlabeled"] - theirs.terms["unlabeled"]) > 1, "so far a move changes predictions"


def test_the_weights_are_the_same_bits_after_both_passes():
    network = network_with_norm()
    before = copy.deepcopy(dict(network.named_parameters()))
    objective_of(make(FlatMatch, model=network), four_views(GROUPS, MU, 5), LABELS)
    for name, weight in network.named_parameters():
        assert torch.equal(weight, before[name])


def test_the_second_pass_leaves_running_statistics_alone():
    flat, free = (make(method, model=network_with_norm()) for method in (FlatMatch, FreeMatch))
    for method in (flat, free):
        objective_of(method, four_views(GROUPS, MU, 5), LABELS)
    mine, yours = flat.model.body[1], free.model.body[1]
    assert mine.num_batches_tracked == 1
    assert torch.equal(mine.running_mean, yours.running_mean)
    assert torch.equal(mine.running_var, yours.running_var)


def test_without_a_confident_row_the_step_is_finite():
    method = make(FlatMatch, model=linear_network(), decay=1.0)
    method.threshold.tau.value.fill_(2.0)
    objective = objective_of(method, four_views(GROUPS, MU, 5), LABELS)
    assert objective.logged["mask"] == 0
    assert objective.terms["unlabeled"] == objective.terms["fairness"] == 0
    assert gradient(objective.loss, method.model).isfinite().all()


def test_a_loss_without_slope_moves_nothing():
    network = Bare(nn.Linear(5, 3, dtype=torch.float64))
    nn.init.zeros_(network.head.weight)
    nn.init.zeros_(network.head.bias)
    views = four_views(3, MU, 5)
    views[0].data.zero_()  # three classes, one zero row each: the gradient of the labeled loss vanishes
    objective = objective_of(make(FlatMatch, model=network), views, labels_of(3))
    torch.testing.assert_close(objective.terms["worst_supervised"], objective.terms["supervised"])
    assert objective.loss.isfinite()


def test_the_state_is_that_of_freematch():
    flat, free = (make(method, model=linear_network()) for method in (FlatMatch, FreeMatch))
    assert flat.state_dict().keys() == free.state_dict().keys()
