"""Networks and batches so small that what a method yields can be computed by hand.

The trick: an image is already its embedding, and without a head it is already its logits. The views of a
batch are then leaves of the graph, and the gradient of a prediction is the gradient of the view itself.
"""

from contextlib import contextmanager

import torch
from torch import nn

from interlude.method import Batch, Clock, Task
from interlude.parts.fusion import Circle, fuse
from interlude.parts.losses import softmax

ORDER = ("x_weak", "x_strong", "u_weak", "u_strong")


class Bare(nn.Module):
    """A classifier whose images are embeddings (N, D): a body (default none), then a head (default none)."""

    def __init__(self, head=None, body=None):
        super().__init__()
        self.body = body or nn.Identity()
        self.head = head or nn.Identity()

    def forward(self, images, midway=None, at="embedding"):
        z = self.body(images)
        return self.head(midway(z) if midway else z)

    def joint(self, *views, midway=None, at="embedding"):
        return self(torch.cat(views), midway=midway, at=at)

    def together(self, *views, targets=()):
        rows = self(torch.cat(views)).split([len(view) for view in views])
        fixed = [any(view is target for target in targets) for view in views]
        return [row.detach() if stays else row for row, stays in zip(rows, fixed, strict=True)]

    def layers(self):
        return {}

    def undecayed(self):
        return set()


@contextmanager
def computing_in(dtype):
    """New tensors are of this type: a running average that starts at 1/3 starts at 1/3 in it."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    yield
    torch.set_default_dtype(before)


def make(method, *, num_classes=3, model=None, class_weights=None, dtype=torch.float64, **options):
    """A method over a bare network."""
    weights = None if class_weights is None else torch.tensor(class_weights, dtype=dtype)
    labels = torch.arange(num_classes)
    task = Task(num_classes, labels, labeled=None, unlabeled=labels, sweep=None, class_weights=weights)
    with computing_in(dtype):
        return method(method.Config(name=method.name, **options), model or Bare(), task).to(dtype)


def batch_of(x, y, u=()):
    """A batch of these views."""
    num_u = len(u[0]) if u else 0
    return Batch(tuple(x), y, tuple(u), torch.arange(len(y)), torch.arange(num_u))


def fusion(alpha, neighbour="next"):
    """Fusion of rows that stand in a circle as they come."""
    side = {"next": 1, "previous": -1}[neighbour]
    return lambda z: fuse(z, alpha, Circle.of(torch.arange(len(z)), side))


def change(weak, strong):
    """Change of prediction from the weak to the strong view, given logits."""
    return softmax(weak) - softmax(strong)


def four_views(groups=2, mu=2, width=3, *, seed=0, scale=2.0, dtype=torch.float64):
    """Random x_weak, x_strong, u_weak, u_strong (rows, width) that take gradients."""
    generator = torch.Generator().manual_seed(seed)
    sizes = (groups, groups, groups * mu, groups * mu)
    views = [torch.randn(rows, width, generator=generator, dtype=torch.float64) * scale for rows in sizes]
    return [view.to(dtype).requires_grad_() for view in views]


def labels_of(groups, num_classes=3):
    """One label per group, all classes in turn."""
    return torch.arange(groups) % num_classes


def objective_of(method, views, y, *, step=0):
    """What a method yields on the four views; one that looks at x_weak alone is given that alone."""
    x_weak, x_strong, *u = views
    x = (x_weak, x_strong) if "strong" in method.labeled else (x_weak,)
    (objective,) = method.step(batch_of(x, y, u if method.unlabeled else ()), Clock(step, 10))
    return objective


def gradients(value, views):
    """The gradient of a scalar at each view, zeros where none arrives."""
    return torch.autograd.grad(value, views, retain_graph=True, materialize_grads=True)
