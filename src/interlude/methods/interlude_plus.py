"""InterLUDE+ (Huang et al., 2024), https://arxiv.org/abs/2403.10658.

InterLUDE with FreeMatch's self-adaptive threshold and fairness term.

Symbols: as InterLUDE's; the EMA factor lambda is `decay`, lambda_SAF `fairness_weight`.

Where public code differs: as InterLUDE's; besides, the authors' fairness gives NaN when no row is kept, and
their Heart2Heart version interleaves 7 unlabeled rows a group while mu is 5, so that groups and neighbours
fall apart.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from torch.linalg import vector_norm

from interlude.method import Batch, Clock, Objective, Task, register
from interlude.methods.interlude import Interaction, InterLUDE
from interlude.models import Classifier
from interlude.options import option
from interlude.parts.adaptive import AdaptiveThreshold
from interlude.parts.losses import cross_entropy, masked_mean


@register
class InterLUDEPlus(InterLUDE):
    """InterLUDE whose threshold follows the model's confidence class by class."""

    @dataclass(frozen=True)
    class Config(Interaction):
        fairness_weight: float = option(0.05, "weight of the fairness term, lambda_SAF")
        decay: float = option(0.999, "EMA factor of the running thresholds", at_least=0, at_most=1)

    cfg: Config  # type: ignore[assignment]

    def __init__(self, cfg: Config, model: Classifier, task: Task) -> None:
        super().__init__(cfg, model, task)
        self.threshold = AdaptiveThreshold(task.num_classes, cfg.decay)

    def step(self, batch: Batch, clock: Clock) -> Iterator[Objective]:
        logits, p = self.predict(batch)

        q = self.guess(p.u_weak)
        self.threshold.update(q)
        label, mask = self.threshold.select(q)
        losses = cross_entropy(logits.u_strong, self.target(q, label))

        delta_x, delta_u = p.x_weak - p.x_strong, p.u_weak - p.u_strong
        yield Objective(
            supervised=self.supervised(logits.x_weak, batch.y),
            unlabeled=self.cfg.unlabeled_weight * masked_mean(losses, mask),
            delta=self.cfg.delta_weight * self.delta(delta_x, delta_u, match=self.match(label, batch.y)),
            fairness=self.cfg.fairness_weight * self.threshold.fairness(logits.u_strong, mask),
        ).log(
            mask=mask,
            tau=self.threshold.tau.value,
            delta_x=vector_norm(delta_x, dim=-1),
            delta_u=vector_norm(delta_u, dim=-1),
        )
