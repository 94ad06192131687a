"""The losses of InterLUDE and InterLUDE+ computed a second way, by loops and matrices, for every switch."""

from itertools import product

import by_hand
import numpy as np
import pytest
import torch
from stand_in import Bare, batch_of, four_views, gradients, labels_of, make, objective_of
from torch import nn

from interlude.method import Clock
from interlude.methods.interlude import InterLUDE
from interlude.methods.interlude_plus import InterLUDEPlus
from interlude.models import ModelConfig, build
from interlude.optimizer import Optimizer, OptimizerConfig
from interlude.parts.layout import LAYOUTS

GROUPS, MU, WIDTH, NUM_CLASSES = 4, 3, 5, 3
SEEDS = (
    0,
    1,
    3,
)  # of the batches of three steps: found by trial, so that all that can be masked is so in part
SWITCHES = {
    "layout": LAYOUTS,
    "neighbour": ("next", "previous"),
    "delta_reduction": ("sum", "mean"),
    "delta_detach": (False, True),
    "delta_groups": ("average", "class-matched"),
    "soft_targets": (False, True),
}
SETTINGS = [dict(zip(SWITCHES, values, strict=True)) for values in product(*SWITCHES.values())]
NUMBERS = {"alpha": 0.2, "unlabeled_weight": 0.7, "delta_weight": 1.3}

both = pytest.mark.parametrize(
    ("kind", "own"),
    [(InterLUDE, {"threshold": 0.7}), (InterLUDEPlus, {"fairness_weight": 0.4, "decay": 0.3})],
    ids=["interlude", "interlude-plus"],
)
every_switch = pytest.mark.parametrize(
    "switches", SETTINGS, ids=["-".join(map(str, setting.values())) for setting in SETTINGS]
)


def arrays(tensors):
    return [tensor.detach().double().numpy() for tensor in tensors]


def linear(inputs, outputs, *, seed):
    """A linear layer of noise."""
    layer, generator = nn.Linear(inputs, outputs, dtype=torch.float64), torch.Generator().manual_seed(seed)
    for parameter in layer.parameters():
        nn.init.normal_(parameter, std=0.8, generator=generator)
    return layer


def new_state(kind, own):
    return by_hand.Thresholds(NUM_CLASSES, own["decay"]) if kind is InterLUDEPlus else None


def assert_telling(fixed, options):
    """A comparison says nothing about a mask that keeps all rows or none, or groups that all match."""
    assert 0 < fixed.mask.sum() < len(fixed.mask), "this batch does not test the mask"
    if options["delta_groups"] == "class-matched":
        matched = fixed.count.any(1)
        assert 0 < matched.sum() < len(matched), "this batch does not test groups without a match"
        assert fixed.count.sum() < fixed.count[matched].size, "this batch does not test partial matches"


@both
@every_switch
def test_terms_and_gradients_on_fused_embeddings_equal_the_loops(kind, own, switches):
    options = {**NUMBERS, **switches, **own}
    head = linear(WIDTH, NUM_CLASSES, seed=1)
    method = make(kind, model=Bare(head), **options)
    state, y = new_state(kind, own), labels_of(GROUPS)

    for step, seed in enumerate(SEEDS):
        views = four_views(GROUPS, MU, WIDTH, seed=seed, scale=1.0)
        objective = objective_of(method, views, y, step=step)
        weight, bias = arrays([head.weight, head.bias])

        logits = by_hand.fused_logits(arrays(views), weight, bias, options)
        fixed = by_hand.interlude_targets(logits, y.numpy(), options, state)
        assert_telling(fixed, options)
        expected = by_hand.interlude_terms(logits, y.numpy(), fixed, options)
        assert {name: term.item() for name, term in objective.terms.items()} == pytest.approx(
            expected, abs=1e-9
        )
        assert objective.loss.item() == pytest.approx(sum(expected.values()), abs=1e-9)

        def loss(at, fixed=fixed):
            moved = by_hand.fused_logits(at[:4], *at[4:], options)
            return sum(by_hand.interlude_terms(moved, y.numpy(), fixed, options).values())

        leaves = [*views, head.weight, head.bias]
        generator = np.random.default_rng(step)
        direction = [generator.standard_normal(leaf.shape) for leaf in leaves]
        found = gradients(objective.loss, leaves)
        slope = sum(float((g.numpy() * d).sum()) for g, d in zip(found, direction, strict=True))
        assert slope == pytest.approx(by_hand.slope(loss, arrays(leaves), direction), abs=1e-6)

        with torch.no_grad():  # the next step sees other weights, and the state of this one
            head.weight -= 0.1 * found[4]
            head.bias -= 0.1 * found[5]


@both
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("neighbour", ["next", "previous"])
@pytest.mark.parametrize("at", ["embedding", "stage"])
def test_terms_through_a_convolutional_network_equal_the_loops(kind, own, layout, neighbour, at):
    released = {
        "delta_reduction": "mean",
        "delta_detach": True,
        "delta_groups": "average",
        "soft_targets": False,
    }
    own = own | {"decay": 0.1} if kind is InterLUDEPlus else own
    options = {**NUMBERS, **released, **own, "layout": layout, "neighbour": neighbour}
    model = small_network()
    method = make(kind, model=model, fusion_point=at, **options)
    state, y = new_state(kind, own), labels_of(GROUPS)

    for step in range(2):
        sizes = (GROUPS, GROUPS, GROUPS * MU, GROUPS * MU)
        images = pictures(sum(sizes), seed=step).split(sizes)
        (objective,) = method.step(batch_of(images[:2], y, images[2:]), Clock(step, 10))

        logits = pass_with_dense_fusion(model, images, options, at)
        fixed = by_hand.interlude_targets(logits, y.numpy(), options, state)
        assert_telling(fixed, options)
        expected = by_hand.interlude_terms(logits, y.numpy(), fixed, options)
        found = {name: term.item() for name, term in objective.terms.items()}
        assert found == pytest.approx(expected, abs=1e-9)


def pictures(count, *, seed):
    return torch.randn(count, 1, 8, 8, generator=torch.Generator().manual_seed(seed)).double()


def small_network():
    """The small network, its head scaled so that it is sure of some pictures of noise and not of others."""
    torch.manual_seed(0)
    model = build(
        ModelConfig(name="cnn"), num_classes=NUM_CLASSES, channels=1, image_size=(8, 8), precision="fp32"
    ).double()
    with torch.no_grad():
        logits = model(pictures(100, seed=9))
        model.head.weight.mul_(2 / logits.std(0)[:, None])
        model.head.bias.copy_(-model(pictures(100, seed=9)).mean(0))
    return model


def pass_with_dense_fusion(model, images, options, at):
    """The logits of the four views when what stands at the fusion point is multiplied by the dense matrix."""
    batch = torch.from_numpy(by_hand.interdigitate(arrays(images), options["layout"], MU))
    matrix = torch.from_numpy(by_hand.fuse(np.eye(len(batch)), options["alpha"], options["neighbour"]))
    seen = []

    def fuse(z):
        seen.append(z.ndim)
        return (matrix @ z.flatten(1)).view(z.shape)

    with torch.no_grad():
        logits = model(batch, midway=fuse, at=at)
    assert seen == [4 if at == "stage" else 2], "the network must offer exactly one tensor to fuse"
    return by_hand.pick_out(logits.numpy(), options["layout"], GROUPS, MU)


# the views as they are given, and the rows of High-I3, from the worked example of the specification
VIEWS = ["lw0", "lw1", "ls0", "ls1", "uw0", "uw1", "uw2", "uw3", "us0", "us1", "us2", "us3"]
HIGH_I3 = ["lw0", "uw0", "uw1", "ls0", "us0", "us1", "lw1", "uw2", "uw3", "ls1", "us2", "us3"]


class Dense:
    """One step of InterLUDE+ on a network of two linear layers: matrices and hand-made gradients only."""

    def __init__(self, inputs, y, weights, options):
        self.inputs, self.y, self.options = inputs, y, options
        self.g, self.g_bias, self.h, self.h_bias = weights
        order = [VIEWS.index(tag) for tag in HIGH_I3]
        self.permutation = np.eye(12)[order]
        self.fusion = (1 - options["alpha"]) * np.eye(12) + options["alpha"] * np.roll(np.eye(12), 1, axis=1)

    def forward(self):
        z = self.inputs @ self.g.T + self.g_bias
        self.mixed = self.permutation.T @ self.fusion @ self.permutation  # of the views, in their own order
        self.fused = self.mixed @ z
        logits = self.fused @ self.h.T + self.h_bias
        self.p = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
        return logits

    def through_softmax(self, rows, gradient):
        p = self.p[rows]
        return p * (gradient - (p * gradient).sum(1, keepdims=True))

    def gradient_at_logits(self):
        options, (weak, strong) = self.options, (slice(4, 8), slice(8, 12))
        at_logits = np.zeros_like(self.p)
        at_logits[0:2] += (self.p[0:2] - np.eye(3)[self.y]) / 2

        state = by_hand.Thresholds(3, options["decay"])
        state.update(self.p[weak])
        mask = state.mask(self.p[weak])
        label = self.p[weak].argmax(1)
        unlabeled = mask[:, None] * (self.p[strong] - np.eye(3)[label]) / 4
        at_logits[strong] += options["unlabeled_weight"] * unlabeled

        average = np.kron(np.eye(2), np.full((1, 2), 1 / 2))  # (2, 4): mean over the two images of a group
        gap = (self.p[0:2] - self.p[2:4]) - average @ (self.p[weak] - self.p[strong])
        gap = options["delta_weight"] * 2 / 2 * gap
        at_logits[0:2] += self.through_softmax(slice(0, 2), gap)
        at_logits[2:4] -= self.through_softmax(slice(2, 4), gap)
        at_logits[weak] -= self.through_softmax(weak, average.T @ gap)
        at_logits[strong] += self.through_softmax(strong, average.T @ gap)

        a, kept = by_hand.fairness_targets(state, self.p[strong], mask)
        inverse = np.divide(1, kept, out=np.zeros(3), where=kept > 0)
        ratio = (mask[:, None] * self.p[strong]).sum(0) * inverse
        b = ratio / ratio.sum()
        # d/dr_c sum_k a_k log(r_k / S) = a_c / r_c - sum(a of the classes present) / S
        present = kept > 0
        at_ratio = np.where(present, a / np.where(present, ratio, 1) - a[present].sum() / ratio.sum(), 0)
        at_p = mask[:, None] * (at_ratio * inverse)
        at_logits[strong] += options["fairness_weight"] * self.through_softmax(strong, at_p)
        self.mask, self.b = mask, b
        return at_logits

    def gradients(self):
        at_logits = self.gradient_at_logits()
        at_z = self.mixed.T @ at_logits @ self.h
        return at_z.T @ self.inputs, at_z.sum(0), at_logits.T @ self.fused, at_logits.sum(0)


def test_one_whole_step_of_two_linear_layers_equals_dense_matrices():
    rate, momentum, weight_decay = 0.05, 0.9, 0.01
    options = {
        "alpha": 0.2,
        "unlabeled_weight": 0.8,
        "delta_weight": 1.5,
        "fairness_weight": 0.3,
        "decay": 0.4,
    }
    body, head = linear(4, 5, seed=1), linear(5, 3, seed=2)
    method = make(InterLUDEPlus, model=Bare(head, body), **options)
    views, y = four_views(groups=2, mu=2, width=4, seed=1, scale=1.0), torch.tensor([1, 2])
    weights = [body.weight, body.bias, head.weight, head.bias]
    before = [array.copy() for array in arrays(weights)]

    dense = Dense(np.concatenate(arrays(views)), y.numpy(), before, options)
    dense.forward()
    expected = dense.gradients()
    assert 0 < dense.mask.sum() < 4, "these inputs do not test the mask"
    assert (dense.b > 0).sum() > 1, "these inputs do not test the fairness"

    config = OptimizerConfig(rate=rate, momentum=momentum, weight_decay=weight_decay)
    objective = objective_of(method, views, y)
    for found, wanted in zip(gradients(objective.loss, weights), expected, strict=True):
        np.testing.assert_allclose(found.numpy(), wanted, atol=1e-12)

    Optimizer(config, method, total=10).step(0, objective.loss)
    for weight, old, gradient in zip(weights, before, expected, strict=True):
        gradient = gradient + (weight_decay * old if old.ndim == 2 else 0)  # biases are not decayed
        moved = old - rate * (1 + momentum) * gradient  # Nesterov's first step
        np.testing.assert_allclose(weight.detach().numpy(), moved, atol=1e-12)
