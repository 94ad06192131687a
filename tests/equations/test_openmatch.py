"""OpenMatch: steps with selections a second way, what must hold of it, and what public code got wrong."""

import copy
from dataclasses import replace

import by_hand
import numpy as np
import pytest
import torch
from stand_in import batch_of, gradients, labels_of
from torch import nn

from interlude import testing
from interlude.data import Images
from interlude.loop import fit
from interlude.method import Clock, Task
from interlude.methods.openmatch import OpenMatch, consistency, entropy, one_vs_all
from interlude.models import Backbone, Classifier

GROUPS, MU, WIDTH, CLASSES = 4, 3, 5, 3
ROWS_U = GROUPS * MU
POOL = 20
LABELS = labels_of(GROUPS)


class Same(Backbone):
    """Images are embeddings."""

    num_features = WIDTH

    def __init__(self, body=None):
        super().__init__()
        self.body = body or nn.Identity()

    def forward(self, images, midway=None):
        return self.body(images)


def random(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def openmatch(*, body=None, ema=True, **options):
    """The method over embeddings, with weights at random and an averaged model that has others."""
    torch.manual_seed(0)
    pool = random(POOL, WIDTH, seed=99)
    kinds = []

    def sweep(images, kind):
        kinds.append(kind)
        return iter(images.split(8))

    task = Task(CLASSES, LABELS, labeled=None, unlabeled=pool, sweep=sweep)
    model = Classifier(Same(body), CLASSES)
    method = OpenMatch(OpenMatch.Config(name="openmatch", **options), model, task).double()
    nn.init.normal_(method.model.head.weight)
    nn.init.normal_(method.model.open_head.weight)
    if ema:
        task.ema = copy.deepcopy(method.model).eval().requires_grad_(False)
        task.ema.open_head.weight += 0.3 * random(2 * CLASSES, WIDTH, seed=98)
    method.kinds = kinds
    return method


def five_views(seed=0):
    """x_weak, x_flip, u_weak, u_weak again, u_strong, as leaves."""
    sizes = [GROUPS, GROUPS, ROWS_U, ROWS_U, ROWS_U]
    return [random(rows, WIDTH, seed=10 * seed + i).requires_grad_() for i, rows in enumerate(sizes)]


def rows_of(step):
    return torch.arange(step, step + ROWS_U) % POOL


def step_of(method, views, *, step=0, total=10, y=LABELS, rows_u=None):
    batch = batch_of(views[:2], y, views[2:])._replace(rows_u=rows_of(step) if rows_u is None else rows_u)
    (objective,) = method.step(batch, Clock(step, total))
    return objective


def pair(outputs, c):
    """Outlier and inlier probability of class c, from the 2C outputs of a row."""
    return by_hand.softmax(np.array([outputs[c], outputs[CLASSES + c]]))


def inliers_by_hand(model, pool):
    """o_0 at the predicted class is not above one half."""
    head, bias, open_head = (
        w.detach().numpy() for w in (model.head.weight, model.head.bias, model.open_head.weight)
    )
    return np.array([pair(open_head @ z, (head @ z + bias).argmax())[0] <= 0.5 for z in pool.numpy()])


def terms_by_hand(at, y, fixed, options):
    """The five terms at arrays (views, head, bias, open head); `fixed`: label, mask, number of inliers."""
    views, (head, bias, open_head) = at[:5], at[5:]
    logits = [[head @ z + bias for z in view] for view in views]
    outputs = [[open_head @ z for z in view] for view in views]
    supervised = ova = entropy = change = fix = 0.0
    for view in (0, 1):
        for row, c in enumerate(y):
            supervised += by_hand.cross_entropy(logits[view][row], c) / (2 * GROUPS)
            others = [-np.log(pair(outputs[view][row], j)[0]) for j in range(CLASSES) if j != c]
            ova += (-np.log(pair(outputs[view][row], c)[1]) + max(others)) / (2 * GROUPS)
    for row in range(ROWS_U):
        for c in range(CLASSES):
            first, second = pair(outputs[2][row], c), pair(outputs[3][row], c)
            for p in (first, second):
                entropy += -sum(p * np.log(p)) / (2 * ROWS_U * CLASSES)
            change += sum((first - second) ** 2) / ROWS_U
        if fixed["mask"][row]:
            fix += by_hand.cross_entropy(logits[4][row], fixed["label"][row]) / fixed["inliers"]
    return {
        "supervised": supervised,
        "one_vs_all": ova,
        "entropy": options["entropy_weight"] * entropy,
        "consistency": options["consistency_weight"] * change,
        "unlabeled": options["weight"] * fix,
    }


OPTIONS = {"entropy_weight": 0.3, "consistency_weight": 0.7, "weight": 0.9}


@pytest.mark.parametrize("threshold", [0.0, 0.7])
def test_terms_gradients_and_inliers_equal_the_loops_over_three_steps(threshold):
    method = openmatch(threshold=threshold, start=0.1, period=ROWS_U / POOL, **OPTIONS)
    model, ema = method.model, method.task.ema
    inlier = np.zeros(POOL, dtype=bool)
    for step in range(3):
        views = five_views(step)
        objective = step_of(method, views, step=step)
        if step >= 1:  # a tenth of ten steps, and then each step
            inlier = inliers_by_hand(ema, method.task.unlabeled)
            assert 0 < inlier.sum() < POOL, "this pool does not test the selection"
        assert method.inlier.tolist() == inlier.tolist()

        leaves = [*views, model.head.weight, model.head.bias, model.open_head.weight]
        at = [leaf.detach().numpy() for leaf in leaves]
        q = by_hand.softmaxes(at[2] @ at[5].T + at[6])
        chosen = inlier[rows_of(step).numpy()]
        mask = chosen & (q.max(1) >= threshold)
        assert not step or 0 < mask.mean() < 1, "this batch does not test the mask"
        assert not (step and threshold) or mask.sum() < chosen.sum(), "this batch does not test the threshold"
        fixed = {"label": q.argmax(1), "mask": mask, "inliers": max(1, chosen.sum())}
        expected = terms_by_hand(at, LABELS.numpy(), fixed, OPTIONS)
        found = {name: term.item() for name, term in objective.terms.items()}
        assert found == pytest.approx(expected, abs=1e-10)
        assert objective.logged["mask"].item() == pytest.approx(mask.mean())
        assert objective.logged["inlier"].item() == pytest.approx(chosen.mean())

        direction = [random(*leaf.shape, seed=50 + i).numpy() for i, leaf in enumerate(leaves)]
        slope = by_hand.slope(
            lambda at, fixed=fixed: sum(terms_by_hand(at, LABELS.numpy(), fixed, OPTIONS).values()),
            at,
            direction,
        )
        found = gradients(objective.loss, leaves)
        ours = sum((g.numpy() * d).sum() for g, d in zip(found, direction, strict=True))
        assert ours == pytest.approx(slope, abs=1e-6)
        with torch.no_grad():
            for weight, gradient in zip(leaves[5:], found[5:], strict=True):
                weight -= 0.1 * gradient
            for mine, theirs in zip(ema.parameters(), model.parameters(), strict=True):
                mine.lerp_(theirs, 0.3)


def test_defaults_are_the_released_ones():
    cfg = OpenMatch.Config(name="openmatch")
    assert (cfg.threshold, cfg.entropy_weight, cfg.consistency_weight, cfg.weight) == (0.0, 0.1, 0.5, 1.0)
    assert cfg.start * 2**19 == 10 * 1024
    assert OpenMatch.mu == 2
    method = openmatch()
    method.task.unlabeled = range(49_700)  # CIFAR-10 less some validation images, batches of 128
    due = [step for step in range(20_000) if method.selection_is_due(Clock(step, 2**19), rows=128)]
    assert due[0] == 10 * 1024
    assert 900 < due[1] - due[0] < 1100


def test_a_short_run_goes_through_all_phases():
    method = openmatch()
    due = [step for step in range(6) if method.selection_is_due(Clock(step, 6), rows=ROWS_U)]
    assert due == [1, 5]  # not in the first step; then after 2.5 passes of 20 images, 12 at a time


def test_images_are_selected_by_the_averaged_model_on_flipped_views():
    method = openmatch()
    method.select_inliers()
    assert method.kinds == ["flip"]
    averaged = inliers_by_hand(method.task.ema, method.task.unlabeled)
    assert averaged.tolist() != inliers_by_hand(method.model, method.task.unlabeled).tolist()
    assert method.inlier.tolist() == averaged.tolist()


def test_without_an_averaged_model_the_trained_one_selects():
    method = openmatch(ema=False).train()
    method.select_inliers()
    assert method.inlier.tolist() == inliers_by_hand(method.model, method.task.unlabeled).tolist()
    assert method.model.training


@pytest.mark.parametrize("training", [True, False])
def test_a_selection_leaves_the_averaged_model_as_it_was(training):
    """The released code leaves it in training mode."""
    method = openmatch(body=nn.BatchNorm1d(WIDTH))
    ema = method.task.ema.train(training)
    before = {name: value.clone() for name, value in ema.state_dict().items()}
    method.select_inliers()
    assert ema.training == training
    assert all(torch.equal(value, before[name]) for name, value in ema.state_dict().items())


def test_a_batch_without_inliers_adds_nothing_and_stops_nothing():
    """The released code cannot fill a batch of inliers then, and ends with an error."""
    method = openmatch(start=1.0)
    views = five_views()
    objective = step_of(method, views, step=3)
    assert objective.terms["unlabeled"].item() == 0
    assert all(gradient.isfinite().all() for gradient in gradients(objective.loss, views))
    assert not gradients(objective.terms["unlabeled"], views)[4].any()


def test_the_mean_is_over_inliers_as_if_the_batch_held_nothing_else():
    method = openmatch(start=1.0)
    views = five_views()
    method.inlier[: ROWS_U // 2] = True
    some = step_of(method, views, rows_u=torch.arange(ROWS_U)).terms["unlabeled"]
    logits_weak, logits_strong = (method.model.classify(views[i][: ROWS_U // 2]) for i in (2, 4))
    expected = nn.functional.cross_entropy(logits_strong, logits_weak.argmax(-1))
    torch.testing.assert_close(some, expected)


def test_outliers_of_the_batch_do_not_move_the_closed_head():
    method = openmatch(start=1.0)
    views = five_views()
    method.inlier[rows_of(0)[: ROWS_U // 2]] = True
    gradient = gradients(step_of(method, views).terms["unlabeled"], views)[4]
    assert gradient[: ROWS_U // 2].any(dim=1).all()
    assert not gradient[ROWS_U // 2 :].any()


def test_consistency_moves_both_views():
    first, second = (random(4, 2, CLASSES, seed=i).requires_grad_() for i in (0, 1))
    for i, found in enumerate(gradients(consistency(first, second).sum(), [first, second])):
        p, other = (view.detach().softmax(1) for view in ((first, second), (second, first))[i])
        slope = 2 * (p - other)  # through the softmax over the pair: p (slope - sum p slope)
        torch.testing.assert_close(found, p * (slope - (p * slope).sum(1, keepdim=True)))
    views = five_views()
    of_views = gradients(step_of(openmatch(), views).terms["consistency"], views)
    assert [bool(gradient.any()) for gradient in of_views] == [False, False, True, True, False]


def test_equal_views_are_consistent():
    first = random(4, 2, CLASSES)
    assert not consistency(first, first).any()
    # each pair sums to 1, so both of its outputs change by as much
    other = random(4, 2, CLASSES, seed=1)
    change = (first.softmax(1) - other.softmax(1))[:, 1].square().sum(-1)
    torch.testing.assert_close(consistency(first, other), 2 * change)


def test_a_certain_and_wrong_output_still_gets_a_gradient():
    """With 1e-8 inside the logarithm, as in the released code, it gets none."""
    outputs = torch.tensor([[[40.0, -40.0], [-40.0, 40.0]]], requires_grad=True)  # (1, 2, C): not 0, but 1
    (ours,) = gradients(one_vs_all(outputs, torch.tensor([0])).sum(), [outputs])
    theirs = -(outputs.softmax(1)[0, 1, 0] + 1e-8).log() - (outputs.softmax(1)[0, 0, 1] + 1e-8).log()
    assert gradients(theirs, [outputs])[0].abs().max() < 1e-20
    torch.testing.assert_close(ours, torch.tensor([[[1.0, -1.0], [-1.0, 1.0]]]))


def test_only_the_hardest_wrong_class_is_pushed_away():
    outputs = torch.tensor([[[0.0, 0.0, 0.0], [1.0, 2.0, -1.0]]], requires_grad=True)
    (gradient,) = gradients(one_vs_all(outputs, torch.tensor([0])).sum(), [outputs])
    moved = gradient[0].abs().amax(0) > 0
    assert moved.tolist() == [True, True, False]


def test_a_soft_label_that_is_certain_is_a_hard_label():
    outputs = random(6, 2, CLASSES)
    y = labels_of(6)
    soft = nn.functional.one_hot(y, CLASSES).double()
    torch.testing.assert_close(one_vs_all(outputs, soft), one_vs_all(outputs, y))
    hard, mixed = step_of(openmatch(), five_views()), step_of(openmatch(), five_views(), y=soft[:GROUPS])
    torch.testing.assert_close(hard.loss, mixed.loss)


def test_entropy_is_greatest_where_the_head_is_undecided():
    undecided = torch.zeros(2, 2, CLASSES)
    torch.testing.assert_close(entropy(undecided), torch.full((2, CLASSES), float(np.log(2))))
    assert (entropy(random(2, 2, CLASSES)) < np.log(2)).all()


def test_both_labeled_views_are_trained():
    views = five_views()
    objective = step_of(openmatch(), views)
    for term in ("supervised", "one_vs_all"):
        found = gradients(objective.terms[term], views)
        assert found[0].any(dim=1).all()
        assert found[1].any(dim=1).all()


def with_outliers(split, count=12):
    """The split with pictures of noise among its unlabeled images."""
    noise = torch.randint(0, 256, (count, 1, 8, 8), generator=torch.Generator().manual_seed(5))
    rows = torch.arange(len(split.unlabeled))
    pixels = torch.cat([split.unlabeled.take(rows), noise.to(torch.uint8)])
    labels = torch.cat([split.unlabeled.labels_of(), torch.zeros(count, dtype=torch.int64)])
    return replace(split, unlabeled=Images(pixels, labels))


def test_after_training_known_pictures_are_inliers_and_noise_is_scored_higher():
    cfg = replace(testing.toy_config(OpenMatch), steps=60)
    run = testing.Run(cfg, with_outliers(testing.toy_split()), OpenMatch)
    fit(run)
    run.method.select_inliers()
    assert run.method.inlier[:18].float().mean() > 0.8
    assert 0 < run.method.inlier.float().mean() < 1
    with torch.no_grad():
        score = run.ema.model.open_set_score(next(run.batches.sweep(run.split.unlabeled, "plain")))
    assert score[18:].mean() > 2 * score[:18].mean()
