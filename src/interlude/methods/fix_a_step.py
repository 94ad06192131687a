"""Fix-A-Step (Huang et al., 2023), https://arxiv.org/abs/2208.11870.

A wrapper round any method with a labeled loss, made for unlabeled images of doubtful origin. Each labeled
image is blended with a labeled or unlabeled one, and so is its label (labeled augmentation); and the other
losses count only in steps where their gradient does not point against that of the labeled one (the gate).

Symbols: the wrapped method `base`, with its own default options; T `temperature`, alpha `alpha`, lambda
`share`; g_L, g_U `labeled`, `others`, d = <g_L, g_U> over all parameters, 1[d >= 0] `agree`. Views:
the base's, and two weak ones of the unlabeled images, of which as many as there are labeled ones are used.

Where public code differs: with class weights the release divides the blended labeled loss by the number of
rows, the unblended one by the sum of weights, so that its labeled loss is 4-5 times smaller on TMED-2; here
both are divided by the sum of weights. It reuses the base's weak view for the blend. It copies each algorithm
three times; `augment` and `gate` switch the two halves. The paper gives MixMatch the gate alone.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from interlude import distributed
from interlude.errors import UserError
from interlude.method import Batch, Clock, Method, Objective, Task, find_method, register
from interlude.models import Classifier
from interlude.options import option
from interlude.parts.gradients import gradient
from interlude.parts.losses import probabilities
from interlude.parts.mixup import blend, mixup_share
from interlude.parts.norm import frozen_statistics
from interlude.parts.targets import one_hot, sharpen

GUESSED = ("weak", "weak")  # the views from which unlabeled images are labeled and blended


@register
class FixAStep(Method):
    """Another method on blended labeled images, its other losses gated by agreement with the labeled one."""

    @dataclass(frozen=True)
    class Config(Method.Config):
        base: str = option("fixmatch", "the method inside; it must have a `supervised` term")
        weight: float = option(1.0, "factor on the base's other terms", at_least=0)
        augment: bool = option(True, "blend labeled images and labels (labeled augmentation)")
        gate: bool = option(True, "drop the other terms where their gradient points against the labeled one")
        temperature: float = option(0.5, "sharpening of guessed labels, T", above=0)
        alpha: float = option(0.5, "both parameters of the Beta that shares are drawn from", above=0)

    cfg: Config

    def __init__(self, cfg: Config, model: Classifier, task: Task) -> None:
        base = find_method(cfg.base)
        if issubclass(base, FixAStep) or base.needs_all_labels:
            raise UserError(
                f"{self.name} cannot wrap {cfg.base!r}; choose a base that learns from a few labels by itself"
            )
        super().__init__(cfg, model, task)
        self.base = base(base.Config(name=base.name), model, task)
        self.model = self.base.model  # a base may have put its own round the one it was given
        self.shared_draws = self.base.shared_draws
        self.needs_pixels = self.base.needs_pixels
        guessed = GUESSED if cfg.augment else ()
        self.unlabeled = self.base.unlabeled + guessed
        # draws can be shared only where both kinds of images have the same views
        self.labeled = self.base.labeled + (guessed if self.shared_draws else ())

    def step(self, batch: Batch, clock: Clock) -> Iterator[Objective]:
        num_x, num_u = len(self.base.labeled), len(self.base.unlabeled)
        inner, guessed = batch._replace(x=batch.x[:num_x], u=batch.u[:num_u]), batch.u[num_u:]
        labeled_terms = 0
        for objective in self.base.step(self.augmented(inner, guessed) if guessed else inner, clock):
            labeled_terms += "supervised" in objective.terms
            yield self.gated(objective) if "supervised" in objective.terms else objective
        if not labeled_terms:
            raise UserError(
                f"{self.name} needs a base with a term named 'supervised'; {self.cfg.base!r} has none"
            )

    def augmented(self, batch: Batch, guessed: tuple[Tensor, ...]) -> Batch:
        """The batch with each labeled row blended with one of the pool of labeled and guessed rows."""
        num = distributed.count(len(batch.y))  # the first rows of the global batch, to each process its part
        u = [distributed.own(distributed.gather(view)[:num]) for view in guessed]
        with torch.no_grad(), frozen_statistics(self.model):
            p = torch.stack([probabilities(logits) for logits in self.model.together(*u)]).mean(0)
        y = one_hot(batch.y, p) if batch.y.ndim == 1 else batch.y
        targets = [y, *[sharpen(p, self.cfg.temperature) for _ in u]]
        share = mixup_share(self.cfg.alpha, like=p)
        order = torch.randperm(num * len(targets), device=p.device)

        def first(views: list[Tensor]) -> Tensor:
            return blend(views, order, share)[: len(y)]

        return batch._replace(x=tuple(first([x, *u]) for x in batch.x), y=first(targets))

    def gated(self, objective: Objective) -> Objective:
        """The objective with its other terms times 1 where they agree with the labeled one, else times 0."""
        terms = dict(objective.terms)
        supervised = terms.pop("supervised")
        if not terms:
            return objective
        agree = self.agree(supervised, torch.stack(list(terms.values())).sum())
        others = {name: self.cfg.weight * agree * term for name, term in terms.items()}
        return Objective(rate=objective.rate, supervised=supervised, **others).log(
            **objective.logged, agree=agree
        )

    def agree(self, supervised: Tensor, rest: Tensor) -> Tensor:
        """1 where the gradients of the two losses at all weights have an inner product of 0 or more."""
        if not self.cfg.gate:
            return torch.ones_like(supervised)
        labeled, others = gradient(supervised, self.base), gradient(rest, self.base)
        return (labeled @ others >= 0).to(supervised.dtype)

    def lr_scale(self, name: str) -> float:
        """The base's own factors."""
        return self.base.lr_scale(name.removeprefix("base."))
