"""FeatMatch (Kuo et al., 2020), https://arxiv.org/abs/2007.08505.

Embeddings are refined by attention over prototypes, found by k-means among labeled and unlabeled embeddings;
the refined prediction on a weak view is the target of all views, mixed by mixup. The prototypes are part of
the model, which predicts with refined embeddings after training, too.

Symbols: f `z`, f_g `refine(z)`, h `classify`, K `num_strong`, p_k `num_prototypes`, T `temperature`, alpha
`mixup_alpha`, lambda_con `weight` (on h(f_g)), lambda_graph `graph_weight` (on h(f)), r(t) `ramp`.

Where public code differs: the released sampler gives no batch if there are fewer labels than rows in one;
ours repeats images. Its first pass, over all views and with gradient, only serves targets; ours has the weak
unlabeled views alone. Its k-means is not seeded and draws ten starts; ours is seeded by the step and draws
one. It keeps all embeddings since the last k-means; ours the last `bank`. It finds prototypes every 500 of
183,000 steps (1.28 passes over CIFAR-10) from step 3000 on; here these are passes and a fraction of the run.
Its cycled momentum never reaches the optimiser. Here strong views, scaling of images, rates and averaged
weights are those of all methods; the averaged model uses the prototypes of the trained one.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from interlude import distributed
from interlude.method import Batch, Clock, Method, Objective, Task, register
from interlude.models import Classifier, RefinedClassifier, evaluating, prototypes_of
from interlude.options import option
from interlude.parts.losses import cross_entropy, probabilities
from interlude.parts.mixup import blend, mixup_share
from interlude.parts.targets import one_hot, sharpen


@register
class FeatMatch(Method):
    """Predictions refined by attention over prototypes, consistent over many mixed views."""

    labeled = unlabeled = ("weak", *["strong"] * 8)
    mu: ClassVar[int] = 2

    @dataclass(frozen=True)
    class Config(Method.Config):
        num_strong: int = option(8, "strong views of each image, K; fewer are faster", at_least=0)
        temperature: float = option(0.75, "temperature T of the targets", above=0)
        mixup_alpha: float = option(0.75, "mixup takes its share from Beta(alpha, alpha)", above=0)
        weight: float = option(0.5, "weight of the unlabeled term on refined predictions", at_least=0)
        graph_weight: float = option(2.0, "weight of the unlabeled term on plain predictions", at_least=0)
        ramp: float = option(
            75 / 183, "fraction of the run in which unlabeled terms grow (released: 75 of 183)", at_least=0
        )
        start: float = option(
            3 / 183, "fraction of the run before predictions are refined (released: 3 of 183)", at_least=0
        )
        period: float = option(
            1.28, "passes over the pool between renewals of prototypes (released: 500 steps)", above=0
        )
        num_prototypes: int = option(20, "most prototypes of a class, half from labels", at_least=4)
        num_heads: int = option(4, "heads of the attention", at_least=1)
        threshold: float = option(0.5, "confidence that makes prototypes, halved if few have it", at_least=0)
        bank: int = option(2**14, "unlabeled embeddings kept for making prototypes", at_least=1)

    cfg: Config
    model: RefinedClassifier
    bank: Tensor
    bank_confidence: Tensor
    bank_label: Tensor
    recorded: Tensor  # rows written since the last renewal

    def __init__(self, cfg: Config, model: Classifier, task: Task) -> None:
        room = task.num_classes * cfg.num_prototypes
        model = RefinedClassifier.around(model, num_heads=cfg.num_heads, num_prototypes=room)
        super().__init__(cfg, model, task)
        self.labeled = self.unlabeled = ("weak", *["strong"] * cfg.num_strong)
        size = min(cfg.bank, task.num_unlabeled)
        self.register_buffer("bank", torch.zeros(size, model.num_features))
        self.register_buffer("bank_confidence", torch.zeros(size))
        self.register_buffer("bank_label", torch.zeros(size, dtype=torch.int64))
        self.register_buffer("recorded", torch.zeros((), dtype=torch.int64))

    def step(self, batch: Batch, clock: Clock) -> Iterator[Objective]:
        since = clock.step - math.ceil(self.cfg.start * clock.total - 1e-6)
        refining = since >= 0
        if refining and since % self.period(batch) == 0:
            self.renew_prototypes(seed=clock.step)

        q = sharpen(self.predict(batch.u[0], record=refining), self.cfg.temperature)
        y = one_hot(batch.y, q) if batch.y.ndim == 1 else batch.y
        views, targets = [*batch.x, *batch.u], [y] * len(batch.x) + [q] * len(batch.u)
        share = mixup_share(self.cfg.mixup_alpha, like=q)
        order = torch.randperm(distributed.count(sum(map(len, views)))).to(q.device)

        with distributed.passing(views):
            z = self.model.features(blend(views, order, share))
            refined = self.model.classify(self.model.refine(z))
        num_x = [len(y) * len(batch.x)]
        target_x, target_u = blend(targets, order, share).tensor_split(num_x)
        refined_x, refined_u = refined.tensor_split(num_x)
        plain_u = self.model.classify(z).tensor_split(num_x)[1]

        ramp, graph_weight = clock.ramp(self.cfg.ramp), self.cfg.graph_weight if refining else 0.0
        yield Objective(
            supervised=self.supervised(refined_x, target_x),
            unlabeled=ramp * self.cfg.weight * cross_entropy(refined_u, target_u).mean(),
            graph=ramp * graph_weight * cross_entropy(plain_u, target_u).mean(),
        ).log(confidence=q.max(-1).values)

    def period(self, batch: Batch) -> int:
        """Steps from one renewal of the prototypes to the next."""
        rows = distributed.count(len(batch.rows_u))
        return max(1, round(self.cfg.period * self.task.num_unlabeled / rows))

    @torch.no_grad()
    def predict(self, u_weak: Tensor, *, record: bool) -> Tensor:
        """The predictions, refined once there are prototypes; `record` them with the embeddings."""
        z = self.model.features(u_weak)
        q = probabilities(self.model.classify(self.model.refine(z)))
        if record:
            z, everyone = distributed.gather(z), distributed.gather(q)
            last = slice(-len(self.bank), None)  # a batch may be larger than the bank
            slots = (self.recorded + torch.arange(len(z), device=z.device))[last] % len(self.bank)
            self.bank_confidence[slots], self.bank_label[slots] = everyone[last].max(-1)
            self.bank[slots] = z[last]
            self.recorded += len(z)
        return q

    @torch.no_grad()
    def renew_prototypes(self, seed: int) -> None:
        """From the labeled images as they are, and from what was recorded since the last time."""
        with evaluating(self.model):
            sweep = self.task.sweep(self.task.labeled, "plain")
            z_x = torch.cat([self.model.features(images) for images in sweep])
        z_u, label = self.confident()
        self.recorded.zero_()
        room, found = self.cfg.num_prototypes, []
        for c in range(self.task.num_classes):
            found += [prototypes_of(z_x[self.task.labels == c], room // 2 if len(z_u) else room, seed)]
            found += [prototypes_of(z_u[label == c], room - len(found[-1]), seed)]
        self.model.set_prototypes(torch.cat(found))

    def confident(self) -> tuple[Tensor, Tensor]:
        """Recorded embeddings above the first of five thresholds that enough of each class pass, or none."""
        filled = min(int(self.recorded), len(self.bank))
        z, label, confidence = self.bank[:filled], self.bank_label[:filled], self.bank_confidence[:filled]
        for halvings in range(5):
            kept = confidence > self.cfg.threshold / 2**halvings
            counts = torch.bincount(label[kept], minlength=self.task.num_classes)
            if (counts > self.cfg.num_prototypes).all():
                return z[kept], label[kept]
        return z[:0], label[:0]
