"""AdaMatch (Berthelot et al., 2022), https://arxiv.org/abs/2106.04732.

FixMatch with two adaptations: weak predictions are aligned so that their mean becomes that of the labeled
images, and the threshold is relative to the confidence on labeled images.

Symbols: tau `threshold`, c_tau `relative`, mu(t) `ramp`, the weak predictions Y_SL `p_x` and Y_TU `p_u` with
running means `prior_x` and `prior_u`, Y~_TU `q`, the random lambda `share`.

Where public code differs: USB, whose numbers are usually quoted, leaves out the random interpolation of
logits, the strong labeled view, the ramp of the unlabeled weight, and takes an average that starts at the
first batch for the mean of the last 128 batches that starts at 1/K; `full` brings all four back. The authors
take tau 0.9 and mu 3, USB 0.95 and 7. In USB the relative threshold is one per process; here it is global.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from interlude import distributed
from interlude.method import Batch, Clock, Method, Objective, Task, register
from interlude.models import Classifier
from interlude.options import option
from interlude.parts.average import Average
from interlude.parts.bank import Recent
from interlude.parts.losses import cross_entropy, masked_mean, probabilities
from interlude.parts.norm import frozen_statistics
from interlude.parts.targets import align


@register
class AdaMatch(Method):
    """FixMatch with aligned pseudo-labels and a threshold relative to the labeled confidence."""

    @dataclass(frozen=True)
    class Config(Method.Config):
        threshold: float = option(
            0.95, "share tau of the labeled confidence that a row must reach (authors: 0.9)", at_least=0
        )
        weight: float = option(1.0, "weight of the unlabeled term", at_least=0)
        decay: float = option(0.999, "EMA factor of the mean predictions", at_least=0, at_most=1)
        full: bool = option(
            False,
            "as the authors' code: interpolated labeled logits, a strong labeled view, a ramp of the weight "
            "until mid-training, and the last 128 batches for the mean unlabeled prediction",
        )

    cfg: Config

    def __init__(self, cfg: Config, model: Classifier, task: Task) -> None:
        super().__init__(cfg, model, task)
        uniform = torch.full((task.num_classes,), 1 / task.num_classes)
        self.prior_x = Average(uniform, cfg.decay)
        self.prior_u = (
            uniform_window(uniform, 128) if cfg.full else Average(uniform, cfg.decay, from_first=True)
        )
        self.labeled = ("weak", "strong") if cfg.full else ("weak",)

    def step(self, batch: Batch, clock: Clock) -> Iterator[Objective]:
        *logits_x, logits_weak, logits_strong = self.model.together(*batch.x, *batch.u, targets=batch.u[:1])
        if self.cfg.full:
            logits_x = self.interpolate(logits_x, batch.x)

        p_x, p_u = probabilities(logits_x[0]), probabilities(logits_weak)
        q = align(p_u, self.prior_u.update(p_u.mean(0)), self.prior_x.update(p_x.mean(0)))
        relative = self.cfg.threshold * distributed.mean(p_x.max(-1).values.mean())
        confidence, label = q.max(-1)
        mask = confidence >= relative

        supervised = torch.stack([self.supervised(logits, batch.y) for logits in logits_x])
        weight = self.cfg.weight * (self.ramp(clock) if self.cfg.full else 1.0)
        yield Objective(
            supervised=supervised.mean(),
            unlabeled=weight * masked_mean(cross_entropy(logits_strong, label), mask),
        ).log(mask=mask, threshold=relative)

    def interpolate(self, joint: list[Tensor], x: tuple[Tensor, ...]) -> list[Tensor]:
        """Labeled logits moved at random, entry by entry, towards those of a pass without unlabeled rows.

        The two passes differ in the statistics of BatchNorm; only the joint one is recorded.
        """
        with frozen_statistics(self.model):
            alone = self.model.together(*x)
        share = [distributed.own(torch.rand_like(distributed.like_all(logits))) for logits in joint]
        return [torch.lerp(*three) for three in zip(joint, alone, share, strict=True)]

    def ramp(self, clock: Clock) -> float:
        """From 0 along half a cosine to 1 in the middle of training."""
        return 0.5 - 0.5 * math.cos(math.pi * clock.ramp(0.5))


def uniform_window(uniform: Tensor, size: int) -> Recent:
    """The mean of the last `size` batches, as if all of them had been uniform so far."""
    recent = Recent(size, len(uniform))
    recent.means.copy_(uniform.expand_as(recent.means))
    recent.count.fill_(size)
    return recent
