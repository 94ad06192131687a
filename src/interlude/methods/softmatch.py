"""SoftMatch (Chen et al., 2023), https://arxiv.org/abs/2301.10921.

No threshold: every unlabeled row counts, with a weight that falls off as a Gaussian for confidences below the
running mean confidence. Confidence is judged after predictions are aligned to a uniform mean, so that rarely
predicted classes are not left out; the label is that of the prediction itself.

Symbols: mu_t `mean`, sigma_t^2 `variance`, lambda(p) `weight` with lambda_max 1, UA(p) `q`, E[p] `prior`,
m `decay`.

Where public code differs: the paper estimates mean and variance from the raw confidences and compares the
aligned ones with them (`paper`), as TorchSSL does, which however aligns to the mean labeled prediction; USB
estimates both from aligned ones, the default here. USB's code crashes with more than one process and with its
`per_class` option, and a single unlabeled row makes its variance NaN for good.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from interlude import distributed
from interlude.method import Batch, Clock, Method, Objective, Task, register
from interlude.models import Classifier
from interlude.options import option
from interlude.parts.average import Average
from interlude.parts.losses import cross_entropy, masked_mean, probabilities
from interlude.parts.targets import align


@register
class SoftMatch(Method):
    """All unlabeled rows count, those below the mean confidence less."""

    @dataclass(frozen=True)
    class Config(Method.Config):
        weight: float = option(1.0, "weight of the unlabeled term", at_least=0)
        decay: float = option(
            0.999, "EMA factor of mean, variance and mean prediction", at_least=0, at_most=1
        )
        sigmas: float = option(
            2.0, "narrows the Gaussian: its variance is the running one over the square of this", above=0
        )
        paper: bool = option(False, "mean and variance of the raw confidences instead of the aligned ones")

    cfg: Config

    def __init__(self, cfg: Config, model: Classifier, task: Task) -> None:
        super().__init__(cfg, model, task)
        uniform = torch.full((task.num_classes,), 1 / task.num_classes)
        self.mean = Average(uniform[0], cfg.decay)
        self.variance = Average(torch.tensor(1.0), cfg.decay)
        self.prior = Average(uniform, cfg.decay, from_first=True)

    def step(self, batch: Batch, clock: Clock) -> Iterator[Objective]:
        (x,), y, (u_weak, u_strong) = batch.x, batch.y, batch.u
        logits_x, logits_weak, logits_strong = self.model.together(x, u_weak, u_strong, targets=[u_weak])

        p = probabilities(logits_weak)
        q = align(p, self.prior.update(p.mean(0)), 1 / self.task.num_classes)
        self.estimate(p.max(-1).values if self.cfg.paper else q.max(-1).values)
        weight = self.gaussian(q.max(-1).values)
        label = p.argmax(-1)  # of the raw prediction, only the weight is of the aligned one

        yield Objective(
            supervised=self.supervised(logits_x, y),
            unlabeled=self.cfg.weight * masked_mean(cross_entropy(logits_strong, label), weight),
        ).log(weight=weight, mean=self.mean.value, variance=self.variance.value)

    def estimate(self, confidence: Tensor) -> None:
        """Move the running mean and variance towards those of the global batch."""
        rows = distributed.count(len(confidence))
        mean = distributed.mean(confidence.mean())
        variance = distributed.mean((confidence - mean).square().mean()) * rows / max(rows - 1, 1)
        self.mean.update(mean)
        self.variance.update(variance)

    def gaussian(self, confidence: Tensor) -> Tensor:
        """1 from the mean on, below it exp(-(c - mean)^2 / (2 variance / sigmas^2))."""
        below = (confidence - self.mean.value).clamp_max(0)
        variance = (self.variance.value / self.cfg.sigmas**2).clamp_min(1e-12)
        return torch.exp(-below.square() / (2 * variance))
