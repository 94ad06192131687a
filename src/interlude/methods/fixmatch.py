"""FixMatch (Sohn et al., 2020), https://arxiv.org/abs/2001.07685.

Symbols: tau `threshold`, lambda_u `weight`, q `probabilities` of the weak view, 1[max q >= tau] `mask`.

Where public code differs: USB augments with three operations where the paper has two, and its option for soft
targets ignores the temperature; the original interleaves the joint batch across devices for BatchNorm.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from interlude.method import Batch, Clock, Method, Objective, register
from interlude.options import option
from interlude.parts.losses import cross_entropy, masked_mean, probabilities


@register
class FixMatch(Method):
    """A confident prediction on a weak view is the label of the strong view."""

    @dataclass(frozen=True)
    class Config(Method.Config):
        threshold: float = option(0.95, "confidence threshold tau", at_least=0, at_most=1)
        weight: float = option(1.0, "weight of the unlabeled term, lambda_u", at_least=0)

    cfg: Config

    def step(self, batch: Batch, clock: Clock) -> Iterator[Objective]:
        (x,), y, (u_weak, u_strong) = batch.x, batch.y, batch.u
        logits_x, logits_weak, logits_strong = self.model.together(x, u_weak, u_strong, targets=[u_weak])

        confidence, label = probabilities(logits_weak).max(-1)
        mask = confidence >= self.cfg.threshold

        yield Objective(
            supervised=self.supervised(logits_x, y),
            unlabeled=self.cfg.weight * masked_mean(cross_entropy(logits_strong, label), mask),
        ).log(mask=mask)
