"""ReMixMatch (Berthelot et al., 2020), https://arxiv.org/abs/1911.09785.

MixMatch with two new ideas. Augmentation anchoring: the label guessed on one weak view is the target of
several strong ones. Distribution alignment: guesses are scaled by the class frequencies of the labeled
images over the running mean of the model's own predictions. One strong view is also trained unmixed, and
turned by a multiple of 90 degrees that a head of its own must tell.

Symbols: K `views`, T `temperature`, p(y) `frequency`, p~(y) `prior`, q `q`, r `turns`, lambda_U `weight`,
lambda_U^1 `strong_weight`, lambda_r `rotation_weight`; the rotation is not ramped.

Where public code differs: the original has 8 strong views of CTAugment, takes p~ over the last 128 batches,
of which it supposes 1/K before it has seen them, without the current one, and turns each quarter of the
batch by its own angle. USB, and we, have 2 views of RandAugment and an angle for each image. Our p~ is over
the last 128 batches so far, with the current one. USB's is an EMA of factor 0.999 from the first batch on
(`window=0`), which in a run of a few hundred steps remains the prediction of an untrained network. The
paper's algorithm also augments labeled images strongly (`labeled_view="strong"`). USB takes p(y) as float64
from numpy, by which targets and loss silently become float64, and runs two passes whose results are not
used. Mixup shares and interleaving differ as in MixMatch.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from interlude import distributed
from interlude.errors import UserError
from interlude.method import Batch, Clock, Objective, Task, register
from interlude.methods.mixmatch import Mixing, MixMatch, as_rows
from interlude.models import Classifier
from interlude.options import option
from interlude.parts.average import Average
from interlude.parts.bank import Recent
from interlude.parts.losses import cross_entropy, probabilities
from interlude.parts.norm import frozen_statistics
from interlude.parts.targets import align, sharpen


@register
class ReMixMatch(MixMatch):
    """MixMatch with aligned guesses, strong views anchored to a weak one, and a rotation task."""

    needs_pixels = "it turns images by right angles, unless method.rotation_weight is 0"
    frequency: Tensor

    @dataclass(frozen=True)
    class Config(Mixing):
        weight: float = option(1.5, "weight of the mixed unlabeled rows, lambda_U", at_least=0)
        strong_weight: float = option(0.5, "weight of the unmixed strong view, lambda_U^1", at_least=0)
        rotation_weight: float = option(0.5, "weight of the rotation task, lambda_r", at_least=0)
        window: int = option(
            128,
            "batches over which the model's mean prediction is taken (original); 0: an EMA (USB)",
            at_least=0,
        )
        decay: float = option(0.999, "factor of that EMA", at_least=0, at_most=1)
        labeled_view: Literal["weak", "strong"] = option(
            "weak", "view of the labeled images: weak (codes) or strong (paper's algorithm)"
        )

    cfg: Config  # type: ignore[assignment]

    def __init__(self, cfg: Config, model: Classifier, task: Task) -> None:
        super().__init__(cfg, model, task)
        self.needs_pixels = type(self).needs_pixels if cfg.rotation_weight else ""
        self.labeled = (cfg.labeled_view,)
        self.unlabeled = ("weak", *["strong"] * cfg.views)
        self.rotation = nn.Linear(model.num_features, 4)
        frequency = torch.bincount(task.labels, minlength=task.num_classes) / len(task.labels)
        self.register_buffer("frequency", frequency)
        self.prior = (
            Recent(cfg.window, task.num_classes)
            if cfg.window
            else Average(torch.zeros_like(frequency), cfg.decay, from_first=True)
        )

    def step(self, batch: Batch, clock: Clock) -> Iterator[Objective]:
        (x,), y, u = batch.x, batch.y, batch.u
        weak, strong = u[0], u[1]
        q = self.guess([weak])
        rows, targets = self.mix([x, *u], [as_rows(y, q), *[q] * len(u)])

        logits = self.predict(rows, size=len(x))
        with frozen_statistics(self.model):
            logits_strong = self.model(strong)

        ramp = clock.ramp(self.cfg.ramp)
        mixed = cross_entropy(logits[len(x) :], targets[len(x) :])
        yield Objective(
            rate=1.0,
            supervised=self.supervised(logits[: len(x)], targets[: len(x)]),
            unlabeled=self.cfg.weight * ramp * mixed.mean(),
            strong=self.cfg.strong_weight * ramp * cross_entropy(logits_strong, q).mean(),
            **self.rotation_task(strong),
        ).log(confidence=q.max(-1).values)

    def rotation_task(self, strong: Tensor) -> dict[str, Tensor]:
        """The term of telling by how many right angles each image was turned, unless its weight is 0."""
        if not self.cfg.rotation_weight:
            return {}
        turns = distributed.own(torch.randint(4, (distributed.count(len(strong)),), device=strong.device))
        with frozen_statistics(self.model):
            logits = self.rotation(self.model.features(turned(strong, turns)))
        return {"rotation": self.cfg.rotation_weight * cross_entropy(logits, turns).mean()}

    def guess(self, views: Sequence[Tensor]) -> Tensor:
        """The label q of each unlabeled image: its prediction, aligned with the labeled set and sharpened."""
        with torch.no_grad(), frozen_statistics(self.model):
            p = probabilities(self.model(views[0]))
        prior = self.prior.update(p.mean(0))
        return sharpen(align(p, prior, self.frequency), self.cfg.temperature)


def turned(images: Tensor, turns: Tensor) -> Tensor:
    """Each image turned by its number of right angles."""
    height, width = images.shape[-2:]
    if height != width:
        raise UserError(f"images are turned by 90 degrees and must be square, these are {height} x {width}")
    all_four = torch.stack([images.rot90(k, (-2, -1)) for k in range(4)])
    return all_four[turns, torch.arange(len(images), device=images.device)]
