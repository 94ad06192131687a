"""UDA (Xie et al., 2020), https://arxiv.org/abs/1904.12848.

The prediction on a weak view, sharpened but soft, is the target of the strong view where it is
confident. Training signal annealing (TSA) can hold back labeled images that are already predicted well,
and release them as training goes on.

Symbols: beta `threshold`, tau `temperature`, lambda `weight`, eta_t `released`, alpha_t its schedule
`tsa`.

Where public code differs: USB never applies the temperature, because its helper returns probabilities
untouched: its target is the plain prediction (`temperature=1`). Its TSA keeps labeled rows by their
largest probability and divides by all of them; the original, and we, go by the probability of the
correct class and divide by the number kept. The mask looks at the prediction before sharpening in every
code. The original trains on the KL divergence, which has the gradient of this cross-entropy and is
smaller by the entropy of the target. Its author used threshold and temperature only with few labels
(CIFAR-10 with 250: 0.8, 0.9), and entropy minimisation on large sets (`entropy_weight=0.1`).
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import torch.nn.functional as F
from torch import Tensor

from interlude import distributed
from interlude.method import Batch, Clock, Method, Objective, register
from interlude.options import option
from interlude.parts.losses import cross_entropy, masked_mean, probabilities
from interlude.parts.targets import one_hot

Schedule = Literal["none", "linear", "log", "exp"]


@register
class UDA(Method):
    """A confident, sharpened prediction on a weak view is the soft target of the strong view."""

    @dataclass(frozen=True)
    class Config(Method.Config):
        threshold: float = option(0.8, "confidence threshold", at_least=0, at_most=1)
        temperature: float = option(
            0.4, "sharpening temperature of the target; 1 leaves it as it is", above=0
        )
        weight: float = option(1.0, "weight of the unlabeled term, lambda", at_least=0)
        tsa: Schedule = option("none", "how labeled images are released: all at once, or along a schedule")
        entropy_weight: float = option(0.0, "weight of the entropy of weak predictions", at_least=0)

    cfg: Config

    def step(self, batch: Batch, clock: Clock) -> Iterator[Objective]:
        (x,), y, (u_weak, u_strong) = batch.x, batch.y, batch.u
        targets = [] if self.cfg.entropy_weight > 0 else [u_weak]  # the entropy term trains them
        logits_x, logits_weak, logits_strong = self.model.together(x, u_weak, u_strong, targets=targets)

        target = probabilities(logits_weak / self.cfg.temperature)
        mask = probabilities(logits_weak).max(-1).values > self.cfg.threshold

        terms = {
            "supervised": self.annealed(logits_x, y, clock),
            "unlabeled": self.cfg.weight * masked_mean(cross_entropy(logits_strong, target), mask),
        }
        if self.cfg.entropy_weight > 0:
            entropy = cross_entropy(logits_weak, logits_weak.softmax(-1))
            terms["entropy"] = self.cfg.entropy_weight * entropy.mean()
        yield Objective(rate=1.0, **terms).log(mask=mask)

    def annealed(self, logits: Tensor, y: Tensor, clock: Clock) -> Tensor:
        """The labeled loss of the rows whose correct class is not yet predicted above eta_t."""
        if self.cfg.tsa == "none":
            return self.supervised(logits, y)
        target = one_hot(y, logits) if y.ndim == 1 else y
        weights = self.task.class_weights
        weights = logits.new_ones(logits.shape[-1]) if weights is None else weights
        eta = released(self.cfg.tsa, clock.progress, num_classes=logits.shape[-1])
        kept = (probabilities(logits) * target).sum(-1) <= eta
        values = F.cross_entropy(logits, target, weight=weights, reduction="none")
        total = distributed.mean(masked_mean(target @ weights, kept))
        return masked_mean(values, kept) / total.clamp_min(1e-6)  # by the rows kept; 0 where none is


def released(schedule: Schedule, progress: float, *, num_classes: int) -> float:
    """eta_t: up to which probability of its correct class a labeled row is trained on, from 1/K to 1."""
    alpha = {
        "none": 1.0,
        "linear": progress,
        "log": 1 - math.exp(-5 * progress),
        "exp": math.exp(5 * (progress - 1)),
    }[schedule]
    return alpha * (1 - 1 / num_classes) + 1 / num_classes
