"""MixMatch (Berthelot et al., 2019), https://arxiv.org/abs/1905.02249.

The mean prediction over a few views of an unlabeled image, sharpened, is its guessed label. Labeled and
unlabeled rows and their labels are then mixed up with one another, and each row is trained towards its
mixed label: the labeled ones by cross-entropy, the unlabeled ones by squared error.

Symbols: K `views`, T `temperature`, q `q`, alpha `alpha`, lambda' `share`, Shuffle(W) `order`, X', U'
the two parts of `rows`, lambda_u `weight`, reached after the fraction `ramp` of the run.

Where public code differs: USB draws one lambda for the whole batch (`share="batch"`) where the paper and
the original draw one for each row, has alpha 0.5, lambda_u 100 and a ramp over 0.4 of the run, and runs
one more pass over the labeled rows whose result is not used. In all codes mixed rows pass the network in
chunks as large as the labeled batch, and BatchNorm records the first. The original, and we, first swap
rows between chunks, so that it holds a part of each; USB does not (`interleave=False`), and records
mixtures that are mostly labeled. The squared error is the mean over rows and classes.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor

from interlude import distributed
from interlude.method import Batch, Clock, Method, Objective, Task, register
from interlude.models import Classifier
from interlude.options import option
from interlude.parts.losses import probabilities
from interlude.parts.mixup import blend, mixup_share
from interlude.parts.norm import frozen_statistics
from interlude.parts.targets import one_hot, sharpen


@dataclass(frozen=True)
class Mixing(Method.Config):
    """How labels are guessed and rows are mixed: the options that MixMatch and ReMixMatch share."""

    views: int = option(2, "views of each unlabeled image to train on, K", at_least=1)
    temperature: float = option(0.5, "sharpening temperature T of the guessed labels", above=0)
    alpha: float = option(0.75, "mixup shares are drawn from Beta(alpha, alpha)", above=0)
    share: Literal["image", "batch"] = option(
        "image", "one mixup share for each image (paper), or one for the whole batch (USB)"
    )
    interleave: bool = option(
        True, "let the chunk of rows that BatchNorm records hold a part of every chunk (original)"
    )
    ramp: float = option(
        1 / 64, "fraction of the run over which weights of unlabeled terms grow", at_least=0, at_most=1
    )


@register
class MixMatch(Method):
    """Guessed labels, and mixup of all labeled and unlabeled rows."""

    mu: ClassVar[int] = 1

    @dataclass(frozen=True)
    class Config(Mixing):
        weight: float = option(
            75.0, "weight of the unlabeled term, lambda_u (paper: CIFAR-100 150, STL-10 50)", at_least=0
        )

    cfg: Config

    def __init__(self, cfg: Mixing, model: Classifier, task: Task) -> None:
        super().__init__(cfg, model, task)
        self.unlabeled = ("weak",) * cfg.views

    def step(self, batch: Batch, clock: Clock) -> Iterator[Objective]:
        (x,), y, u = batch.x, batch.y, batch.u
        q = self.guess(u)
        rows, targets = self.mix([x, *u], [as_rows(y, q), *[q] * len(u)])

        logits = self.predict(rows, size=len(x))
        difference = logits[len(x) :].softmax(-1) - targets[len(x) :]

        yield Objective(
            supervised=self.supervised(logits[: len(x)], targets[: len(x)]),
            unlabeled=self.cfg.weight * clock.ramp(self.cfg.ramp) * difference.square().mean(),
        ).log(confidence=q.max(-1).values)

    def guess(self, views: Sequence[Tensor]) -> Tensor:
        """The label q of each unlabeled image: the mean prediction of its views, sharpened."""
        with torch.no_grad(), frozen_statistics(self.model):
            p = torch.stack([probabilities(logits) for logits in self.model.together(*views)])
        return sharpen(p.mean(0), self.cfg.temperature)

    def mix(self, rows: Sequence[Tensor], targets: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
        """All rows and their targets, each blended with a row drawn from the whole batch."""
        num = distributed.count(sum(map(len, rows)))
        share = mixup_share(self.cfg.alpha, rows=num if self.cfg.share == "image" else None, like=targets[0])
        order = torch.randperm(num, device=rows[0].device)
        return blend(rows, order, share), blend(targets, order, share)

    def predict(self, rows: Tensor, *, size: int) -> Tensor:
        """Logits from one pass for each chunk of `size` rows; BatchNorm records the first pass alone."""
        order = interleaved(len(rows), size) if self.cfg.interleave else torch.arange(len(rows))
        order = order.to(rows.device)
        first, *others = rows[order].split(size)
        logits = [self.model(first)]
        with frozen_statistics(self.model):
            logits += [self.model(chunk) for chunk in others]
        return torch.cat(logits)[order]  # the order is its own inverse


def as_rows(y: Tensor, like: Tensor) -> Tensor:
    """Labels, hard or soft, as one distribution a row."""
    return one_hot(y, like) if y.ndim == 1 else y


def interleaved(num_rows: int, size: int) -> Tensor:
    """An order in which the first chunk of `size` rows holds a part of every chunk; its own inverse.

    Part i of the first chunk changes places with part i of chunk i, as in the original code.
    """
    order = torch.arange(num_rows).view(-1, size)
    column, whole = torch.arange(size), distributed.count(size)
    # the chunk that this column of the first chunk is swapped with, as in the batch of all processes
    partner = distributed.own(torch.arange(whole)) * len(order) // whole
    order[0], order[partner, column] = order[partner, column], order[0].clone()
    return order.flatten()
