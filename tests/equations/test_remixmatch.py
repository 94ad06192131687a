"""ReMixMatch: several steps a second way, given the same draws, with the running prior carried along."""

import by_hand
import numpy as np
import pytest
import torch
from stand_in import computing_in, gradients
from test_mixmatch import Counting, draws_of, mixed, values
from torch import nn

from interlude.errors import UserError
from interlude.loop import fit
from interlude.method import Batch, Clock, Task
from interlude.methods import remixmatch
from interlude.methods.mixmatch import interleaved
from interlude.methods.remixmatch import ReMixMatch, turned
from interlude.parts.targets import align
from interlude.testing import toy_run

GROUPS, MU, SIDE, NUM_CLASSES = 3, 2, 2, 3
LABELS = torch.tensor([0, 2, 1])
LABELED_SET = torch.tensor([0, 0, 0, 1, 1, 2])  # not balanced
FREQUENCY = np.array([3, 2, 1]) / 6


class Small(Counting):
    """A classifier whose embedding is the image, row by row; with BatchNorm on request."""

    num_features = SIDE * SIDE

    def __init__(self, *, norm=False):
        flat = nn.Flatten()
        body = nn.Sequential(flat, nn.BatchNorm1d(self.num_features, momentum=1.0)) if norm else flat
        super().__init__(head=nn.Linear(self.num_features, NUM_CLASSES), body=body)

    def features(self, images):
        self.passes.append((len(images), torch.is_grad_enabled()))
        return self.body(images)


def make(*, norm=False, seed=0, dtype=torch.float64, **options):
    """ReMixMatch with random heads on a small network and an unbalanced labeled set."""
    task = Task(NUM_CLASSES, LABELED_SET, labeled=None, unlabeled=LABELED_SET, sweep=None)
    with torch.random.fork_rng(), computing_in(dtype):
        torch.manual_seed(seed)
        model = Small(norm=norm)
        method = ReMixMatch(ReMixMatch.Config(name="remixmatch", **options), model, task)
        nn.init.normal_(model.head.weight)
        nn.init.normal_(method.rotation.weight)
    return method.train()


def images_of(num_strong=2, *, seed=0, dtype=torch.float64, scale=1.0):
    """Random images: x, the weak view of u, its strong views."""
    generator = torch.Generator().manual_seed(seed)
    sizes = [GROUPS, *[GROUPS * MU] * (1 + num_strong)]
    drawn = [torch.randn(n, 1, SIDE, SIDE, generator=generator, dtype=torch.float64) for n in sizes]
    return [(scale * images).to(dtype) for images in drawn]


def objective_of(method, images, *, step=5, seed=0, y=LABELS):
    torch.manual_seed(seed)
    batch = Batch((images[0],), y, tuple(images[1:]), torch.arange(GROUPS), torch.arange(GROUPS * MU))
    (objective,) = method.step(batch, Clock(step, 10))
    return objective


def arrays(tensors):
    return [tensor.detach().numpy().copy() for tensor in tensors]


def weights_of(method):
    return [*method.model.head.parameters(), *method.rotation.parameters()]


class Prior:
    """p~: the mean of the last `window` batch means so far, or their EMA; the current batch counts."""

    def __init__(self, window, decay):
        self.window, self.decay, self.means, self.value = window, decay, [], None

    def update(self, p):
        new = sum(p) / len(p)
        self.means = [*self.means, new][-self.window :] if self.window else []
        first = self.value is None
        ema = new if first else self.decay * self.value + (1 - self.decay) * new
        self.value = sum(self.means) / len(self.means) if self.window else ema


def guessed(weak, at, prior, temperature):
    """q: the weak prediction times p(y) / p~(y), normalised, sharpened."""
    p = [by_hand.softmax(at[0] @ image.ravel() + at[1]) for image in weak]
    prior.update(p)
    labels = []
    for row in p:
        aligned = row * (FREQUENCY + 1e-6) / (prior.value + 1e-6)
        aligned = aligned / aligned.sum()
        labels.append(aligned ** (1 / temperature) / (aligned ** (1 / temperature)).sum())
    return labels


def terms_of(fixed, at, options, ramp):
    """The four terms, given everything that takes no gradient."""
    rows, targets, strong, q, rotated, turns = fixed
    head, bias, rotation, rotation_bias = at
    losses = [
        by_hand.cross_entropy(head @ row.ravel() + bias, t) for row, t in zip(rows, targets, strict=True)
    ]
    anchored = [by_hand.cross_entropy(head @ row.ravel() + bias, t) for row, t in zip(strong, q, strict=True)]
    told = [
        by_hand.cross_entropy(rotation @ row.ravel() + rotation_bias, r)
        for row, r in zip(rotated, turns, strict=True)
    ]
    return {
        "supervised": np.mean(losses[:GROUPS]),
        "unlabeled": options["weight"] * ramp * np.mean(losses[GROUPS:]),
        "strong": options["strong_weight"] * ramp * np.mean(anchored),
        "rotation": options["rotation_weight"] * np.mean(told),
    }


@pytest.mark.parametrize("share", ["image", "batch"])
@pytest.mark.parametrize(("views", "window", "decay"), [(2, 3, 0.999), (2, 0, 0.6), (4, 128, 0.999)])
def test_terms_gradients_and_prior_equal_the_loops_over_five_steps(views, window, decay, share):
    options = {"weight": 1.3, "strong_weight": 0.6, "rotation_weight": 0.4}
    method = make(views=views, window=window, decay=decay, share=share, ramp=0.4, **options)
    prior = Prior(window, decay)
    for step in range(5):
        images = images_of(views, seed=step)
        objective = objective_of(method, images, step=step, seed=step)

        at = arrays(weights_of(method))
        x, weak, *strong = (view.numpy() for view in images)
        q = guessed(weak, at, prior, 0.5)
        num_rows = GROUPS * (1 + MU * (1 + views))
        lam, order = draws_of(0.75, num_rows, share, seed=step)
        turns = torch.randint(4, (GROUPS * MU,)).numpy()  # drawn after the order
        rows = mixed([image for view in (x, weak, *strong) for image in view], lam, order)
        targets = mixed([*np.eye(NUM_CLASSES)[LABELS], *q * (1 + views)], lam, order)
        rotated = [np.rot90(image, r, axes=(1, 2)) for image, r in zip(strong[0], turns, strict=True)]
        fixed, ramp = (rows, targets, strong[0], q, rotated, turns), min(1.0, step / 4)

        assert values(objective) == pytest.approx(terms_of(fixed, at, options, ramp), abs=1e-10)
        np.testing.assert_allclose(method.prior.value, prior.value, atol=1e-12)
        generator = np.random.default_rng(step)
        direction = [generator.standard_normal(part.shape) for part in at]
        found = gradients(objective.loss, weights_of(method))
        slope = sum(float((g.numpy() * d).sum()) for g, d in zip(found, direction, strict=True))
        expected = by_hand.slope(lambda at: sum(terms_of(fixed, at, options, ramp).values()), at, direction)  # noqa: B023
        assert slope == pytest.approx(expected, abs=1e-7)
        with torch.no_grad():
            for weight, gradient in zip(weights_of(method), found, strict=True):
                weight -= 0.3 * gradient


# Distribution alignment


@pytest.mark.parametrize("window", [128, 0])
def test_after_the_first_step_the_prior_is_the_mean_prediction_of_the_batch(window):
    method, images = make(window=window), images_of()
    objective_of(method, images)
    torch.testing.assert_close(method.prior.value, method.model(images[1]).softmax(-1).mean(0).detach())


def test_the_target_is_how_often_each_class_is_labeled():
    np.testing.assert_allclose(make().frequency, FREQUENCY)


def test_a_prior_equal_to_the_target_leaves_predictions_as_they_are():
    p = torch.randn(6, NUM_CLASSES, dtype=torch.float64).softmax(-1)
    target = torch.tensor(FREQUENCY)
    torch.testing.assert_close(align(p, target, target), p, atol=1e-6, rtol=0)


def test_alignment_moves_guesses_towards_the_frequencies_of_the_labels():
    method, (_, weak, *_) = make(temperature=1.0), images_of()
    p = method.model(weak).softmax(-1).mean(0).detach()
    q = method.guess([weak]).mean(0)
    assert (q - method.frequency).abs().sum() < (p - method.frequency).abs().sum()


def test_the_prior_forgets_the_untrained_network():
    """An EMA of 0.999 from the first batch on still is that batch after a hundred steps."""
    recent, ema = make(window=8), make(window=0)
    for step in range(30):
        for method in (recent, ema):
            method.guess([images_of(seed=step)[1] + (5.0 if step == 0 else 0.0)])
    last = [recent.model(images_of(seed=step)[1]).softmax(-1).mean(0).detach() for step in range(22, 30)]
    torch.testing.assert_close(recent.prior.value, torch.stack(last).mean(0))
    first = ema.model(images_of(seed=0)[1] + 5.0).softmax(-1).mean(0).detach()
    assert (ema.prior.value - first).abs().max() < 0.05


def test_everything_stays_in_single_precision():
    """A public implementation takes the class frequencies from numpy, and the loss becomes double."""
    method = make(dtype=torch.float32)
    objective = objective_of(method, images_of(dtype=torch.float32))
    assert {term.dtype for term in objective.terms.values()} == {torch.float32}
    assert method.frequency.dtype == torch.float32
    assert method.guess([images_of(dtype=torch.float32)[1]]).dtype == torch.float32


# Rotation


def test_images_are_turned_by_right_angles():
    images = torch.arange(4 * 9.0).view(4, 1, 3, 3)
    result = turned(images, torch.tensor([0, 1, 2, 3]))
    for image, turns, got in zip(images, range(4), result, strict=True):
        np.testing.assert_array_equal(got[0].numpy(), np.rot90(image[0].numpy(), turns))


def test_images_that_are_not_square_are_refused():
    with pytest.raises(UserError, match="must be square, these are 2 x 3"):
        turned(torch.zeros(1, 1, 2, 3), torch.tensor([1]))


def test_the_rotation_moves_its_head_and_nothing_else_does():
    method = make()
    objective = objective_of(method, images_of())
    head = list(method.rotation.parameters())
    others = objective.loss - objective.terms["rotation"]
    assert all(g.any() for g in gradients(objective.terms["rotation"], head))
    assert not any(g.any() for g in gradients(others, head))
    assert not any(g.any() for g in gradients(objective.terms["rotation"], method.model.head.parameters()))


def test_the_rotation_trains_the_backbone():
    run = toy_run(ReMixMatch)
    (objective,) = run.method.step(run.batch(0), Clock(0, 6))
    weights = list(run.method.model.backbone.parameters())
    assert any(g.any() for g in gradients(objective.terms["rotation"], weights))


def test_every_angle_occurs(monkeypatch):
    seen = []
    monkeypatch.setattr(remixmatch, "turned", lambda images, turns: seen.extend(turns.tolist()) or images)
    for seed in range(8):
        objective_of(make(), images_of(), seed=seed)
    assert set(seen) == {0, 1, 2, 3}


def test_at_the_first_step_labels_and_rotation_count_alone():
    objective = objective_of(make(), images_of(), step=0)
    assert objective.terms["unlabeled"] == objective.terms["strong"] == 0
    assert objective.terms["rotation"] > 0
    assert torch.equal(
        objective.terms["rotation"], objective_of(make(), images_of(), step=9).terms["rotation"]
    )


# Passes, views, state


def test_no_pass_is_wasted():
    """A public implementation passes labeled images and a second strong view and drops the results."""
    method = make()
    objective_of(method, images_of())
    num_u, chunks = GROUPS * MU, 1 + 3 * MU
    assert method.model.passes == [(num_u, False), *[(GROUPS, True)] * chunks, (num_u, True), (num_u, True)]


def test_batchnorm_records_the_first_mixed_chunk_alone():
    method, images = make(norm=True), images_of()
    objective_of(method, images)
    lam, order = draws_of(0.75, GROUPS * (1 + 3 * MU))
    rows = np.stack(mixed([image.numpy().ravel() for view in images for image in view], lam, order))
    first = interleaved(len(rows), GROUPS)[:GROUPS]
    norm = method.model.body[1]
    np.testing.assert_allclose(norm.running_mean, rows[first].mean(0), atol=1e-12)
    assert norm.num_batches_tracked == 1


def test_options_choose_the_views():
    assert (make().labeled, make().unlabeled) == (("weak",), ("weak", "strong", "strong"))
    eight = make(views=8, labeled_view="strong")
    assert (eight.labeled, eight.unlabeled) == (("strong",), ("weak", *["strong"] * 8))
    assert ReMixMatch.mu == 1


def test_the_target_comes_from_the_weak_view_alone():
    method, images = make(), images_of()
    q = method.guess([images[1]])
    anchored = nn.functional.cross_entropy(method.model(images[2]), q)
    torch.testing.assert_close(objective_of(make(), images).terms["strong"], 0.5 * anchored)


@pytest.mark.parametrize("window", [3, 0])
def test_a_restored_method_gives_the_same_next_loss(window):
    method, again = (make(window=window, decay=0.5) for _ in range(2))
    for step in range(4):
        objective_of(method, images_of(seed=step))
    fresh = objective_of(make(window=window, decay=0.5), images_of(seed=9)).loss
    again.load_state_dict(method.state_dict())
    mine, yours = (objective_of(each, images_of(seed=9)).loss for each in (method, again))
    assert torch.equal(mine, yours)
    assert not torch.equal(mine, fresh), "the state makes no difference here"


def test_the_variants_run():
    fit(toy_run(ReMixMatch, views=3, window=0, share="batch", interleave=False, labeled_view="strong"))
