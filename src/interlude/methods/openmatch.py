"""OpenMatch (Saito, Kim and Saenko, 2021), https://arxiv.org/abs/2105.14148.

The unlabeled pool may hold images of no known class. A one-vs-all head learns for each class what is not of
it; FixMatch then uses only images that this head takes for inliers of the class they are predicted to be.

Symbols: o_c [:, 1] of the softmax of `open_logits` (inlier of class c), L_ova `one_vs_all`, L_em `entropy`
with lambda_em `entropy_weight`, L_oc `consistency` with lambda_oc `consistency_weight`, L_fm `unlabeled` with
lambda_fm `weight`, E_fix `start`, pseudo-inliers I `inlier`.

Where public code differs: the released code draws FixMatch's batches from the inliers alone, and stops with
an error when they fill no batch. Here all terms share one batch, the rows of outliers are masked, the mean
is over the inliers of the batch, and without any the term is 0. Its selection leaves the averaged model in
training mode; ours leaves it as it was. It adds 1e-8 inside logarithms, which takes the gradient from an
output that is certain and wrong; ours are computed from logits. It starts the one-vs-all head at random
weights, which reject whole classes at first; ours starts undecided. It selects every 1024 steps (2.6 passes
over CIFAR-10) from step 10240 of 2^19; here that is in passes and a fraction of the run, so that short runs
go through all phases. Its default threshold is 0.0: every inlier counts, however unsure its class.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from interlude import distributed
from interlude.method import Batch, Clock, Method, Objective, Task, register
from interlude.models import Classifier, OpenSetClassifier, evaluating
from interlude.options import option
from interlude.parts.losses import cross_entropy, masked_mean, probabilities
from interlude.parts.targets import one_hot


@register
class OpenMatch(Method):
    """FixMatch on the unlabeled images that a one-vs-all head accepts as inliers."""

    labeled = ("weak", "flip")
    unlabeled = ("weak", "weak", "strong")
    mu: ClassVar[int] = 2

    @dataclass(frozen=True)
    class Config(Method.Config):
        entropy_weight: float = option(0.1, "weight of the open-set entropy, lambda_em", at_least=0)
        consistency_weight: float = option(
            0.5, "weight of the soft open-set consistency, lambda_oc (CIFAR-100: 1.0)", at_least=0
        )
        weight: float = option(1.0, "weight of FixMatch's term on inliers, lambda_fm", at_least=0)
        threshold: float = option(0.0, "confidence threshold tau of FixMatch's term", at_least=0, at_most=1)
        start: float = option(
            10 / 512, "fraction of the run before inliers are selected (released: 10 of 512)", at_least=0
        )
        period: float = option(
            2.5, "passes over the unlabeled pool from one selection of inliers to the next", above=0
        )

    cfg: Config
    model: OpenSetClassifier
    inlier: Tensor

    def __init__(self, cfg: Config, model: Classifier, task: Task) -> None:
        super().__init__(cfg, OpenSetClassifier.around(model), task)
        self.register_buffer("inlier", torch.zeros(task.num_unlabeled, dtype=torch.bool))

    def step(self, batch: Batch, clock: Clock) -> Iterator[Objective]:
        if self.selection_is_due(clock, rows=distributed.count(len(batch.rows_u))):
            self.select_inliers()

        views = (*batch.x, *batch.u)
        z = torch.cat(self.model.features_together(*views))
        sizes = [len(view) for view in views]
        logits = self.model.classify(z).split(sizes)
        open_logits = self.model.open_logits(z).split(sizes)
        y = torch.cat([batch.y, batch.y])  # of the weak and of the flipped view

        confidence, label = probabilities(logits[2]).max(-1)
        inlier = self.inlier[batch.rows_u].to(confidence.dtype)
        mask = inlier * (confidence >= self.cfg.threshold)
        # the mean over inliers, as if the batch held nothing else
        share = distributed.mean(inlier.mean()).clamp_min(1e-6)

        yield Objective(
            supervised=self.supervised(torch.cat(logits[:2]), y),
            one_vs_all=one_vs_all(torch.cat(open_logits[:2]), y).mean(),
            entropy=self.cfg.entropy_weight * entropy(torch.cat(open_logits[2:4])).mean(),
            consistency=self.cfg.consistency_weight * consistency(*open_logits[2:4]).mean(),
            unlabeled=self.cfg.weight * masked_mean(cross_entropy(logits[4], label), mask) / share,
        ).log(mask=mask, inlier=inlier)

    def selection_is_due(self, clock: Clock, rows: int) -> bool:
        """Whether inliers are selected at this step, at which all processes together see `rows` images."""
        first = math.ceil(self.cfg.start * clock.total - 1e-6)
        period = max(1, round(self.cfg.period * self.task.num_unlabeled / rows))
        return clock.step >= first and (clock.step - first) % period == 0

    def select_inliers(self) -> None:
        """An image is an inlier unless the averaged model thinks it is not even of its predicted class."""
        network = self.model if self.task.ema is None else self.task.ema
        with evaluating(network):
            sweep = self.task.sweep(self.task.unlabeled, "flip")
            score = torch.cat([network.open_set_score(images) for images in sweep])
        self.inlier.copy_(score <= 0.5)


def one_vs_all(open_logits: Tensor, y: Tensor) -> Tensor:
    """-log o_y of each row, and -log(1 - o_j) of its hardest wrong class j; `y` hard or soft."""
    outlier, inlier = open_logits.log_softmax(1).neg().unbind(1)
    target = one_hot(y, inlier) if y.ndim == 1 else y
    return (target * inlier).sum(-1) + ((1 - target) * outlier).max(-1).values


def entropy(open_logits: Tensor) -> Tensor:
    """The binary entropy of each row and class."""
    return -(open_logits.softmax(1) * open_logits.log_softmax(1)).sum(1)


def consistency(first: Tensor, second: Tensor) -> Tensor:
    """The squared change of each row's one-vs-all probabilities between two views, summed."""
    return (first.softmax(1) - second.softmax(1)).square().sum((1, 2))
