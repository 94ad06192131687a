"""FlexMatch (Zhang et al., 2021), https://arxiv.org/abs/2110.08263.

FixMatch whose threshold is lower for classes that are learned more slowly: the fewer unlabeled images were
ever confidently given a class, the less confidence it takes to train on it.

Symbols: tau `threshold`, lambda `weight`, sigma(c) the number of images with `chosen` == c, beta(c) `beta`,
M `mapping`, T(c) = M(beta(c)) tau `thresholds`, N - sum sigma(c) the number of images with `chosen` == -1.

Where public code differs: USB counts `chosen` in a Python loop over all images every step, and keeps a
separate `chosen` in every process, so that thresholds differ between them; TorchSSL does not save it, so that
a resumed run starts again at threshold 0. Both leave beta as it was when all images have one class. Here
`chosen` is a buffer, and beta follows from it and is never stored. The authors' code has only the convex map;
the others in its comments do not start at 0 as the paper's do.
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


@register
class FlexMatch(Method):
    """FixMatch with a threshold per class that rises as the class is learned."""

    @dataclass(frozen=True)
    class Config(Method.Config):
        threshold: float = option(
            0.95, "confidence threshold tau of a class that is learned", at_least=0, at_most=1
        )
        weight: float = option(1.0, "weight of the unlabeled term, lambda", at_least=0)
        mapping: Literal["convex", "linear", "concave"] = option(
            "convex", "from beta to a share of tau: b / (2 - b), b, or ln(1 + b) / ln 2"
        )
        warmup: bool = option(
            True, "measure classes against the images without a class as long as those are the most"
        )

    cfg: Config
    chosen: Tensor

    def __init__(self, cfg: Config, model: Classifier, task: Task) -> None:
        super().__init__(cfg, model, task)
        # of each unlabeled image, the last label it was given with confidence tau; -1 is none yet
        self.register_buffer("chosen", torch.full((task.num_unlabeled,), -1))

    def step(self, batch: Batch, clock: Clock) -> Iterator[Objective]:
        (x,), y, (u_weak, u_strong) = batch.x, batch.y, batch.u
        logits_x, logits_weak, logits_strong = self.model.together(x, u_weak, u_strong, targets=[u_weak])

        confidence, label = probabilities(logits_weak).max(-1)
        thresholds = self.thresholds()  # of the steps before this one
        mask = confidence >= thresholds[label]

        self.choose(batch.rows_u, label, confidence >= self.cfg.threshold)

        yield Objective(
            supervised=self.supervised(logits_x, y),
            unlabeled=self.cfg.weight * masked_mean(cross_entropy(logits_strong, label), mask),
        ).log(mask=mask, threshold=thresholds)

    def choose(self, rows: Tensor, label: Tensor, sure: Tensor) -> None:
        """Remember the labels of the images `rows` of the batch that are sure."""
        rows, label, sure = (distributed.gather(values) for values in (rows, label, sure))
        self.chosen[rows[sure]] = label[sure]

    def thresholds(self) -> Tensor:
        """The threshold of each class (K,); all are 0 until the first image is chosen."""
        beta = self.beta()
        if self.cfg.mapping == "convex":
            beta = beta / (2 - beta)
        elif self.cfg.mapping == "concave":
            beta = (beta + 1).log() / math.log(2)
        return self.cfg.threshold * beta

    def beta(self) -> Tensor:
        """How far each class is learned, between 0 and 1 (K,)."""
        counts = torch.bincount(self.chosen + 1, minlength=self.task.num_classes + 1)
        largest = counts.max() if self.cfg.warmup else counts[1:].max()
        return counts[1:] / largest.clamp_min(1)
