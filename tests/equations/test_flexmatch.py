"""FlexMatch: several steps a second way, with the labels of all images carried along, and what must hold."""

import math

import by_hand
import numpy as np
import pytest
import torch
from stand_in import Bare, computing_in, four_views, gradients, labels_of
from torch import nn

from interlude import testing
from interlude.method import Batch, Clock, Task
from interlude.methods.fixmatch import FixMatch
from interlude.methods.flexmatch import FlexMatch

GROUPS, MU, POOL = 4, 3, 14
LABELS = labels_of(GROUPS)
MAPS = {
    "convex": lambda b: b / (2 - b),
    "linear": lambda b: b,
    "concave": lambda b: math.log(b + 1) / math.log(2),
}


def make(method=FlexMatch, *, model=None, pool=POOL, **options):
    """The method over a bare network and a pool of unlabeled images."""
    task = Task(3, torch.arange(3), labeled=None, unlabeled=range(pool), sweep=None)
    with computing_in(torch.float64):
        return method(method.Config(name=method.name, **options), model or Bare(), task).double()


def rows_of(step, count=GROUPS * MU, pool=POOL):
    """Which images the step draws, each at most once."""
    return torch.randperm(pool, generator=torch.Generator().manual_seed(100 + step))[:count]


def objective_of(method, views, *, rows=None, step=0):
    x_weak, _, u_weak, u_strong = views
    rows = torch.arange(len(u_weak)) if rows is None else rows
    batch = Batch((x_weak,), LABELS, (u_weak, u_strong), torch.arange(GROUPS), rows)
    (objective,) = method.step(batch, Clock(step, 10))
    return objective


def betas(chosen, warmup):
    """n_c / max(max_c n_c, n_-1) (warm-up) or n_c / max_c n_c; 0 while nothing is chosen."""
    counts = [sum(label == c for label in chosen) for c in range(3)]
    never = sum(label == -1 for label in chosen)
    largest = max(*counts, never) if warmup else max(counts)
    return [count / largest if largest else 0.0 for count in counts]


@pytest.mark.parametrize("mapping", MAPS)
@pytest.mark.parametrize("warmup", [True, False])
def test_terms_gradients_and_state_equal_the_loops_over_five_steps(mapping, warmup):
    tau, weight = 0.8, 0.7
    head = nn.Linear(5, 3, dtype=torch.float64)
    nn.init.normal_(head.weight, generator=torch.Generator().manual_seed(0))
    nn.init.zeros_(head.bias)
    method = make(model=Bare(head), threshold=tau, weight=weight, mapping=mapping, warmup=warmup)
    chosen, shares = [-1] * POOL, []
    for step in range(5):
        views, rows = four_views(GROUPS, MU, 5, seed=step, scale=0.7), rows_of(step)
        objective = objective_of(method, views, rows=rows, step=step)
        x_weak, _, u_weak, u_strong = (head(view).detach().numpy() for view in views)

        q = by_hand.softmaxes(u_weak)
        beta, label = betas(chosen, warmup), q.argmax(1)
        mask = np.array([row.max() >= tau * MAPS[mapping](beta[row.argmax()]) for row in q])
        for row, image in zip(q, rows.tolist(), strict=True):
            if row.max() >= tau:
                chosen[image] = int(row.argmax())
        shares.append(mask.mean())
        expected = {
            "supervised": by_hand.supervised(x_weak, LABELS.numpy()),
            "unlabeled": weight * by_hand.unlabeled(u_strong, label, mask),
        }
        assert {name: term.item() for name, term in objective.terms.items()} == pytest.approx(
            expected, abs=1e-10
        )
        assert objective.logged["mask"].item() == pytest.approx(mask.mean())
        assert method.chosen.tolist() == chosen

        def loss(at, fixed=(label, mask)):
            return weight * by_hand.unlabeled([at[1] @ row for row in at[0]], *fixed)

        leaves = [views[3], head.weight]
        generator = np.random.default_rng(step)
        direction = [generator.standard_normal(leaf.shape) for leaf in leaves]
        found = gradients(objective.terms["unlabeled"], leaves)
        slope = sum(float((g.numpy() * d).sum()) for g, d in zip(found, direction, strict=True))
        at = [leaf.detach().numpy() for leaf in leaves]
        assert slope == pytest.approx(by_hand.slope(loss, at, direction), abs=1e-6)
        with torch.no_grad():
            head.weight -= 0.1 * found[1]
    assert any(0 < share < 1 for share in shares[1:]), "no batch tests the mask"


@pytest.mark.parametrize("warmup", [True, False])
def test_beta_is_the_share_of_the_largest_class(warmup):
    method = make(pool=10, warmup=warmup)
    method.chosen.copy_(torch.tensor([0, 0, 0, 1, 2, 2, -1, -1, -1, -1]))
    expected = [3 / 4, 1 / 4, 2 / 4] if warmup else [1, 1 / 3, 2 / 3]
    assert method.beta().tolist() == pytest.approx(expected)


def test_every_row_counts_as_long_as_no_image_is_chosen():
    method = make()
    for step in range(2):
        views = four_views(GROUPS, MU, seed=step, scale=0.5)  # nothing here reaches 0.95
        objective = objective_of(method, views, step=step)
        assert objective.logged["mask"] == 1
        assert objective.terms["unlabeled"] > 0
    assert (method.chosen == -1).all()


def test_with_all_betas_one_the_loss_is_that_of_fixmatch():
    views = four_views(GROUPS, MU, scale=3.0)
    flex, fix = make(pool=12, threshold=0.9), make(FixMatch, threshold=0.9)
    flex.chosen.copy_(torch.arange(12) % 3)
    ours, theirs = (objective_of(method, views) for method in (flex, fix))
    assert 0 < theirs.logged["mask"] < 1, "this batch does not test the mask"
    assert ours.logged["mask"] == theirs.logged["mask"]
    torch.testing.assert_close(ours.loss, theirs.loss)


def test_a_batch_is_masked_by_the_thresholds_before_it():
    """Chosen labels of this batch count from the next step on."""
    method, views = make(threshold=0.8, warmup=False), four_views(GROUPS, MU, scale=1.0)
    first = objective_of(method, views)
    assert first.logged["mask"] == 1
    assert (method.chosen >= 0).any()
    second = objective_of(method, views, step=1)
    assert 0 < second.logged["mask"] < 1


def test_only_confident_rows_are_written_and_none_is_taken_back():
    method = make(pool=4, threshold=0.9)
    sure, unsure = [8.0, 0.0, 0.0], [0.1, 0.0, 0.0]

    def see(u_weak, rows):
        u = torch.tensor(u_weak, dtype=torch.float64)
        x = torch.zeros(GROUPS, 3, dtype=torch.float64)
        objective_of(method, [x, x, u, u], rows=torch.tensor(rows))
        return method.chosen.tolist()

    assert see([sure, unsure], [2, 3]) == [-1, -1, 0, -1]
    assert see([unsure, [0.0, 9.0, 0.0]], [2, 0]) == [1, -1, 0, -1]  # image 2 keeps its label
    assert see([[0.0, 0.0, 9.0]], [2]) == [1, -1, 2, -1]  # and a new sure one replaces it
    assert see([sure, unsure], [3, 3]) == [
        1,
        -1,
        2,
        0,
    ]  # drawn twice: the unsure draw does not undo the sure one


def test_a_resumed_run_keeps_its_thresholds():
    """TorchSSL's checkpoint holds neither the labels nor beta: its thresholds silently start again at 0."""
    method, again = make(threshold=0.6), make(threshold=0.6)
    for step in range(2):
        objective_of(method, four_views(GROUPS, MU, seed=step), rows=rows_of(step), step=step)
    views = four_views(GROUPS, MU, seed=2, scale=0.7)
    fresh = objective_of(make(threshold=0.6), views).loss
    again.load_state_dict(method.state_dict())
    mine, yours = (objective_of(each, views).loss for each in (method, again))
    assert torch.equal(mine, yours)
    assert not torch.equal(mine, fresh), "the state makes no difference here"


def test_betas_move_even_when_all_images_have_one_class():
    """USB and TorchSSL skip the update then, and stay with the thresholds of some earlier step."""
    method = make(pool=6)
    method.chosen.copy_(torch.tensor([1, 1, 1, 1, 1, 1]))
    assert method.beta().tolist() == [0, 1, 0]


def test_no_gradient_reaches_the_weak_view():
    views, method = four_views(GROUPS, MU), make(threshold=0.6)
    objective_of(method, views)
    objective = objective_of(method, views, step=1)
    _, _, u_weak, u_strong = gradients(objective.loss, views)
    assert not u_weak.any()
    assert u_strong.any()


def test_the_order_of_the_unlabeled_rows_does_not_matter():
    plain, permuted = make(threshold=0.6), make(threshold=0.6)
    for step in range(3):
        x_weak, x_strong, u_weak, u_strong = views = four_views(GROUPS, MU, seed=step)
        rows = rows_of(step)
        order = torch.randperm(len(rows), generator=torch.Generator().manual_seed(step))
        before = objective_of(plain, views, rows=rows)
        after = objective_of(permuted, [x_weak, x_strong, u_weak[order], u_strong[order]], rows=rows[order])
        torch.testing.assert_close(after.loss, before.loss)
        assert torch.equal(plain.chosen, permuted.chosen)


@pytest.mark.parametrize("options", [{"mapping": "concave", "warmup": False}, {"mapping": "linear"}])
def test_the_variants_keep_the_contract(options):
    testing.check_method(FlexMatch, **options)
