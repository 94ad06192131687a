"""Dash (Xu et al., 2021), https://arxiv.org/abs/2109.00650.

After a warm-up on labeled images, an unlabeled image is used if the loss of its own pseudo-label is
below a threshold, which starts at the labeled loss and shrinks as training goes on. At its floor of 0.05
Dash is FixMatch with the confidence threshold exp(-0.05) = 0.951.

Symbols: rho_0 `rho_0`, rho_t `rho`, C `scale`, gamma `gamma`, rho_min `floor`, T `temperature`. The run
starts with the fraction `warmup` of labeled steps; after it rho falls by gamma once every fraction
`period`.

Where public code differs: USB takes rho_0 from the loss on the test set, and of averaged weights that
its warm-up never moved, so it is the loss of an untrained network; its warm-up is a second loop which
also advances the learning rate. Here it is a phase of the one loop, and rho_0 the mean labeled loss of
its last steps. The official code keeps every unlabeled row during the warm-up and takes rho_0 from their
loss, divides the unlabeled loss by the number kept and multiplies it by 0.9; we divide by all rows. Rows
are selected by the loss of the hard label as in the official code; USB goes by that of the soft target
until the floor (`selection="soft"`). In both, and here, targets are soft and sharpened until rho is at
its floor, and hard from then on.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from interlude import distributed
from interlude.method import Batch, Clock, Method, Objective, Task, register
from interlude.models import Classifier
from interlude.options import option
from interlude.parts.losses import cross_entropy, masked_mean, probabilities
from interlude.parts.targets import one_hot


@register
class Dash(Method):
    """FixMatch whose threshold is on the loss, and shrinks from the labeled loss after a warm-up."""

    rho_0: Tensor

    @dataclass(frozen=True)
    class Config(Method.Config):
        weight: float = option(1.0, "weight of the unlabeled term, lambda_u", at_least=0)
        gamma: float = option(1.27, "factor by which the threshold falls each period", above=1)
        scale: float = option(1.0001, "factor C of the threshold", above=0)
        floor: float = option(0.05, "smallest threshold on the loss, rho_min", above=0)
        temperature: float = option(0.5, "sharpening temperature of targets above the floor", above=0)
        selection: Literal["hard", "soft"] = option(
            "hard", "rows are selected by the loss of the hard label (official), or of the target (USB)"
        )
        warmup: float = option(
            2048 / 2**20, "fraction of the run on labeled images alone (USB: 2048 of 2^20)", above=0, below=1
        )
        measured: float = option(
            0.05, "last fraction of the warm-up over which rho_0 is averaged", above=0, at_most=1
        )
        period: float = option(
            10 / 1024, "fraction of the run between two falls of the threshold (official: 9/1024)", above=0
        )

    cfg: Config

    def __init__(self, cfg: Config, model: Classifier, task: Task) -> None:
        super().__init__(cfg, model, task)
        self.register_buffer("rho_0", torch.zeros(()))

    def step(self, batch: Batch, clock: Clock) -> Iterator[Objective]:
        (x,), y, (u_weak, u_strong) = batch.x, batch.y, batch.u
        if clock.step < self.warmup_steps(clock):
            supervised = self.supervised(self.model(x), y)
            self.measure(supervised, clock)
            yield Objective(supervised=supervised)
            return
        logits_x, logits_weak, logits_strong = self.model.together(x, u_weak, u_strong, targets=[u_weak])

        rho = self.threshold(clock)
        hard = one_hot(logits_weak.argmax(-1), logits_weak)
        soft = probabilities(logits_weak / self.cfg.temperature)
        target = torch.where(rho > self.cfg.floor, soft, hard)
        selector = target if self.cfg.selection == "soft" else hard
        mask = cross_entropy(logits_weak, selector) <= rho

        yield Objective(
            supervised=self.supervised(logits_x, y),
            unlabeled=self.cfg.weight * masked_mean(cross_entropy(logits_strong, target), mask),
        ).log(mask=mask, rho=rho)

    def warmup_steps(self, clock: Clock) -> int:
        """How many steps the warm-up takes, at least one."""
        return math.ceil(self.cfg.warmup * clock.total)

    def measure(self, loss: Tensor, clock: Clock) -> None:
        """Take the labeled loss of a step into the mean over the last part of the warm-up."""
        steps = self.warmup_steps(clock)
        count = clock.step - (steps - math.ceil(self.cfg.measured * steps)) + 1
        if count > 0:
            self.rho_0 += (distributed.mean(loss) - self.rho_0) / count

    def threshold(self, clock: Clock) -> Tensor:
        """rho_t: how large the loss of a pseudo-label may be."""
        falls = int((clock.step - self.warmup_steps(clock)) / (self.cfg.period * clock.total))
        return (self.cfg.scale * self.cfg.gamma**-falls * self.rho_0).clamp_min(self.cfg.floor)
