"""FreeMatch (Wang et al., 2023), https://arxiv.org/abs/2205.07246.

Symbols: tau, p~, h~ are `threshold.tau`, `.prior`, `.histogram` with EMA factor `decay`; w_u `weight`, w_f
`fairness_weight`. The state is updated with the current batch first, then used as threshold.

Where public code differs: USB weighs the fairness by 0.001 everywhere, the paper by 0.05 (0.01 at the
fewest labels). The sign of the fairness term is the published one, although descent on it moves the two
distributions apart; a negative `fairness_weight` turns it round. The value logged for it jumps when a class
is absent; training does not.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from interlude.method import Batch, Clock, Method, Objective, Task, register
from interlude.models import Classifier
from interlude.options import option
from interlude.parts.adaptive import AdaptiveThreshold
from interlude.parts.losses import cross_entropy, masked_mean, probabilities


@register
class FreeMatch(Method):
    """FixMatch with a threshold per class that follows the model's own confidence, and a fairness term."""

    @dataclass(frozen=True)
    class Config(Method.Config):
        weight: float = option(1.0, "weight of the unlabeled term, w_u", at_least=0)
        fairness_weight: float = option(0.05, "weight of the fairness term, w_f")
        decay: float = option(0.999, "EMA factor of the running thresholds", at_least=0, at_most=1)

    cfg: Config

    def __init__(self, cfg: Config, model: Classifier, task: Task) -> None:
        super().__init__(cfg, model, task)
        self.threshold = AdaptiveThreshold(task.num_classes, cfg.decay)

    def step(self, batch: Batch, clock: Clock) -> Iterator[Objective]:
        (x,), y, (u_weak, u_strong) = batch.x, batch.y, batch.u
        logits_x, logits_weak, logits_strong = self.model.together(x, u_weak, u_strong, targets=[u_weak])

        q = probabilities(logits_weak)
        self.threshold.update(q)
        label, mask = self.threshold.select(q)

        yield Objective(
            supervised=self.supervised(logits_x, y),
            unlabeled=self.cfg.weight * masked_mean(cross_entropy(logits_strong, label), mask),
            fairness=self.cfg.fairness_weight * self.threshold.fairness(logits_strong, mask),
        ).log(mask=mask, tau=self.threshold.tau.value)
