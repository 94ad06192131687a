"""FlatMatch-e: several steps a second way, with thresholds and gradient average carried along."""

import by_hand
import numpy as np
import pytest
import torch
from stand_in import four_views, labels_of, make, objective_of
from test_flatmatch import labeled_gradient, labeled_loss, linear_network, moved, network_with_norm, numbers

from interlude.methods.flatmatch import FlatMatch
from interlude.methods.flatmatch_e import FlatMatchE
from interlude.parts.gradients import gradient

GROUPS, MU = 4, 3
LABELS = labels_of(GROUPS)
RHO, WEIGHT, FAIRNESS, KEEP = 0.3, 0.7, 0.2, 0.6


def test_terms_gradient_and_average_equal_the_loops_over_four_steps():
    network = linear_network()
    method = make(
        FlatMatchE,
        model=network,
        decay=0.3,
        rho=RHO,
        weight=WEIGHT,
        fairness_weight=FAIRNESS,
        gradient_decay=KEEP,
    )
    state, y = by_hand.Thresholds(3, 0.3), LABELS.numpy()
    average = [np.zeros((3, 5)), np.zeros(3)]
    for step in range(4):
        views = four_views(GROUPS, MU, 5, seed=step, scale=1.0)
        objective = objective_of(method, views, LABELS, step=step)
        x, _, u_weak, u_strong = numbers(views)
        weights = numbers([network.head.weight, network.head.bias])

        q = by_hand.softmaxes(np.stack([weights[0] @ row + weights[1] for row in u_weak]))
        state.update(q)
        mask, label = state.mask(q), q.argmax(1)
        assert 0 < mask.mean() < 1, "this batch does not test the mask"
        begun = step > 0
        worst = moved(weights, average, RHO) if begun else weights
        worst_strong = np.stack([worst[0] @ row + worst[1] for row in u_strong])
        a, kept = by_hand.fairness_targets(state, by_hand.softmaxes(worst_strong), mask)
        expected = {
            "supervised": labeled_loss(weights, x, y),
            "unlabeled": begun * WEIGHT * by_hand.unlabeled(worst_strong, label, mask),
            "fairness": begun * FAIRNESS * by_hand.fairness(worst_strong, mask, a, kept),
        }
        assert {name: term.item() for name, term in objective.terms.items()} == pytest.approx(
            expected, abs=1e-9
        )

        def at_worst(at, u_strong=u_strong, fixed=(label, mask, a, kept), begun=begun):
            label, mask, a, kept = fixed
            strong = [at[0] @ row + at[1] for row in u_strong]
            fair = FAIRNESS * by_hand.fairness(strong, mask, a, kept)
            return begun * (WEIGHT * by_hand.unlabeled(strong, label, mask) + fair)

        g = labeled_gradient(weights, x, y)
        generator = np.random.default_rng(step)
        along = [generator.standard_normal(weight.shape) for weight in weights]
        slope = sum((part * d).sum() for part, d in zip(g, along, strict=True))
        slope += by_hand.slope(at_worst, worst, along)
        found = gradient(objective.loss, network).numpy()
        assert found @ np.concatenate([d.ravel() for d in along]) == pytest.approx(slope, abs=1e-6)

        average = [KEEP * m + (1 - KEEP) * part for m, part in zip(average, g, strict=True)]
        np.testing.assert_allclose(
            method.average.value, np.concatenate([m.ravel() for m in average]), atol=1e-12
        )
        with torch.no_grad():
            network.head.weight -= 0.1 * torch.as_tensor(found[:15]).view(3, 5)


def test_the_unlabeled_terms_count_nothing_while_the_average_is_empty():
    method = make(FlatMatchE, model=linear_network(), decay=0.3)
    views = four_views(GROUPS, MU, 5, scale=1.0)
    first, second = (objective_of(method, views, LABELS, step=step) for step in range(2))
    assert 0 < first.logged["mask"] < 1
    assert first.terms["unlabeled"] == first.terms["fairness"] == 0
    assert second.terms["unlabeled"] > 0
    assert gradient(second.terms["unlabeled"], method.model).any()


def test_the_move_does_not_know_the_labels_of_this_step():
    """e comes from the average of the steps before: the labeled gradient of this one enters afterwards."""
    mine, yours = (make(FlatMatchE, model=linear_network(), decay=0.3, rho=1.0) for _ in range(2))
    for method in (mine, yours):
        objective_of(method, four_views(GROUPS, MU, 5, scale=1.0), LABELS)
    views, other = four_views(GROUPS, MU, 5, seed=1, scale=1.0), (LABELS + 1) % 3
    ours, theirs = objective_of(mine, views, LABELS), objective_of(yours, views, other)
    assert torch.equal(ours.terms["unlabeled"], theirs.terms["unlabeled"])
    assert not torch.equal(ours.terms["supervised"], theirs.terms["supervised"])
    assert not torch.equal(mine.average.value, yours.average.value)


def test_the_average_is_one_vector_in_the_state_dict_and_a_restored_method_goes_on_with_it():
    method, again = (make(FlatMatchE, model=linear_network(), decay=0.3, rho=1.0) for _ in range(2))
    for step in range(2):
        objective_of(method, four_views(GROUPS, MU, 5, seed=step, scale=1.0), LABELS)
    assert method.state_dict()["average.value"].shape == (18,)
    again.load_state_dict(method.state_dict())
    views = four_views(GROUPS, MU, 5, seed=2, scale=1.0)
    fresh = make(FlatMatchE, model=linear_network(), decay=0.3, rho=1.0)
    mine, yours, other = (objective_of(each, views, LABELS).loss for each in (method, again, fresh))
    assert torch.equal(mine, yours)
    assert not torch.equal(mine, other), "the state makes no difference here"


def test_with_no_memory_the_second_step_on_the_same_batch_moves_as_flatmatch_does():
    """Where the average is the gradient of the step before, and the weights stood still, e is the same."""
    slow = make(FlatMatch, model=linear_network(), decay=0.0, rho=RHO)
    fast = make(FlatMatchE, model=linear_network(), decay=0.0, rho=RHO, gradient_decay=0.0)
    views = four_views(GROUPS, MU, 5, scale=1.0)
    objective_of(fast, views, LABELS)
    ours, theirs = (objective_of(method, views, LABELS) for method in (fast, slow))
    for name in ("supervised", "unlabeled", "fairness"):
        torch.testing.assert_close(ours.terms[name], theirs.terms[name])


def test_each_row_passes_the_network_once():
    method, rows = make(FlatMatchE, model=network_with_norm()), []
    method.model.register_forward_hook(lambda network, images, logits: rows.append(len(images[0])))
    objective_of(method, four_views(GROUPS, MU, 5), LABELS)
    assert rows == [GROUPS + GROUPS * MU, GROUPS * MU]


def test_the_second_pass_leaves_running_statistics_alone():
    method = make(FlatMatchE, model=network_with_norm())
    objective_of(method, four_views(GROUPS, MU, 5), LABELS)
    assert method.model.body[1].num_batches_tracked == 1


def test_without_a_confident_row_the_step_is_finite():
    method = make(FlatMatchE, model=linear_network(), decay=1.0)
    method.threshold.tau.value.fill_(2.0)
    for step in range(2):
        objective = objective_of(method, four_views(GROUPS, MU, 5), LABELS, step=step)
        assert objective.terms["unlabeled"] == objective.terms["fairness"] == 0
        assert gradient(objective.loss, method.model).isfinite().all()


def test_the_defaults_are_those_of_the_spec():
    assert FlatMatch.Config().rho == 0.05
    assert FlatMatchE.Config().rho == 0.1
    assert FlatMatchE.Config().gradient_decay == 0.999
