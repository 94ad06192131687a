"""Pseudo-Label (Lee, 2013), http://deeplearning.net/wp-content/uploads/2013/03/pseudo_label_final.pdf.

The network's own confident prediction on an unlabeled image is that image's label; label and prediction come
from one pass over one weak view, so the term is the mean of -log c over the kept rows: predictions grow more
certain. This is the version with a threshold of Oliver et al. (2018), https://arxiv.org/abs/1804.09170.

Symbols: alpha(t) is `weight` times the ramp, tau `threshold`, 1[c >= tau] `mask`.

Where public code differs: Lee has no threshold and lets alpha(t) rise to 3 after a time of waiting
(`threshold=0 weight=3`); Oliver et al. ramp over 200,000 steps. The MixMatch and FixMatch repositories
multiply losses (B,) by a mask (B, 1): the product is (B, B), and the term the mean of the mask times the mean
of the losses, unconfident rows included; numbers published from them carry this. Here a row counts by its
own mask. USB's docstring cites Arazo et al. (2020), which is another method (mixup and soft labels).
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from interlude.method import Batch, Clock, Method, Objective, register
from interlude.options import option
from interlude.parts.losses import cross_entropy, masked_mean, probabilities
from interlude.parts.norm import frozen_statistics


@register
class PseudoLabel(Method):
    """A confident prediction is the label of the very view it was made on."""

    unlabeled = ("weak",)
    mu: ClassVar[int] = 1

    @dataclass(frozen=True)
    class Config(Method.Config):
        threshold: float = option(
            0.95, "confidence threshold tau; 0 keeps every row (Lee)", at_least=0, at_most=1
        )
        weight: float = option(1.0, "weight of the unlabeled term after the ramp (Lee: 3)", at_least=0)
        ramp: float = option(
            0.4, "fraction of the run in which the weight rises from 0 to full", at_least=0, at_most=1
        )

    cfg: Config

    def step(self, batch: Batch, clock: Clock) -> Iterator[Objective]:
        (x,), y, (u,) = batch.x, batch.y, batch.u
        logits_x = self.model(x)
        with frozen_statistics(self.model):
            logits_u = self.model(u)

        confidence, label = probabilities(logits_u).max(-1)
        mask = confidence >= self.cfg.threshold

        weight = self.cfg.weight * clock.ramp(self.cfg.ramp)
        yield Objective(
            supervised=self.supervised(logits_x, y),
            unlabeled=weight * masked_mean(cross_entropy(logits_u, label), mask),
        ).log(mask=mask)
