"""The 24 invariants of InterLUDE and InterLUDE+; each test says in its docstring which one it holds."""

import math
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import torch
from stand_in import change, four_views, fusion, gradients, labels_of, make, objective_of
from torch import nn

from interlude import augment, checkpoint, schedule
from interlude.batches import Batches
from interlude.data import Images
from interlude.errors import UserError
from interlude.loop import fit
from interlude.method import Clock
from interlude.methods.fixmatch import FixMatch
from interlude.methods.interlude import InterLUDE, delta_consistency
from interlude.methods.interlude_plus import InterLUDEPlus
from interlude.models import ModelConfig, build
from interlude.parts.adaptive import AdaptiveThreshold
from interlude.parts.fusion import Circle
from interlude.parts.layout import LAYOUTS, order, sizes
from interlude.parts.losses import probabilities
from interlude.run import Run
from interlude.testing import sharpened, stop_after, toy_run, toy_split

SIZES = [(1, 1), (2, 2), (8, 1), (4, 3), (3, 5), (8, 7), (64, 7)]

layouts = pytest.mark.parametrize("layout", LAYOUTS)
of_sizes = pytest.mark.parametrize(("groups", "mu"), SIZES, ids=[f"B{groups}-mu{mu}" for groups, mu in SIZES])
alphas = pytest.mark.parametrize("alpha", [0.0, 0.1, 0.3, 0.49])
rows_of = pytest.mark.parametrize("rows", [1, 2, 5, 12, 16])
neighbours = pytest.mark.parametrize("neighbour", ["next", "previous"])
seeds = pytest.mark.parametrize("seed", range(3))


def close(got, expected, tolerance=1e-12):
    torch.testing.assert_close(got, expected, atol=tolerance, rtol=tolerance)


# Layout


def meetings(layout, groups, mu):
    """Between how many neighbouring rows of the circle a labeled one meets an unlabeled one."""
    labeled = order(layout, groups, mu) < 2 * groups
    return int((labeled != labeled.roll(-1)).sum())


@layouts
@of_sizes
def test_a_layout_is_a_permutation_of_all_rows(layout, groups, mu):
    """Invariant 1: each layout is a permutation of 0..Q-1, with Q = 2(1 + mu)B."""
    rows = order(layout, groups, mu)
    assert rows.sort().values.tolist() == list(range(2 * (1 + mu) * groups))


@layouts
@of_sizes
def test_every_row_leans_on_the_one_beside_it_in_the_layout(layout, groups, mu):
    """Invariant 1: in the order of the four blocks, each row meets the row that the layout says."""
    rows = order(layout, groups, mu)
    for side in (1, -1):
        circle = Circle.of(rows, side)
        assert torch.equal(circle.neighbour[rows], rows.roll(-side))
        assert torch.equal(circle.of_whom[circle.neighbour], torch.arange(len(rows)))


@of_sizes
def test_labeled_and_unlabeled_rows_meet_as_often_as_the_layout_says(groups, mu):
    """Invariant 2: High-I3 has 4B labeled-unlabeled neighbours on the circle, I2 2B, I1 2G, Low-I 2."""
    chunks = math.gcd(groups, 2 * (mu + 1))
    expected = {"high-i3": 4 * groups, "high-i2": 2 * groups, "high-i1": 2 * chunks, "low-i": 2}
    assert {layout: meetings(layout, groups, mu) for layout in LAYOUTS} == expected


@of_sizes
def test_in_high_i3_every_labeled_row_has_unlabeled_neighbours_on_both_sides(groups, mu):
    """Invariant 2: in High-I3 every labeled row's partner is unlabeled, in both directions."""
    labeled = order("high-i3", groups, mu) < 2 * groups
    assert not (labeled & labeled.roll(-1)).any()
    assert not (labeled & labeled.roll(1)).any()


@of_sizes
def test_in_high_i3_a_labeled_row_is_fused_with_the_first_of_its_own_group(groups, mu):
    """Invariant 3: under `next` the partner of lw_i is uw_{i,0}, and that of ls_i is us_{i,0}."""
    rows = order("high-i3", groups, mu)
    partner = dict(zip(rows.tolist(), rows.roll(-1).tolist(), strict=True))
    for i in range(groups):
        assert partner[i] == 2 * groups + i * mu
        assert partner[groups + i] == 2 * groups + groups * mu + i * mu


@of_sizes
def test_in_high_i3_a_run_of_rows_shares_one_draw(groups, mu):
    """Invariant 3: the rows of a run of 1 + mu belong to one group and one kind of view."""
    i, j = torch.arange(groups), torch.arange(groups * mu) // mu
    draw = torch.cat([i, groups + i, j, groups + j])  # one weak and one strong draw for each group
    runs = draw[order("high-i3", groups, mu)].view(-1, 1 + mu)
    assert (runs == runs[:, :1]).all()
    assert runs[:, 0].tolist() == torch.stack([i, groups + i], 1).flatten().tolist()


@pytest.mark.parametrize("mu", [1, 2, 3, 7])
def test_high_i1_is_high_i2_when_a_chunk_holds_one_group(mu):
    """Invariant 4: High-I1 equals High-I2 when B = 2(mu + 1)."""
    groups = 2 * (mu + 1)
    assert torch.equal(order("high-i1", groups, mu), order("high-i2", groups, mu))
    assert not torch.equal(order("high-i1", 2 * groups, mu), order("high-i2", 2 * groups, mu))


# Fusion


def dense(rows, alpha, neighbour="next"):
    """I + A as the paper writes it: A = alpha (U - I), U[i, i+1 mod Q] = 1."""
    shift = torch.zeros(rows, rows, dtype=torch.float64)
    for i in range(rows):
        shift[i, (i + (1 if neighbour == "next" else -1)) % rows] += 1
    return torch.eye(rows, dtype=torch.float64) + alpha * (shift - torch.eye(rows, dtype=torch.float64))


def noise(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@neighbours
@alphas
@rows_of
@pytest.mark.parametrize("shape", [(6,), (3, 4, 4), (5, 6)], ids=["vectors", "feature maps", "tokens"])
def test_fusion_is_the_dense_matrix_along_the_batch(neighbour, alpha, rows, shape):
    """Invariant 5: fusion equals (I + A) @ Z for 2-D, 4-D and token tensors, rolling the batch axis only."""
    z = noise(rows, *shape)
    expected = (dense(rows, alpha, neighbour) @ z.flatten(1)).view(z.shape)
    close(fusion(alpha, neighbour)(z), expected)
    close(fusion(alpha, neighbour)(z.float()), expected.float(), 1e-6)


@neighbours
@alphas
@pytest.mark.parametrize("shape", [(6,), (3, 4, 4), (5, 6)], ids=["vectors", "feature maps", "tokens"])
def test_the_gradient_of_fusion_is_the_transposed_matrix(neighbour, alpha, shape):
    """Invariant 5: the gradient equals (I + A)^T @ g; both partners receive their share."""
    z, g = noise(12, *shape).requires_grad_(), noise(12, *shape, seed=1)
    (gradient,) = torch.autograd.grad(fusion(alpha, neighbour)(z), z, g)
    close(gradient, (dense(12, alpha, neighbour).T @ g.flatten(1)).view(z.shape))


@alphas
@rows_of
def test_fusion_keeps_the_mean_of_the_batch(alpha, rows):
    """Invariant 6: rows and columns of I + A sum to one, so that the mean embedding is preserved."""
    matrix = fusion(alpha)(torch.eye(rows, dtype=torch.float64))
    ones = torch.ones(rows, dtype=torch.float64)
    close(matrix.sum(0), ones)
    close(matrix.sum(1), ones)
    z = noise(rows, 4)
    close(fusion(alpha)(z).mean(0), z.mean(0))


@alphas
def test_a_constant_batch_is_a_fixed_point_of_fusion(alpha):
    """Invariant 6: constant batches are fixed points."""
    z = noise(1, 5).expand(8, 5)
    close(fusion(alpha)(z), z)


@neighbours
def test_fusion_without_a_share_or_without_a_neighbour_is_the_identity(neighbour):
    """Invariant 6: alpha = 0 and Q = 1 are identities, exactly."""
    z = noise(6, 4)
    assert torch.equal(fusion(0.0, neighbour)(z), z)
    assert torch.equal(fusion(0.3, neighbour)(z[:1]), z[:1])


@alphas
@rows_of
def test_the_spectrum_of_the_fusion_matrix(alpha, rows):
    """Invariant 7: eigenvalues (1-a) + a e^{2 pi i k/Q}; I+A is normal; det = (1-a)^Q - (-a)^Q > 0."""
    matrix = fusion(alpha)(torch.eye(rows, dtype=torch.float64))
    expected = 1 - alpha + alpha * np.exp(2j * np.pi * np.arange(rows) / rows)
    found = torch.linalg.eigvals(matrix).numpy()
    distance = np.abs(found[:, None] - expected[None])
    assert distance.min(0).max() < 1e-9, "an eigenvalue of the formula is missing"
    assert distance.min(1).max() < 1e-9, "there is an eigenvalue that the formula does not have"
    close(matrix @ matrix.T, matrix.T @ matrix)
    determinant = (1 - alpha) ** rows - (-alpha) ** rows
    assert determinant > 0
    close(torch.linalg.det(matrix), torch.tensor(determinant if rows > 1 else 1.0, dtype=torch.float64))


@alphas
@pytest.mark.parametrize("rows", [2, 12, 16])
def test_the_smallest_singular_value_of_an_even_batch(alpha, rows):
    """Invariant 7: the smallest singular value is 1 - 2 alpha for even Q, and Q is always even."""
    matrix = fusion(alpha)(torch.eye(rows, dtype=torch.float64))
    close(torch.linalg.svdvals(matrix).min(), torch.tensor(1 - 2 * alpha, dtype=torch.float64), 1e-9)


def test_at_one_half_the_matrix_of_an_even_batch_is_singular():
    """Invariant 7: alpha = 0.5 with even Q is singular."""
    assert torch.linalg.matrix_rank(dense(12, 0.5)) == 11
    assert torch.linalg.matrix_rank(dense(12, 0.499)) == 12


@pytest.mark.parametrize("kind", [InterLUDE, InterLUDEPlus])
@pytest.mark.parametrize("alpha", [-0.1, 0.5, 0.7, float("nan")])
def test_an_alpha_outside_its_range_is_refused_with_the_reason(kind, alpha):
    """Invariant 7: alpha outside [0, 0.5) is rejected."""
    with pytest.raises(UserError, match=r"alpha must be >= 0 and < 0\.5.*singular"):
        kind.Config(alpha=alpha)


@alphas
def test_a_fused_row_is_mostly_itself(alpha):
    """Invariant 8: 1 - alpha > alpha: the diagonal is the largest entry of each row."""
    matrix = fusion(alpha)(torch.eye(6, dtype=torch.float64))
    rest = matrix - matrix.diag().diag()
    assert (matrix.diag() > rest.max(1).values).all()


@alphas
@seeds
def test_fusion_makes_no_row_longer_than_the_longer_of_the_two(alpha, seed):
    """Invariant 8: ||z'_i|| <= max(||z_i||, ||z_{i+1}||), a convex combination."""
    z = noise(12, 5, seed=seed)
    bound = torch.maximum(z.norm(dim=1), z.roll(-1, 0).norm(dim=1))
    assert (fusion(alpha)(z).norm(dim=1) <= bound + 1e-12).all()


@alphas
@neighbours
def test_before_a_linear_head_fusing_embeddings_is_fusing_logits(alpha, neighbour):
    """Invariant 9: h(fuse(z)) == fuse(h(z)) for a linear head, bias included."""
    head, z = nn.Linear(5, 3, dtype=torch.float64), noise(12, 5)
    fuse = fusion(alpha, neighbour)
    close(head(fuse(z)), fuse(head(z)))


@alphas
def test_the_previous_neighbour_is_the_next_one_of_the_reversed_batch(alpha):
    """Invariant 9: prev(Z) == flip(next(flip(Z)))."""
    z = noise(12, 5)
    close(fusion(alpha, "previous")(z), fusion(alpha, "next")(z.flip(0)).flip(0))


def test_the_fused_embedding_is_affine_in_alpha():
    """Beside invariant 9: Z'(alpha) lies on a straight line."""
    z = noise(12, 5)
    close(fusion(0.2)(z), (fusion(0.1)(z) + fusion(0.3)(z)) / 2)


@pytest.mark.parametrize("point", ["embedding", "stage"])
def test_a_trained_model_judges_each_image_alone(point):
    """Invariant 10: without fusion at evaluation neither batch mates nor their order change a prediction."""
    run = toy_run(InterLUDE, alpha=0.4, fusion_point=point)
    fit(run)
    images = run.split.unlabeled
    together = run.predict(images)
    turned = run.predict(images.subset(torch.arange(len(images)).flip(0))).flip(0)
    alone = torch.cat([run.predict(images.subset(torch.tensor([row]))) for row in range(len(images))])
    close(together, turned, 1e-5)
    close(together, alone, 1e-5)


# Delta-consistency


def delta_of(views, y=None, **options):
    """The delta term on these logits, without fusion."""
    y = labels_of(*views[0].shape) if y is None else y
    return objective_of(make(InterLUDE, alpha=0, **options), views, y).terms["delta"]


@seeds
def test_the_delta_term_is_positive_unless_the_changes_agree(seed):
    """Invariant 11: >= 0, and 0 exactly when Delta_L equals Delta_U in every group."""
    x_weak, x_strong, u_weak, u_strong = four_views(3, 2, seed=seed)
    assert delta_of([x_weak, x_strong, u_weak, u_strong]) > 0
    same_x = [x.repeat_interleave(2, 0) for x in (x_weak, x_strong)]
    assert delta_of([x_weak, x_strong, *same_x]).item() == pytest.approx(0, abs=1e-20)
    one_off = same_x[1].detach().clone()
    one_off[0, 0] += 1
    assert delta_of([x_weak, x_strong, same_x[0], one_off]) > 1e-6


def test_changes_that_agree_give_no_delta_although_predictions_differ():
    """Invariant 11: opposite errors inside a group cancel, since only the group's mean change counts."""
    x, (u, v) = torch.zeros(1, 3, dtype=torch.float64), noise(2, 3)
    assert delta_of([x, x, torch.stack([u, v]), torch.stack([v, u])]).item() == pytest.approx(0, abs=1e-20)


@seeds
def test_no_change_from_weak_to_strong_gives_no_delta(seed):
    """Invariant 11: 0 when weak and strong logits are the same everywhere."""
    x, _, u, _ = four_views(3, 2, seed=seed)
    assert delta_of([x, x, u, u]) < 1e-30  # rows in vectors and those left over are rounded in two ways


@seeds
def test_a_constant_added_to_any_row_of_logits_changes_no_delta(seed):
    """Invariant 11: invariant to adding a constant to any row's logits."""
    views = four_views(3, 2, seed=seed)
    shifted = [view + noise(len(view), 1, seed=seed) for view in views]
    close(delta_of(shifted), delta_of(views))


@pytest.mark.parametrize("num_classes", [2, 3, 10])
@pytest.mark.parametrize("mu", [1, 2, 7])
def test_the_delta_term_comes_near_to_eight_and_not_beyond(num_classes, mu):
    """Invariant 12: supremum 8 for any K >= 2 and any mu, 8/K with the mean over classes, never reached."""
    sure_of = 12 * torch.eye(num_classes, dtype=torch.float64)
    a, b = sure_of[:1], sure_of[1:2]
    extreme = [a, b, b.expand(mu, -1), a.expand(mu, -1)]
    for reduction, bound in (("sum", 8), ("mean", 8 / num_classes)):
        value = delta_of(extreme, delta_reduction=reduction).item()
        assert 0.99 * bound < value < bound
        for seed in range(20):
            random = four_views(1, mu, num_classes, seed=seed, scale=20.0)
            assert delta_of(random, delta_reduction=reduction).item() <= bound + 1e-12


@seeds
def test_a_single_change_is_never_longer_than_the_square_root_of_two(seed):
    """Invariant 12: ||Delta||^2 <= 2."""
    weak, strong, *_ = four_views(200, 1, seed=seed, scale=30.0)
    assert (change(weak, strong).square().sum(-1) <= 2).all()


@seeds
def test_the_entries_of_a_change_sum_to_zero(seed):
    """Invariant 13: entries of Delta_L and of Delta_U sum to 0."""
    x_weak, x_strong, u_weak, u_strong = four_views(3, 2, seed=seed)
    close(change(x_weak, x_strong).sum(-1), torch.zeros(3, dtype=torch.float64))
    close(change(u_weak, u_strong).view(3, 2, 3).mean(1).sum(-1), torch.zeros(3, dtype=torch.float64))


@pytest.mark.parametrize("groups_rule", ["average", "class-matched"])
def test_the_delta_term_ignores_the_order_inside_groups_of_groups_and_of_classes(groups_rule):
    """Invariant 13: invariant to permuting unlabeled images in a group, groups, and classes."""
    views, y = four_views(4, 3, seed=2), torch.tensor([0, 1, 2, 0])
    x_weak, x_strong, u_weak, u_strong = views
    before = delta_of(views, y, delta_groups=groups_rule)
    assert before > 0

    inside = torch.tensor([2, 0, 1, 3, 5, 4, 6, 7, 8, 10, 11, 9])
    close(delta_of([x_weak, x_strong, u_weak[inside], u_strong[inside]], y, delta_groups=groups_rule), before)

    groups = torch.tensor([3, 1, 0, 2])
    rows = (groups[:, None] * 3 + torch.arange(3)).flatten()
    moved = [x_weak[groups], x_strong[groups], u_weak[rows], u_strong[rows]]
    close(delta_of(moved, y[groups], delta_groups=groups_rule), before)

    classes = torch.tensor([1, 2, 0])
    renamed = classes.argsort()[y]
    close(delta_of([view[:, classes] for view in views], renamed, delta_groups=groups_rule), before)


def test_moving_an_unlabeled_image_to_another_group_changes_the_delta_term():
    """Invariant 13: not invariant to regrouping: groups are not interchangeable labels."""
    x_weak, x_strong, u_weak, u_strong = views = four_views(2, 2, seed=1)
    swapped = torch.tensor([2, 1, 0, 3])
    difference = delta_of([x_weak, x_strong, u_weak[swapped], u_strong[swapped]]) - delta_of(views)
    assert abs(difference) > 1e-3


@seeds
def test_the_delta_term_does_not_tell_weak_from_strong(seed):
    """Invariant 14: swapping weak and strong everywhere leaves it unchanged."""
    x_weak, x_strong, u_weak, u_strong = views = four_views(3, 2, seed=seed)
    close(delta_of([x_strong, x_weak, u_strong, u_weak]), delta_of(views))


@pytest.mark.parametrize("num_classes", [2, 3, 10])
def test_the_mean_over_classes_is_the_sum_divided_by_their_number(num_classes):
    """Invariant 14: mean-reduction x K == sum-reduction."""
    views = four_views(3, 2, num_classes)
    close(delta_of(views, delta_reduction="mean") * num_classes, delta_of(views))


@seeds
def test_a_detached_labeled_change_sends_no_gradient_to_labeled_logits(seed):
    """Invariant 14: with detach, the gradient at labeled logits is exactly 0; the value and the rest stay."""
    views = four_views(3, 2, seed=seed)
    free, fixed = delta_of(views), delta_of(views, delta_detach=True)
    assert torch.equal(free, fixed)
    found, kept = gradients(fixed, views), gradients(free, views)
    assert not found[0].any()
    assert not found[1].any()
    close(found[2], kept[2])
    close(found[3], kept[3])


@seeds
def test_an_undetached_delta_pulls_at_all_four_views(seed):
    """Invariant 14: without detach every view has a gradient, and each row's sums to 0 over classes."""
    views = four_views(3, 2, seed=seed)
    for gradient in gradients(delta_of(views), views):
        assert gradient.any()
        close(gradient.sum(-1), torch.zeros(len(gradient), dtype=torch.float64))


def test_an_unlabeled_image_that_behaves_like_its_labeled_one_gives_no_delta():
    """Invariant 15: mu = 1 and identical labeled and unlabeled rows give 0."""
    x_weak, x_strong, *_ = four_views(4, 1)
    assert delta_of([x_weak, x_strong, x_weak, x_strong]) == 0


def test_a_group_without_a_match_adds_nothing_to_the_class_matched_delta():
    """Specification 3, item 32: class-matched deltas mask each group, not the sum."""
    delta_x, delta_u = noise(2, 3), noise(4, 3)
    match = torch.tensor([[1, 0], [0, 0]])
    alone = delta_consistency(delta_x[:1], delta_u[:1], match[:1, :1])
    close(delta_consistency(delta_x, delta_u, match), alone / 2)
    assert delta_consistency(delta_x, delta_u, torch.zeros(2, 2, dtype=torch.int64)) == 0


# Unlabeled term, adaptive threshold, fairness


def uneven_views():
    """Logits of 2 groups of 3 with sure and unsure unlabeled rows in turn: kept are rows 0, 2, 4 at 0.8."""
    x_weak, x_strong, _, u_strong = four_views(2, 3)
    sure = torch.eye(3, dtype=torch.float64)[[0, 1, 2, 0, 1, 2]]
    u_weak = (
        sure * torch.tensor([4.0, 0.5, 4.0, 0.5, 4.0, 0.5], dtype=torch.float64)[:, None]
    ).requires_grad_()
    return [x_weak, x_strong, u_weak, u_strong]


def test_the_unlabeled_term_divides_by_all_rows():
    """Invariant 16: masked cross-entropy divides by mu B, not by the number of kept rows."""
    views = uneven_views()
    objective = objective_of(make(InterLUDE, alpha=0, threshold=0.8), views, labels_of(2))
    losses = nn.functional.cross_entropy(views[3], views[2].argmax(-1), reduction="none")
    assert objective.logged["mask"] == 0.5
    close(objective.terms["unlabeled"], losses[[0, 2, 4]].sum() / 6)


@pytest.mark.parametrize("soft", [False, True])
def test_the_unlabeled_term_pulls_at_strong_views_only(soft):
    """Invariant 16: no gradient reaches weak logits through L_U, only through the delta term."""
    views = uneven_views()
    terms = objective_of(
        make(InterLUDE, alpha=0, threshold=0.8, soft_targets=soft), views, labels_of(2)
    ).terms
    x_weak, x_strong, u_weak, u_strong = gradients(terms["unlabeled"], views)
    assert not any(gradient.any() for gradient in (x_weak, x_strong, u_weak))
    assert (u_strong.abs().sum(-1) > 0).tolist() == [True, False, True, False, True, False]
    assert gradients(terms["delta"], views)[2].any()


def test_no_confident_row_gives_an_unlabeled_term_of_zero():
    """Invariant 16: a zero mask gives a loss of 0 and a gradient of 0."""
    views = uneven_views()
    term = objective_of(make(InterLUDE, alpha=0, threshold=1.0), views, labels_of(2)).terms["unlabeled"]
    assert term == 0
    assert not gradients(term, views)[3].any()


def test_the_strong_labeled_views_enter_through_the_delta_term_alone():
    """Specification 1.6: strong labeled rows appear only in L_DC."""
    views = uneven_views()
    terms = objective_of(make(InterLUDEPlus, alpha=0), views, labels_of(2)).terms
    reached = {name: bool(gradients(term, views)[1].any()) for name, term in terms.items()}
    assert reached == {"supervised": False, "unlabeled": False, "delta": True, "fairness": False}


def updated(decay, *, steps=5, num_classes=4, rows=7):
    """An adaptive threshold after each of some random updates, with the predictions it took in."""
    threshold = AdaptiveThreshold(num_classes, decay).double()
    for step in range(steps):
        q = probabilities(noise(rows, num_classes, seed=step) * (step + 1))
        threshold.update(q)
        yield threshold, q


@pytest.mark.parametrize("decay", [0.0, 0.5, 0.9, 0.999])
def test_the_running_threshold_stays_between_chance_and_certainty(decay):
    """Invariant 17: tau_t in [1/K, 1]; the running prior and histogram stay on the simplex."""
    for threshold, _ in updated(decay):
        assert 1 / 4 - 1e-7 <= threshold.tau.value <= 1
        for share in (threshold.prior.value, threshold.histogram.value):
            assert (share >= 0).all()
            assert share.sum().item() == pytest.approx(1, abs=1e-6)


@pytest.mark.parametrize("decay", [0.0, 0.5, 0.9, 0.999])
def test_the_threshold_of_a_class_is_tau_at_the_most_expected_class_and_lower_elsewhere(decay):
    """Invariant 17: tau_t(c) <= tau_t with equality at argmax p~."""
    for threshold, _ in updated(decay):
        tau, per_class = threshold.tau.value, threshold.per_class()
        assert per_class.argmax() == threshold.prior.value.argmax()
        close(per_class.max(), tau)
        assert (per_class <= tau + 1e-12).all()


@pytest.mark.parametrize("decay", [1.0, 1 - 1e-7])
def test_at_first_every_row_better_than_chance_is_kept(decay):
    """Invariant 17: with lambda near 1 every row with max probability above 1/K passes at t = 1."""
    threshold, q = next(updated(decay, steps=1))
    assert (q.max(-1).values > 0.26).all()
    assert threshold.select(q)[1].all()


def test_a_decay_of_one_freezes_the_running_threshold():
    """Invariant 17: lambda = 1 freezes."""
    for threshold, _ in updated(1.0):
        for average in (threshold.tau, threshold.prior, threshold.histogram):
            assert (average.value == 0.25).all()


def test_the_running_threshold_is_state_without_gradient_that_a_checkpoint_restores():
    """Invariant 17: the state carries no gradient and is saved and restored by checkpoints."""
    method, again = (make(InterLUDEPlus, alpha=0, decay=0.5) for _ in range(2))
    views, y = uneven_views(), labels_of(2)
    objective_of(method, views, y)
    state = method.state_dict()
    names = {f"threshold.{name}.value" for name in ("tau", "prior", "histogram")}
    assert names <= set(state)
    assert not any(state[name].requires_grad for name in names)
    again.load_state_dict(state)
    first, second = (objective_of(each, views, y).loss for each in (method, again))
    assert torch.equal(first, second), "a restored method must give the same next loss"


@seeds
@pytest.mark.parametrize("keep", [0.3, 1.0])
def test_fairness_is_never_positive_and_always_finite(seed, keep):
    """Invariant 18: <= 0; finite although classes are absent."""
    (threshold, _), *_ = updated(0.5, steps=1)
    for scale in (0.1, 1.0, 30.0):
        strong = (noise(7, 4, seed=seed) * scale).requires_grad_()
        mask = (torch.rand(7, generator=torch.Generator().manual_seed(seed)) <= keep).double()
        value = threshold.fairness(strong, mask)
        assert value <= 0
        assert value.isfinite()
        assert gradients(value, [strong])[0].isfinite().all()


def test_fairness_pulls_at_kept_strong_rows_only():
    """Invariant 18: no gradient to weak logits; none to rows that are not kept."""
    views = uneven_views()
    method = make(InterLUDEPlus, alpha=0, decay=0.3)
    objective = objective_of(method, views, labels_of(2))
    assert 0 < objective.logged["mask"] < 1
    x_weak, x_strong, u_weak, u_strong = gradients(objective.terms["fairness"], views)
    assert not any(gradient.any() for gradient in (x_weak, x_strong, u_weak))
    _, mask = method.threshold.select(probabilities(views[2]))
    assert (u_strong.abs().sum(-1) > 0).double().tolist() == mask.tolist()


def test_fairness_ignores_the_scale_of_what_it_sums():
    """Invariant 18: scale-free in p_bar and h_bar: neither dropped rows nor repeated ones change it."""
    (threshold, _), *_ = updated(0.5, steps=1)
    strong, mask = noise(6, 4), torch.ones(6, dtype=torch.float64)
    value = threshold.fairness(strong, mask)
    more = torch.cat([strong, noise(4, 4, seed=9)])
    close(threshold.fairness(more, torch.cat([mask, torch.zeros(4, dtype=torch.float64)])), value)
    close(threshold.fairness(strong.repeat(3, 1), mask.repeat(3)), value)


def test_fairness_of_an_empty_mask_is_zero():
    """Invariant 18: an empty mask gives 0, with a gradient of 0."""
    threshold, strong = AdaptiveThreshold(4, 0.9).double(), noise(6, 4).requires_grad_()
    value = threshold.fairness(strong, torch.zeros(6, dtype=torch.float64))
    assert value == 0
    assert torch.equal(gradients(value, [strong])[0], torch.zeros_like(strong))


@pytest.mark.parametrize("num_classes", [2, 5])
def test_two_uniform_distributions_have_a_fairness_of_minus_log_k(num_classes):
    """Invariant 18: when a == b is uniform the value is -log K."""
    threshold = AdaptiveThreshold(num_classes, 0.9).double()
    strong = 3 * torch.eye(num_classes, dtype=torch.float64)
    value = threshold.fairness(strong, torch.ones(num_classes, dtype=torch.float64))
    assert value.item() == pytest.approx(-math.log(num_classes), abs=1e-9)


# Training loop

OFF = {"alpha": 0.0, "delta_weight": 0.0, "shared_draws": False}


class Beside(nn.Module):
    """A network whose passes also hold the strong labeled views: BatchNorm sees them, no loss does."""

    def __init__(self, model, x_strong):
        super().__init__()
        self.model, self.x_strong = model, x_strong

    def together(self, x_weak, u_weak, u_strong, targets):
        logits = self.model.together(x_weak, self.x_strong, u_weak, u_strong, targets=targets)
        return logits[0], logits[2], logits[3]


def in_double(run):
    """The run in double precision: sums in another order then round too little to move a gradient."""
    run.method.double()
    run.ema.double()
    run.optimizer.fill_momentum()

    def batch(step):
        single = Run.batch(run, step)
        return single._replace(x=[x.double() for x in single.x], u=[u.double() for u in single.u])

    run.batch = batch
    return run


@layouts
def test_with_everything_off_each_step_has_the_loss_of_fixmatch(layout):
    """Invariant 19: without fusion, delta and shared draws the loss is FixMatch's on the same views."""
    run = in_double(sharpened(toy_run(InterLUDE, threshold=0.8, layout=layout, **OFF), by=8.0))
    kept = []

    def compare(step):
        run.method.train()
        batch = run.batch(step)
        (ours,) = run.method.step(batch, Clock(step, 6))
        model, cfg = Beside(run.method.model, batch.x[1]), FixMatch.Config(threshold=0.8)
        fixmatch = FixMatch(cfg, model, run.task)
        (theirs,) = fixmatch.step(batch._replace(x=batch.x[:1]), Clock(step, 6))
        close(ours.loss, theirs.loss, 1e-9)
        weights = [weight for weight in run.method.parameters() if weight.requires_grad]
        for mine, yours in zip(gradients(ours.loss, weights), gradients(theirs.loss, weights), strict=True):
            close(mine, yours, 1e-8)
        kept.append(float(ours.logged["mask"]))

    compare(0)
    fit(run, lambda: compare(run.step))
    assert any(0 < share < 1 for share in kept), f"no step tested the mask: {kept}"


@pytest.mark.parametrize("point", ["embedding", "stage"])
def test_with_everything_off_a_network_without_batch_statistics_needs_no_strong_labeled_views(point):
    """Invariant 19: with BatchNorm in evaluation mode FixMatch's own pass gives the same loss."""
    run = in_double(sharpened(toy_run(InterLUDE, threshold=0.5, fusion_point=point, **OFF), by=8.0))
    run.method.eval()
    batch = run.batch(0)
    (ours,) = run.method.step(batch, Clock(0, 6))
    fixmatch = FixMatch(FixMatch.Config(threshold=0.5), run.method.model, run.task)
    (theirs,) = fixmatch.step(batch._replace(x=batch.x[:1]), Clock(0, 6))
    close(ours.loss, theirs.loss, 1e-9)


def copies_of_one_image(*, mu=3, seed=0):
    """Batches in which every image, labeled or not, is the same picture of noise."""
    pixels = torch.randint(0, 256, (1, 1, 16, 16), generator=torch.Generator().manual_seed(0)).to(torch.uint8)
    images = Images(pixels.expand(12, -1, -1, -1).clone(), torch.zeros(12, dtype=torch.int64))
    split = replace(toy_split(), labeled=images, unlabeled=images)
    policy = augment.build(augment.AugmentConfig())
    return Batches(split, policy, batch=4, mu=mu, seed=seed, device=torch.device("cpu"))


def views_by_group(batch, mu=3):
    """For each kind of view, the 1 + mu views of each group: (groups, 1 + mu, pixels)."""
    for x, u in zip(batch.x, batch.u, strict=True):
        yield torch.cat([x[:, None], u.unflatten(0, (-1, mu))], dim=1).flatten(2)


KINDS = ("weak", "strong")


@pytest.mark.parametrize("step", [0, 5])
def test_copies_of_an_image_in_one_group_have_identical_views(step):
    """Invariant 20: with shared draws the 1 + mu weak tensors of a group are identical, and the strong."""
    batch = copies_of_one_image()(step, KINDS, KINDS, shared_draws=True)
    for views in views_by_group(batch):
        assert (views == views[:, :1]).all(), "the images of a group were augmented differently"
        assert len(views[:, 0].unique(dim=0)) > 1, "all groups have the same draw"
    weak, strong = batch.x
    assert not torch.equal(weak, strong)


def test_without_shared_draws_copies_of_an_image_differ_inside_a_group():
    """Invariant 20: share_aug off gives different views."""
    batch = copies_of_one_image()(0, KINDS, KINDS, shared_draws=False)
    for views in views_by_group(batch):
        assert any(len(group.unique(dim=0)) > 1 for group in views)


@pytest.mark.parametrize("shared", [True, False])
def test_a_batch_follows_from_seed_and_step(shared):
    """Invariant 20: same seed, same batch, whatever was built before; another seed, another batch."""
    first, again, other = copies_of_one_image(), copies_of_one_image(), copies_of_one_image(seed=1)
    for step in (4, 0):
        again(step, KINDS, KINDS, shared_draws=shared)
    batches = [each(3, KINDS, KINDS, shared_draws=shared) for each in (first, again, other)]
    for mine, same in zip(batches[0].x + batches[0].u, batches[1].x + batches[1].u, strict=True):
        assert torch.equal(mine, same)
    assert not torch.equal(batches[0].x[1], batches[2].x[1])


@pytest.mark.parametrize("kind", [InterLUDE, InterLUDEPlus])
@pytest.mark.parametrize("shared", [True, False])
def test_the_option_shared_draws_reaches_the_batches(kind, shared):
    """Invariant 20: the option decides what the loop builds; the paper's choice is the default."""
    run = toy_run(kind, shared_draws=shared)
    copy = run.split.labeled.pixels[:1].expand(18, -1, -1, -1).clone()
    image = Images(copy, torch.zeros(18, dtype=torch.int64))
    run.batches.split = replace(run.split, labeled=image, unlabeled=image)
    views = [group for step in range(4) for group in views_by_group(run.batch(step), mu=2)]
    same = [bool((view == view[:, :1]).all()) for view in views]
    assert all(same) is shared
    assert toy_run(kind).method.shared_draws is True


def test_the_learning_rate_falls_along_the_cosine():
    """Invariant 21: factor 1 at step 0, strictly decreasing, 0.19509 at K."""
    factors = [schedule.factor(step, 1000) for step in range(1001)]
    assert factors[0] == 1
    assert factors[-1] == pytest.approx(0.19509, abs=5e-6)
    assert all(later < earlier for earlier, later in pairwise(factors))


def test_the_averaged_model_follows_the_weights_and_copies_the_statistics():
    """Invariant 21: theta_bar <- d theta_bar + (1 - d) theta at each step; buffers equal the raw model's."""
    run = toy_run(InterLUDE)
    expected = {name: weight.detach().clone() for name, weight in run.method.model.named_parameters()}

    def follow():
        for name, weight in run.method.model.named_parameters():
            expected[name] = 0.9 * expected[name] + 0.1 * weight.detach()

    fit(run, follow)
    for name, weight in run.ema.model.named_parameters():
        close(weight, expected[name], 1e-6)
    buffers = dict(run.method.model.named_buffers())
    assert buffers, "the toy network has no statistics to copy"
    for name, buffer in run.ema.model.named_buffers():
        assert torch.equal(buffer, buffers[name]), f"{name} is not the raw model's"


def test_exactly_the_one_dimensional_parameters_are_not_decayed():
    """Invariant 22: the no-decay group holds the 1-D parameters (BatchNorm's and biases) and nothing else."""
    run = toy_run(InterLUDEPlus)
    free = [group for group in run.optimizer.torch.param_groups if group["weight_decay"] == 0]
    found = {id(weight) for group in free for weight in group["params"]}
    expected = {id(weight) for weight in run.method.parameters() if weight.ndim == 1}
    assert found == expected
    assert expected


@pytest.mark.parametrize(
    ("name", "num_classes", "size", "count"),
    [("wrn-28-2", 10, 32, 1_467_610), ("wrn-28-8", 100, 32, 23_401_012), ("wrn-37-2", 10, 96, 5_929_434)],
)
def test_the_papers_networks_have_the_papers_number_of_parameters(name, num_classes, size, count):
    """Invariant 22: parameter counts of the authors' networks."""
    with torch.device("meta"):
        model = build(
            ModelConfig(name=name),
            num_classes=num_classes,
            channels=3,
            image_size=(size, size),
            precision="fp32",
        )
    assert sum(weight.numel() for weight in model.parameters()) == count


def test_evaluation_is_repeatable_and_leaves_the_statistics_alone():
    """Invariant 23: the averaged model gives identical output twice and leaves its buffers untouched."""
    run = toy_run(InterLUDE)
    fit(run)
    images = run.split.tests["test"]
    before = checkpoint.digest(run.ema.state_dict()), checkpoint.digest(run.method.state_dict())
    first, second = run.predict(images), run.predict(images)
    assert torch.equal(first, second)
    assert before == (checkpoint.digest(run.ema.state_dict()), checkpoint.digest(run.method.state_dict()))
    assert not run.ema.model.training


def losses(run):
    return [value.item() for _, value in run.meter.values["train/loss"]]


@pytest.mark.parametrize(("kind", "options"), [(InterLUDE, {}), (InterLUDEPlus, {"decay": 0.5})])
def test_a_resumed_run_has_the_losses_of_the_uninterrupted_one(kind, options):
    """Invariant 24: resume from a checkpoint reproduces the uninterrupted loss trace, to the bit."""
    whole, half, resumed = (toy_run(kind, **options) for _ in range(3))
    fit(whole)
    stop_after(half, 3)
    resumed.load(half.state())
    fit(resumed)
    assert len(losses(whole)) == 6
    assert losses(half) + losses(resumed) == losses(whole)


def test_a_labeled_image_meets_its_own_group_in_the_batch_of_the_loop():
    """Invariants 1 and 20 together: a batch of the loop has the shape that the layout expects."""
    batch = toy_run(InterLUDE).batch(0)
    assert [len(view) for view in (*batch.x, *batch.u)] == list(sizes(groups=4, mu=2)) == [4, 4, 8, 8]
    rows = torch.cat([*batch.x, *batch.u])[order("high-i3", groups=4, mu=2)]
    assert torch.equal(rows[0], batch.x[0][0])
    assert torch.equal(rows[1], batch.u[0][0])


def test_groups_touch_each_other_along_one_edge_only():
    """Specification 5, idea (b): in High-I3 each group leans on the next by one row, us_last to lw_next."""
    groups, mu = 4, 3
    i, j = torch.arange(groups), torch.arange(groups * mu) // mu
    group = torch.cat([i, i, j, j])[order("high-i3", groups, mu)]
    crossing = group != group.roll(-1)
    assert crossing.sum() == groups
    assert (order("high-i3", groups, mu)[crossing] >= 2 * groups + groups * mu).all()


# Alignment (an option of ours)


def test_alignment_moves_guesses_towards_the_shares_of_the_labels():
    method = make(InterLUDEPlus, align=0.0)  # aligned by the mean of this very batch
    method.shares.copy_(torch.tensor([0.5, 0.3, 0.2]))
    logits = four_views(2, 40)[2] + torch.tensor([3.0, 0.0, 0.0])
    p = logits.softmax(-1).detach()
    q = method.guess(p)
    by_hand = p * (method.shares + 1e-6) / (p.mean(0) + 1e-6)
    close(q, by_hand / by_hand.sum(-1, keepdim=True))
    assert (q.mean(0) - method.shares).abs().sum() < (p.mean(0) - method.shares).abs().sum()


def test_alignment_follows_the_running_mean_of_raw_predictions():
    method = make(InterLUDE, align=0.9)
    first, second = four_views(2, 3, seed=1)[2], four_views(2, 3, seed=2)[2]
    method.guess(first.softmax(-1))
    method.guess(second.softmax(-1))
    expected = 0.9 * probabilities(first).mean(0) + 0.1 * probabilities(second).mean(0)
    close(method.running.value, expected)


def test_without_alignment_a_guess_is_the_prediction_and_nothing_is_kept():
    method, p = make(InterLUDE), four_views()[2].softmax(-1)
    q = method.guess(p)
    assert torch.equal(q, p)
    assert not q.requires_grad
    assert not dict(method.named_buffers())
