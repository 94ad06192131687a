"""SimMatch (Zheng et al., 2022), https://arxiv.org/abs/2203.06915.

The strong view should predict the class of the weak view, and resemble the same labeled images. A bank
holds the embedding and the label of every labeled image, so that each kind of target corrects the other.

Symbols: tau `threshold`, t `temperature`, alpha `own_share`, lambda_u `weight`, lambda_in
`instance_weight`, p^w `own` (aligned), p-hat `q`, q^w `near`, q-hat `goal`, Q_f and Q_l `bank.z` and
`bank.labels`.

Where public code differs: USB normalises a moved slot along the wrong axis, so that slots are no unit
vectors and depend on the rest of the batch; it starts its label bank at class 0 for all, lets the last of
several equal rows win, blends a first embedding with noise, averages three projectors (EPASS, another
method) in its configurations, and with a teacher takes only the labeled embeddings from it. Here slots have
length 1, labels are known from the start, equal rows are averaged, a slot without embedding has no say, and
a teacher (option `teacher`) gives everything on weak views, as the authors' does; its BatchNorm uses
running statistics (their EMAN).
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from interlude.method import Batch, Clock, Method, Objective, Task, register
from interlude.models import Classifier
from interlude.options import option
from interlude.parts.bank import Projector, Recent, Slots, Teacher, embed
from interlude.parts.losses import cross_entropy, masked_mean, probabilities
from interlude.parts.targets import align, normalize, one_hot


class Views(NamedTuple):
    """Logits and embeddings of the views of a batch."""

    logits_x: Tensor
    logits_weak: Tensor
    logits_strong: Tensor
    z_x: Tensor
    z_weak: Tensor
    z_strong: Tensor


@register
class SimMatch(Method):
    """FixMatch with targets for the class and for the similarity to every labeled image."""

    @dataclass(frozen=True)
    class Config(Method.Config):
        threshold: float = option(0.95, "confidence threshold tau", at_least=0, at_most=1)
        temperature: float = option(0.1, "of similarities of embeddings, t", above=0)
        own_share: float = option(
            0.9,
            "share of its own prediction in a target, the rest is its neighbours', alpha",
            at_least=0,
            at_most=1,
        )
        weight: float = option(1.0, "weight of the unlabeled term, lambda_u", at_least=0)
        instance_weight: float = option(1.0, "weight of the similarity term, lambda_in", at_least=0)
        width: int = option(128, "length of an embedding", at_least=1)
        window: int = option(
            32, "batches whose mean prediction is aligned (authors' ImageNet: 256)", at_least=1
        )
        warmup: float = option(
            1 / 1024,
            "fraction of the run before the bank is used (USB: 1024 of 2^20 steps)",
            at_least=0,
            at_most=1,
        )
        slot_decay: float = option(0.7, "EMA factor of a slot, without a teacher", at_least=0, below=1)
        teacher: bool = option(False, "an EMA network gives all targets and slots (large data sets)")
        decay: float = option(0.999, "EMA factor of the teacher", at_least=0, at_most=1)
        decay_warmup: bool = option(True, "let the teacher follow faster at first, for short runs")

    cfg: Config

    def __init__(self, cfg: Config, model: Classifier, task: Task) -> None:
        super().__init__(cfg, model, task)
        self.projector = Projector(model.num_features, cfg.width)
        self.bank = Slots(task.labels, cfg.width)
        self.prior = Recent(cfg.window, task.num_classes)
        self.teacher: Teacher | None = None
        if cfg.teacher:
            self.teacher = Teacher(model, self.projector, cfg.decay, warmup=cfg.decay_warmup)

    def step(self, batch: Batch, clock: Clock) -> Iterator[Objective]:
        views = self.predict(batch)
        bank_is_used = clock.progress > self.cfg.warmup

        p = probabilities(views.logits_weak)
        own = align(p, self.prior.update(p.mean(0)), 1 / self.task.num_classes)
        near = (self.bank.similarity(views.z_weak.detach()) / self.cfg.temperature).softmax(-1)
        goal = normalize(near * own[:, self.bank.labels])
        q = self.aggregate(own, near) if bank_is_used else own
        mask = q.max(-1).values >= self.cfg.threshold

        similarity = self.bank.similarity(views.z_strong) / self.cfg.temperature
        yield Objective(
            supervised=self.supervised(views.logits_x, batch.y),
            unlabeled=self.cfg.weight * masked_mean(cross_entropy(views.logits_strong, q), mask),
            instance=self.cfg.instance_weight * bank_is_used * cross_entropy(similarity, goal).mean(),
        ).log(mask=mask)

        self.bank.write(batch.rows_x, views.z_x, decay=0.0 if self.cfg.teacher else self.cfg.slot_decay)
        if self.teacher is not None:
            self.teacher.update(self.model, self.projector)

    def predict(self, batch: Batch) -> Views:
        """All views in one pass; a teacher, if there is one, sees the weak views in place of the student."""
        (x,), (u_weak, u_strong) = batch.x, batch.u
        if self.teacher is None:
            logits, z = embed(self.model, self.projector, x, u_weak, u_strong, targets=[u_weak])
            return Views(*logits, *z)
        (logits_x, logits_strong), (_, z_strong) = embed(self.model, self.projector, x, u_strong)
        (_, logits_weak), (z_x, z_weak) = self.teacher(x, u_weak)
        return Views(logits_x, logits_weak, logits_strong, z_x, z_weak, z_strong)

    def aggregate(self, own: Tensor, near: Tensor) -> Tensor:
        """Aligned predictions mixed with the labels of the labeled images that are near."""
        return torch.lerp(near @ one_hot(self.bank.labels, own), own, self.cfg.own_share)
