"""Methods with embeddings on networks so small that they can be computed by hand, and the hand that does it.

As in `stand_in`, an image is already its features: the views are leaves of the graph.
"""

from contextlib import contextmanager

import by_hand
import numpy as np
import torch
from stand_in import computing_in
from torch import nn

from interlude.method import Batch, Clock, Task
from interlude.models import Backbone, Classifier

NUM_FEATURES, NUM_CLASSES = 8, 3


class Given(Backbone):
    """Images that are features."""

    num_features = NUM_FEATURES

    def forward(self, images, midway=None):
        return images


def make(method, labels, *, num_unlabeled=50, scale=1.0, seed=0, dtype=torch.float64, **options):
    """A method on features; `scale` is that of the random weights of the head."""
    with torch.random.fork_rng(), computing_in(dtype):
        torch.manual_seed(seed)
        model = Classifier(Given(), NUM_CLASSES)
        nn.init.normal_(model.head.weight, std=scale)
        task = Task(NUM_CLASSES, labels, labeled=None, unlabeled=range(num_unlabeled), sweep=None)
        return method(method.Config(name=method.name, **options), model, task).train()


def views_of(*rows, seed=0, scale=1.0, dtype=torch.float64):
    """Random views with this many rows each, that take gradients."""
    generator = torch.Generator().manual_seed(seed)
    drawn = (torch.randn(n, NUM_FEATURES, generator=generator, dtype=torch.float64) * scale for n in rows)
    return [view.to(dtype).requires_grad_() for view in drawn]


@contextmanager
def one_step(method, x, y, u, rows_x, *, step=0, total=10):
    """The objective of a step; what the method does after its update is done at the end of the block."""
    steps = method.step(Batch((x,), y, tuple(u), rows_x, torch.arange(len(u[0]))), Clock(step, total))
    yield next(steps)
    assert next(steps, None) is None


def weights_of(method):
    """Head and projector, as arrays: W, b, P1, c1, P2, c2, and the LayerNorm's two if there is one."""
    norm = getattr(method.model, "norm", None)
    parts = [*method.model.head.parameters(), *method.projector.parameters()]
    return parts + (list(norm.parameters()) if norm is not None else [])


def arrays(tensors):
    return [tensor.detach().numpy().copy() for tensor in tensors]


def features(row, weights):
    if len(weights) < 8:
        return row
    gamma, beta = weights[6:]
    return gamma * (row - row.mean()) / np.sqrt(row.var() + 1e-5) + beta


def logits(view, weights):
    return np.stack([weights[0] @ features(row, weights) + weights[1] for row in view])


def embeddings(view, weights):
    """P2 relu(P1 f + c1) + c2, divided by its length."""
    _, _, p1, c1, p2, c2 = weights[:6]
    rows = [p2 @ np.maximum(p1 @ features(row, weights) + c1, 0) + c2 for row in view]
    return np.stack([row / np.sqrt((row**2).sum()) for row in rows])


def aligned(p, prior):
    """Each class scaled by (1/K) / prior, with the epsilon of our `align`."""
    rows = [row * (1 / len(row) + 1e-6) / (prior + 1e-6) for row in p]
    return np.stack([row / row.sum() for row in rows])


def near(z, places, temperature):
    """Softmax over the places of the similarity of each row to them."""
    return np.stack([by_hand.softmax(np.array([row @ place for place in places]) / temperature) for row in z])


def mean_cross_entropy(logits, targets):
    return np.mean([by_hand.cross_entropy(row, t) for row, t in zip(logits, targets, strict=True)])


def assert_slope(objective, leaves, loss, seed):
    """The gradient of the objective along a random direction is the difference quotient of `loss`."""
    generator = np.random.default_rng(seed)
    direction = [generator.standard_normal(leaf.shape) for leaf in leaves]
    found = torch.autograd.grad(objective.loss, leaves, retain_graph=True, materialize_grads=True)
    slope = sum(float((g.numpy() * d).sum()) for g, d in zip(found, direction, strict=True))
    expected = by_hand.slope(loss, arrays(leaves), direction)
    assert abs(slope - expected) < 1e-6 * max(1, abs(expected)), (slope, expected)
    assert all(g.any() for g in found), "a leaf without gradient tests nothing"


def descend(objective, weights, rate=0.02):
    """Move the weights, as the loop does between a `yield` and the lines after it."""
    found = torch.autograd.grad(objective.loss, weights)
    with torch.no_grad():
        for weight, g in zip(weights, found, strict=True):
            weight -= rate * g
