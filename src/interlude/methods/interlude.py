"""InterLUDE (Huang et al., 2024), https://arxiv.org/abs/2403.10658.

Labeled and unlabeled images interact twice: each row of the interdigitated batch takes a share of its
neighbour's embedding (fusion), and the change of prediction from weak to strong view must agree between a
labeled image and the mu unlabeled ones that share its draws (delta-consistency).

Symbols: p `p`, alpha `alpha`, tau `threshold`, lambda_u `unlabeled_weight`, lambda_DC `delta_weight`, Delta_L
`delta_x`, Delta_U `delta_u`, Low-I .. High-I3 `layout`.

Where public code differs: the authors' release draws a fresh augmentation for every image, fuses before the
last stage instead of the embedding, detaches Delta_L, averages the delta loss over classes (1/K of the
paper's), uses >= for >, and leaves fusion on at evaluation, where a prediction then depends on the next
test image. All but the last two are options (`recipes/released.yaml`); evaluation here never fuses. The
paper's prose says "previous neighbour", its matrix and the release say next.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Literal, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.linalg import vector_norm

from interlude.method import Batch, Clock, Method, Objective, Task, register
from interlude.models import Classifier
from interlude.options import option
from interlude.parts import layout
from interlude.parts.average import Average
from interlude.parts.fusion import fuse_views
from interlude.parts.losses import cross_entropy, masked_mean, softmax
from interlude.parts.targets import align


@dataclass(frozen=True)
class Interaction(Method.Config):
    """How labeled and unlabeled rows meet: the options that InterLUDE and InterLUDE+ share."""

    layout: Literal["low-i", "high-i1", "high-i2", "high-i3"] = option("high-i3", "order of the rows")
    alpha: float = option(
        0.1,
        "share of the neighbour's embedding",
        at_least=0,
        below=0.5,
        why="at 0.5 the fusion matrix is singular and a row is no longer mostly itself",
    )
    fusion_point: Literal["embedding", "stage"] = option(
        "embedding", "what is fused: the embedding (paper) or what enters the last stage (authors' code)"
    )
    neighbour: Literal["next", "previous"] = option("next", "which row of the circle a row is fused with")
    shared_draws: bool = option(True, "one weak and one strong draw per group (Alg. 1)")
    unlabeled_weight: float = option(1.0, "weight of the unlabeled term, lambda_u", at_least=0)
    soft_targets: bool = option(False, "weak predictions as soft targets instead of their argmax")
    delta_weight: float = option(1.0, "weight of the delta-consistency term, lambda_DC", at_least=0)
    delta_reduction: Literal["sum", "mean"] = option(
        "sum", "over classes: sum (paper) or mean (authors' code)"
    )
    delta_detach: bool = option(False, "treat the labeled change as a fixed target (authors' code)")
    delta_groups: Literal["average", "class-matched"] = option(
        "average", "which unlabeled rows of a group count: all, or those with its label as pseudo-label"
    )
    align: float | None = option(
        None,
        "bring weak predictions, before they become targets, from their running mean, of this EMA factor, to "
        "the shares of the classes among the labels; None = leave them",
        at_least=0,
        at_most=1,
    )


class Views(NamedTuple):
    """What a network makes of the four views of a batch."""

    x_weak: Tensor
    x_strong: Tensor
    u_weak: Tensor
    u_strong: Tensor


@register
class InterLUDE(Method):
    """FixMatch on fused embeddings, plus the delta-consistency loss."""

    labeled = unlabeled = ("weak", "strong")

    @dataclass(frozen=True)
    class Config(Interaction):
        threshold: float = option(0.95, "confidence threshold tau", at_least=0, at_most=1)

    cfg: Config
    shares: Tensor

    def __init__(self, cfg: Interaction, model: Classifier, task: Task) -> None:
        super().__init__(cfg, model, task)
        self.shared_draws = cfg.shared_draws
        if cfg.align is not None:
            shares = torch.bincount(task.labels, minlength=task.num_classes) / len(task.labels)
            self.register_buffer("shares", shares)
            self.running = Average(shares, cfg.align, from_first=True)

    def step(self, batch: Batch, clock: Clock) -> Iterator[Objective]:
        logits, p = self.predict(batch)

        q = self.guess(p.u_weak)
        confidence, label = q.max(-1)
        mask = confidence > self.cfg.threshold
        losses = cross_entropy(logits.u_strong, self.target(q, label))

        delta_x, delta_u = p.x_weak - p.x_strong, p.u_weak - p.u_strong
        yield Objective(
            supervised=self.supervised(logits.x_weak, batch.y),
            unlabeled=self.cfg.unlabeled_weight * masked_mean(losses, mask),
            delta=self.cfg.delta_weight * self.delta(delta_x, delta_u, match=self.match(label, batch.y)),
        ).log(mask=mask, delta_x=vector_norm(delta_x, dim=-1), delta_u=vector_norm(delta_u, dim=-1))

    def predict(self, batch: Batch) -> tuple[Views, Views]:
        """Logits and probabilities of the four views after one fused pass over all of them."""
        groups, mu = len(batch.y), len(batch.rows_u) // len(batch.y)
        midway = partial(self.fuse, groups=groups, mu=mu)
        logits = self.model.joint(*batch.x, *batch.u, midway=midway, at=self.cfg.fusion_point)
        sizes = layout.sizes(groups, mu)
        return Views(*logits.split(sizes)), Views(*softmax(logits).split(sizes))

    def fuse(self, z: Tensor, *, groups: int, mu: int) -> Tensor:
        """Each row of the four views moves a share alpha towards its neighbour in the interdigitated batch.

        The network sees the views one after the other: what stands beside a row matters only here.
        """
        side = 1 if self.cfg.neighbour == "next" else -1
        return fuse_views(z, self.cfg.alpha, self.cfg.layout, groups=groups, mu=mu, side=side)

    def guess(self, p: Tensor) -> Tensor:
        """What weak views are taken for: their probabilities as a target, aligned if so configured."""
        q = p.detach()
        return q if self.cfg.align is None else align(q, self.running.update(q.mean(0)), self.shares)

    def target(self, q: Tensor, label: Tensor) -> Tensor:
        """What the strong view is trained towards."""
        return q if self.cfg.soft_targets else label

    def match(self, label: Tensor, y: Tensor) -> Tensor | None:
        """Which unlabeled rows of each group count in its change (B, M), by pseudo-label; None if all do."""
        if self.cfg.delta_groups == "average":
            return None
        true = y if y.ndim == 1 else y.argmax(-1)
        return (label.view(len(y), -1) == true[:, None]).to(label.dtype)

    def delta(self, delta_x: Tensor, delta_u: Tensor, match: Tensor | None) -> Tensor:
        """The delta-consistency loss with this configuration's switches."""
        delta_x = delta_x.detach() if self.cfg.delta_detach else delta_x
        return delta_consistency(delta_x, delta_u, match, reduction=self.cfg.delta_reduction)


def delta_consistency(
    delta_x: Tensor, delta_u: Tensor, match: Tensor | None = None, *, reduction: str = "sum"
) -> Tensor:
    """Mean over groups of the squared distance between the labeled change and the mean unlabeled one.

    `delta_x` (B, K), `delta_u` (B*M, K); `match` (B, M) says which unlabeled rows count, None that all do. A
    group in which none does adds nothing.
    """
    of_groups = delta_u.unflatten(0, (len(delta_x), -1))
    if match is None:
        error = F.mse_loss(delta_x, of_groups.mean(1))
    else:
        counted = match.sum(1)
        mean_u = (of_groups * match[..., None]).sum(1) / counted.clamp_min(1)[:, None]
        error = masked_mean((delta_x - mean_u).square().mean(-1), counted > 0)
    return error * delta_x.shape[1] if reduction == "sum" else error  # the sum over classes, or their mean
