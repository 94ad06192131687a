"""CoMatch (Li et al., 2021), https://arxiv.org/abs/2011.11183.

Predictions and embeddings teach each other: a target is smoothed by the predictions of its neighbours in a
bank of recent embeddings, and images whose targets agree are pulled together in the space of embeddings.

Symbols: tau `threshold`, T `edge_threshold` (of the graph), t `temperature`, alpha `own_share`, lambda_u
`weight`, lambda_c `contrast_weight`, K `bank`, p^w `own` (aligned), q (smoothed), W^q `graph`.

Where public code differs: a bank must hold a whole number of batches there, or the rows that do not fit are
lost and stale ones stay (here it wraps round); while it is not full it votes with zeros (here empty places
have no say); and exponentials are normalised where we take a log-softmax in float32. USB starts smoothing
an epoch late (`and` for the authors' `or`), fills the alignment window with zeros, and its configurations
average three projectors (EPASS, another method). The authors' second strong view is SimCLR's; ours, like
USB's, is of the same kind as the first.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from interlude import distributed
from interlude.method import Batch, Clock, Method, Objective, Task, register
from interlude.models import Classifier
from interlude.options import option
from interlude.parts.bank import Projector, Recent, Ring, embed
from interlude.parts.losses import cross_entropy, masked_mean, probabilities
from interlude.parts.targets import align, normalize, one_hot


@register
class CoMatch(Method):
    """FixMatch with targets smoothed by a memory bank, and a contrastive loss on the graph of targets."""

    unlabeled = ("weak", "strong", "strong")

    @dataclass(frozen=True)
    class Config(Method.Config):
        threshold: float = option(0.95, "confidence threshold tau", at_least=0, at_most=1)
        edge_threshold: float = option(
            0.8, "images whose targets are less similar than this share no edge", at_least=0, at_most=1
        )
        temperature: float = option(0.2, "of similarities of embeddings, t", above=0)
        own_share: float = option(
            0.9,
            "share of its own prediction in a target, the rest is its neighbours', alpha",
            at_least=0,
            at_most=1,
        )
        weight: float = option(1.0, "weight of the unlabeled term, lambda_u", at_least=0)
        contrast_weight: float = option(1.0, "weight of the graph term, lambda_c (STL-10: 5)", at_least=0)
        bank: int = option(
            2560, "rows remembered; the paper's 5 batches of 64 * (1 + 7), USB's ViT 32 batches", at_least=1
        )
        width: int = option(64, "length of an embedding", at_least=1)
        window: int = option(32, "batches whose mean prediction is aligned", at_least=1)
        warmup: float = option(
            1e-5,
            "fraction of the run before smoothing (authors 6 steps, USB 1024 of 2^20)",
            at_least=0,
            at_most=1,
        )

    cfg: Config

    def __init__(self, cfg: Config, model: Classifier, task: Task) -> None:
        super().__init__(cfg, model, task)
        self.projector = Projector(model.num_features, cfg.width)
        self.bank = Ring(cfg.bank, cfg.width, task.num_classes)
        self.prior = Recent(cfg.window, task.num_classes)

    def step(self, batch: Batch, clock: Clock) -> Iterator[Objective]:
        (x,), y = batch.x, batch.y
        logits, embeddings = embed(self.model, self.projector, x, *batch.u, targets=batch.u[:1])
        logits_x, logits_weak, logits_strong, _ = logits
        z_x, z_weak, z_strong, z_other = embeddings

        p = probabilities(logits_weak)
        own = align(p, self.prior.update(p.mean(0)), 1 / self.task.num_classes)
        q = self.smooth(own, z_weak) if clock.progress > self.cfg.warmup else own
        mask = q.max(-1).values >= self.cfg.threshold

        graph = distributed.own(target_graph(distributed.gather(q), self.cfg.edge_threshold))
        similarity = z_strong @ distributed.gather(z_other).T / self.cfg.temperature
        yield Objective(
            supervised=self.supervised(logits_x, y),
            unlabeled=self.cfg.weight * masked_mean(cross_entropy(logits_strong, q), mask),
            contrast=self.cfg.contrast_weight * cross_entropy(similarity, graph).mean(),
        ).log(mask=mask, edges=(graph > 0).sum(-1))

        label = one_hot(y, own) if y.ndim == 1 else y
        self.bank.push(z_weak, own)
        self.bank.push(z_x, label)

    @torch.no_grad()
    def smooth(self, own: Tensor, z: Tensor) -> Tensor:
        """Aligned predictions mixed with those of the neighbours of `z` in the bank."""
        near = (self.bank.similarity(z) / self.cfg.temperature).softmax(-1)
        return torch.lerp(near @ self.bank.q, own, self.cfg.own_share)


def target_graph(q: Tensor, threshold: float) -> Tensor:
    """Similarity of targets, 1 with oneself, 0 below the threshold, each row of sum 1."""
    similarity = (q @ q.T).fill_diagonal_(1)
    return normalize(similarity * (similarity >= threshold))
