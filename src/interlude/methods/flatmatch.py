"""FlatMatch (Huang et al., 2023), https://arxiv.org/abs/2310.16412.

FreeMatch whose losses are taken where the labeled loss is worst nearby: the weights move by `rho` up the
gradient of the labeled loss, and what is unlabeled must be predicted well from there too (cross-sharpness).
The step descends `grad L_l(theta) + grad [L_l + w_u SAT + w_f SAF](theta + e)`.

Symbols: rho `rho`, g = grad L_l(theta) `g`, e = rho g / ||g||_2 `offset`, w_u `weight`, w_f
`fairness_weight`; pseudo-labels, mask and thresholds are FreeMatch's, from the weak view at theta.

Where public code differs: under mixed precision, its shipped setting, the authors' release adds the unscaled
g to gradients multiplied by the loss scale, which loses it; here nothing is scaled. It edits the weights in
place and subtracts e again, which rounds; here they never move. Its fairness term is NaN when no row is
confident. The "fix label" variant for very few labels (Alg. 2 of the paper) is in no release and not here.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from interlude.method import Batch, Clock, Objective, register
from interlude.methods.freematch import FreeMatch
from interlude.options import option
from interlude.parts.gradients import direction, gradient, perturbed, with_gradient
from interlude.parts.losses import cross_entropy, masked_mean, probabilities
from interlude.parts.norm import frozen_statistics


@register
class FlatMatch(FreeMatch):
    """FreeMatch at the weights nearby where the labeled loss is worst, and the labeled loss here."""

    @dataclass(frozen=True)
    class Config(FreeMatch.Config):
        rho: float = option(0.05, "how far the weights are moved, in the 2-norm over all of them", at_least=0)

    cfg: Config

    def step(self, batch: Batch, clock: Clock) -> Iterator[Objective]:
        (x,), y, (u_weak, u_strong) = batch.x, batch.y, batch.u
        # the strong views are there for BatchNorm alone
        logits_x, logits_weak, _ = self.model.together(x, u_weak, u_strong, targets=batch.u)

        q = probabilities(logits_weak)
        self.threshold.update(q)
        label, mask = self.threshold.select(q)

        supervised = self.supervised(logits_x, y)
        g = gradient(supervised, self.model, keep_graph=False)
        offset = self.cfg.rho * direction(g)
        with frozen_statistics(self.model):
            worst_x, _, worst_strong = perturbed(self.model, offset)(x, u_weak, u_strong)

        yield Objective(
            supervised=with_gradient(supervised, g, self.model),
            worst_supervised=self.supervised(worst_x, y),
            unlabeled=self.cfg.weight * masked_mean(cross_entropy(worst_strong, label), mask),
            fairness=self.cfg.fairness_weight * self.threshold.fairness(worst_strong, mask),
        ).log(mask=mask, tau=self.threshold.tau.value)
