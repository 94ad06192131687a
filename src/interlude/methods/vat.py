"""VAT, virtual adversarial training (Miyato et al., 2018), https://arxiv.org/abs/1704.03976.

The prediction on an unlabeled image must not change when the image moves by a small step in the direction
that changes it most; that direction is found by power iteration, each time with a gradient at the image. An
entropy term makes the predictions certain.

Symbols: epsilon `radius`, xi `probe`, r_adv `r`, LDS `adversarial`, K `iterations`; lambda `weight`.

Where public code differs: vat_tf and USB probe with xi 1e-6, which float32 cannot resolve: on a WRN-28-2 the
direction found has cosine 0.03 with the true one, against 0.999 with the 1e-3 used here. In bfloat16, or with
the TF32 convolutions that are PyTorch's default on GPUs, 1e-3 is lost as well, so the passes over unlabeled
images are made in true float32. USB finds the direction by a `backward` that also reaches the weights, and
then clears their gradients; here an inner gradient at the image alone. USB's recipes leave lambda at 1
(`weight=1 probe=1e-6`), against 0.3 in Oliver et al. and the MixMatch repository, whose numbers are the
defaults; that repository turns the divergence of the loss round (`reverse`). The authors' vat_tf:
`radius=8 weight=1 ramp=0` with `entropy_weight` 1 or 0. A network that draws (drop path) draws anew in each
pass, so that part of the change found is its own noise.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from interlude import distributed
from interlude.method import Batch, Clock, Method, Objective, register
from interlude.models import Classifier
from interlude.options import option
from interlude.parts.norm import frozen_statistics


@register
class VAT(Method):
    """A prediction stays when the image moves in the direction that would change it most."""

    unlabeled = ("weak",)
    mu: ClassVar[int] = 1

    @dataclass(frozen=True)
    class Config(Method.Config):
        weight: float = option(
            0.3, "weight of the adversarial term after the ramp (vat_tf, USB: 1)", at_least=0
        )
        ramp: float = option(
            0.4, "fraction of the run in which the weight rises from 0 to full", at_least=0, at_most=1
        )
        radius: float = option(
            6.0, "length of the step, epsilon, per image in normalised pixels (vat_tf: 8)", at_least=0
        )
        probe: float = option(1e-3, "length of the step that finds the direction, xi", above=0)
        iterations: int = option(1, "power iterations; with 0 the direction is random", at_least=0)
        entropy_weight: float = option(0.06, "weight of the entropy term, from the start", at_least=0)
        reverse: bool = option(False, "KL(moved || clean) as the loss instead of KL(clean || moved)")

    cfg: Config

    def step(self, batch: Batch, clock: Clock) -> Iterator[Objective]:
        (x,), y, (u,) = batch.x, batch.y, batch.u
        logits_x = self.model(x)
        with frozen_statistics(self.model), full_precision(self.model):
            logits_u = self.model(u)
            clean = logits_u.detach()
            r = self.adversary(u, clean)
            moved = self.model(u + r)

        weight = self.cfg.weight * clock.ramp(self.cfg.ramp)
        change = divergence(moved, clean) if self.cfg.reverse else divergence(clean, moved)
        yield Objective(
            supervised=self.supervised(logits_x, y),
            adversarial=weight * change.mean(),
            entropy=self.cfg.entropy_weight * entropy(logits_u).mean(),
        )

    def adversary(self, u: Tensor, clean: Tensor) -> Tensor:
        """The step of length `radius` at each image that most changes its prediction, given by logits."""
        direction = distributed.own(torch.randn_like(distributed.like_all(u)))
        for _ in range(self.cfg.iterations):
            d = (self.cfg.probe * unit(direction)).requires_grad_()
            change = divergence(clean, self.model(u + d)).mean()
            (direction,) = torch.autograd.grad(distributed.weighted(change), d)
        return self.cfg.radius * unit(direction)


@contextmanager
def full_precision(model: Classifier) -> Iterator[None]:
    """Inside the block the network computes in float32 throughout, without bfloat16 or TF32."""
    precision, tf32 = model.precision, torch.backends.cudnn.allow_tf32
    model.precision, torch.backends.cudnn.allow_tf32 = "fp32", False
    try:
        yield
    finally:
        model.precision, torch.backends.cudnn.allow_tf32 = precision, tf32


def divergence(first: Tensor, second: Tensor) -> Tensor:
    """KL(first || second) of each row, given logits."""
    log_p = first.log_softmax(-1)
    return (log_p.exp() * (log_p - second.log_softmax(-1))).sum(-1)


def entropy(logits: Tensor) -> Tensor:
    """Entropy of the prediction of each row."""
    log_p = logits.log_softmax(-1)
    return -(log_p.exp() * log_p).sum(-1)


def unit(rows: Tensor) -> Tensor:
    """Each row scaled to length 1; zeros stay zeros."""
    axes = tuple(range(1, rows.ndim))
    # by the largest entry first, since the squares of a tiny gradient underflow; then no length is below 1
    rows = rows / rows.abs().amax(axes, keepdim=True).clamp_min(torch.finfo(rows.dtype).tiny)
    length: Tensor = torch.linalg.vector_norm(rows, dim=axes, keepdim=True)
    return rows / length.clamp_min(1)
