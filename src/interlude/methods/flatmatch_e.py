"""FlatMatch-e (Huang et al., 2023), https://arxiv.org/abs/2310.16412: the efficient variant of FlatMatch.

The direction in which the labeled loss is worst comes from a running average of its gradient over earlier
steps, so the strong views need no second pass: the step costs what FixMatch's does. It descends
`grad L_l(theta) + grad [w_u SAT + w_f SAF](theta + e)`.

Symbols: rho `rho`, g = grad L_l(theta) `g`, M <- 0.999 M + 0.001 g `average` with factor
`gradient_decay`, e = rho M / ||M||_2 `offset` with the M of the step before, w_u `weight`, w_f
`fairness_weight`. While M is empty, at the first step, the unlabeled terms count nothing.

Where public code differs: the authors' release does not hold this variant; a third party's, which follows the
paper and which we follow, has rho 0.1 where the release of FlatMatch has 0.05. Passes: the labeled and
the weak rows at theta, the strong rows at theta + e with BatchNorm's running statistics left alone.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import torch

from interlude.method import Batch, Clock, Objective, Task, register
from interlude.methods.flatmatch import FlatMatch
from interlude.models import Classifier
from interlude.options import option
from interlude.parts.average import Average
from interlude.parts.gradients import direction, gradient, num_trainable, perturbed, with_gradient
from interlude.parts.losses import cross_entropy, masked_mean, probabilities
from interlude.parts.norm import frozen_statistics


@register
class FlatMatchE(FlatMatch):
    """FreeMatch at weights moved up the running average of the labeled gradient."""

    @dataclass(frozen=True)
    class Config(FlatMatch.Config):
        rho: float = option(0.1, "how far the weights are moved, in the 2-norm over all of them", at_least=0)
        gradient_decay: float = option(
            0.999, "EMA factor of the labeled gradient", at_least=0, below=1, why="at 1 it never begins"
        )

    cfg: Config

    def __init__(self, cfg: Config, model: Classifier, task: Task) -> None:
        super().__init__(cfg, model, task)
        self.average = Average(torch.zeros(num_trainable(model)), cfg.gradient_decay)

    def step(self, batch: Batch, clock: Clock) -> Iterator[Objective]:
        (x,), y, (u_weak, u_strong) = batch.x, batch.y, batch.u
        logits_x, logits_weak = self.model.together(x, u_weak, targets=[u_weak])

        q = probabilities(logits_weak)
        self.threshold.update(q)
        label, mask = self.threshold.select(q)

        supervised = self.supervised(logits_x, y)
        g = gradient(supervised, self.model, keep_graph=False)
        offset = self.cfg.rho * direction(self.average.value)
        begun = self.average.value.any().to(q.dtype)
        with frozen_statistics(self.model):
            (worst_strong,) = perturbed(self.model, offset)(u_strong)

        unlabeled = masked_mean(cross_entropy(worst_strong, label), mask)
        fairness = self.threshold.fairness(worst_strong, mask)
        yield Objective(
            supervised=with_gradient(supervised, g, self.model),
            unlabeled=begun * self.cfg.weight * unlabeled,
            fairness=begun * self.cfg.fairness_weight * fairness,
        ).log(mask=mask, tau=self.threshold.tau.value)
        self.average.update(g)
