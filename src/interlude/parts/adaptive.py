"""FreeMatch's self-adaptive threshold and fairness term (Wang et al., 2023)."""

import torch
from torch import Tensor, nn

from interlude import distributed
from interlude.parts.average import Average
from interlude.parts.losses import softmax
from interlude.parts.targets import normalize, one_hot


class AdaptiveThreshold(nn.Module):
    """Running confidence tau, prior p and histogram h of weak predictions, all starting at 1/K."""

    def __init__(self, num_classes: int, decay: float) -> None:
        super().__init__()
        uniform = torch.full((num_classes,), 1 / num_classes)
        self.tau = Average(uniform[0], decay)
        self.prior = Average(uniform, decay)
        self.histogram = Average(uniform, decay)

    def update(self, q: Tensor) -> None:
        """Take in the weak predictions `q` (N, K) of the batch."""
        self.tau.update(q.max(-1).values.mean())
        self.prior.update(q.mean(0))
        self.histogram.update(one_hot(q.argmax(-1), q).mean(0))

    def per_class(self) -> Tensor:
        """The threshold of each class, tau at the most frequent one."""
        return self.tau.value * self.prior.value / self.prior.value.max()

    def select(self, q: Tensor) -> tuple[Tensor, Tensor]:
        """Pseudo-label and 0/1 mask of each row of `q`."""
        confidence, label = q.max(-1)
        return label, (confidence >= self.per_class()[label]).to(q.dtype)

    def fairness(self, logits_strong: Tensor, mask: Tensor, floor: float = 1e-12) -> Tensor:
        """`sum_c a_c log b_c`, a = norm(prior / histogram), b the same ratio of the kept strong predictions.

        The published sign: adding it drives b away from a. Gradient flows through the strong predictions
        only; classes absent from the kept rows have ratio 0, and with no row kept the term is 0.
        """
        p = softmax(logits_strong)
        mean_p = distributed.mean_with_gradient((p * mask[:, None]).mean(0))
        histogram = distributed.mean((one_hot(p.argmax(-1), p) * mask[:, None]).mean(0))
        a = normalize(self.prior.value / self.histogram.value)
        b = normalize(torch.where(histogram > 0, mean_p / histogram.clamp_min(1e-12), 0.0))
        return (a * (b + floor).log()).sum() * (distributed.total(mask.sum()) > 0)
