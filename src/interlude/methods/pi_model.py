"""Pi-Model (Laine & Aila, 2017), https://arxiv.org/abs/1610.02242.

Two views of an unlabeled image must get the same prediction: their squared distance, the mean over rows and
classes, is a loss whose weight rises from zero.

Symbols: z~ `p_first`, z `p_second`, w(t) is `weight` times the ramp.

Where public code differs: USB and the MixMatch repository (whose numbers are the defaults here) take the
first view as a fixed target. The authors let the gradient through both views (`symmetric`), apply the term to
labeled rows too, raise it by exp(-5 (1 - t)^2) over 80 epochs, and weigh it by 100 times the labeled share of
the images (8 at 4000 labels of CIFAR-10). The distance is a mean over classes; summed, it would weigh K times
as much. USB keeps the graph of the first view, to no effect; here that pass is made without one.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import torch

from interlude.method import Batch, Clock, Method, Objective, register
from interlude.options import option
from interlude.parts.norm import frozen_statistics


@register
class PiModel(Method):
    """Two weak views of an image are given the same prediction."""

    unlabeled = ("weak", "weak")
    mu: ClassVar[int] = 1

    @dataclass(frozen=True)
    class Config(Method.Config):
        weight: float = option(10.0, "weight of the consistency term after the ramp", at_least=0)
        ramp: float = option(
            0.4, "fraction of the run in which the weight rises from 0 to full", at_least=0, at_most=1
        )
        symmetric: bool = option(False, "let the gradient through both views, as the paper does")

    cfg: Config

    def step(self, batch: Batch, clock: Clock) -> Iterator[Objective]:
        (x,), y, (u_first, u_second) = batch.x, batch.y, batch.u
        logits_x = self.model(x)
        with frozen_statistics(self.model):
            with torch.set_grad_enabled(self.cfg.symmetric):
                p_first = self.model(u_first).softmax(-1)
            p_second = self.model(u_second).softmax(-1)

        weight = self.cfg.weight * clock.ramp(self.cfg.ramp)
        yield Objective(
            supervised=self.supervised(logits_x, y),
            consistency=weight * (p_second - p_first).square().mean(),
        )
