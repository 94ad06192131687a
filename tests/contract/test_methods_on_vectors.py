"""Every method that does not need pixels learns from the vectors of a frozen network, and leaves it alone."""

import pytest
import torch

from interlude.data import Images
from interlude.errors import UserError
from interlude.method import Batch, Clock, Method, Task, find_method, method_names
from interlude.models import ModelConfig, build
from interlude.optimizer import Optimizer, OptimizerConfig
from interlude.parts.ema import Ema

B, MU, K, STEPS = 4, 2, 3, 4
POOL = 24
NEEDS_PIXELS = {"fixmatch-saa", "remixmatch"}


def frozen_model(**options):
    torch.manual_seed(0)
    cfg = ModelConfig(name="cnn", frozen=True, **options)
    return build(cfg, num_classes=K, channels=1, image_size=(8, 8))


def table(rows, kind):
    """Vectors of 64 numbers that a view word and the rows decide."""
    return torch.randn(POOL, 64, generator=torch.Generator().manual_seed(len(kind)))[rows]


def task():
    labels = torch.arange(POOL) % K
    images = Images(torch.zeros(POOL, 1, 8, 8, dtype=torch.uint8), labels)
    sweep = lambda images, kind: iter(table(torch.arange(POOL), kind).split(10))  # noqa: E731
    return Task(K, labels, labeled=images, unlabeled=images, sweep=sweep)


def batch_of(method, step):
    generator = torch.Generator().manual_seed(step)
    rows_x, rows_u = (torch.randint(POOL, (n,), generator=generator) for n in (B, B * MU))
    x = tuple(table(rows_x, kind) for kind in method.labeled)
    u = tuple(table(rows_u, kind) for kind in method.unlabeled)
    return Batch(x, rows_x % K, u, rows_x, rows_u)


def train(method: Method):
    """A few steps as the loop takes them."""
    ema, optimizer = Ema(method.model, 0.9), Optimizer(OptimizerConfig(), method, STEPS)
    method.task.ema = ema.model
    terms = {}
    for step in range(STEPS):
        for objective in method.step(batch_of(method, step), Clock(step, STEPS)):
            optimizer.step(step, objective.loss, objective.rate)
            terms |= objective.terms
        ema.update(method.model)
    return ema, terms


def make(name, *, head="mlp", **options):
    method = find_method(name)
    return method(method.Config(name=name, **options), frozen_model(head=head), task())


@pytest.mark.parametrize("head", ["linear", "mlp"])
@pytest.mark.parametrize("name", sorted(set(method_names()) - NEEDS_PIXELS))
def test_a_method_learns_from_vectors_and_leaves_the_body_alone(name, head):
    method = make(name, head=head)
    assert not method.needs_pixels
    backbone = method.model.backbone
    body = [x.clone() for x in backbone.fixed()]
    before = method.model.head.weight.detach().clone()
    ema, terms = train(method)
    assert all(term.isfinite() for term in terms.values())
    assert not torch.equal(method.model.head.weight, before)
    assert all(torch.equal(x, y) for x, y in zip(body, backbone.fixed(), strict=True))
    rows = table(torch.arange(5), "plain")
    assert ema.model(rows).isfinite().all()
    assert ema.model(torch.zeros(5, 1, 8, 8)).isfinite().all(), "the result takes images too"


@pytest.mark.parametrize("name", sorted(NEEDS_PIXELS))
def test_a_method_that_needs_pixels_says_why_and_does_fail_on_vectors(name):
    method = make(name)
    assert method.needs_pixels
    with pytest.raises((UserError, RuntimeError), match=r"must be square|same number of dimensions"):
        train(method)


def test_without_its_rotation_task_remixmatch_learns_from_vectors():
    method = make("remixmatch", rotation_weight=0.0)
    assert not method.needs_pixels
    _, terms = train(method)
    assert "rotation" not in terms


def test_a_wrapper_needs_pixels_if_what_it_wraps_does():
    assert make("fix-a-step", base="remixmatch").needs_pixels
    assert not make("fix-a-step", base="fixmatch").needs_pixels


def test_vat_moves_vectors_by_its_radius():
    method = make("vat", radius=2.0)
    vectors = table(torch.arange(6), "weak")
    step = method.adversary(vectors, method.model(vectors).detach())
    torch.testing.assert_close(step.norm(dim=1), torch.full((6,), 2.0))


def test_a_model_of_vectors_takes_the_same_batches():
    method = find_method("interlude")
    cfg = ModelConfig(name="vectors", head="mlp", hidden=8)
    model = build(cfg, num_classes=K, channels=64, image_size=(1, 1))
    _, terms = train(method(method.Config(name="interlude"), model, task()))
    assert all(term.isfinite() for term in terms.values())
