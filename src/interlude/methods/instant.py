"""InstanT (Li et al., 2023), https://arxiv.org/abs/2310.18910.

Pseudo-labels are noisy labels, and a transition matrix says how: T_ij is the probability that an image of
class i is given the label j. A row needs more confidence the likelier it is that its label comes from
another class, and the loss of the strong view compares labels after the noise.

Symbols: T `transition`, its column of the label k `column`, P `posterior` with second largest entry P_(2),
tau(x) = T_kk P_(2) + sum_{i != k} T_ik P_i `threshold_of`.

Where public code differs: the authors call backward on the unlabeled term twice, once for T and once for the
model, whose gradients they do not clear between: their weight 1 acts as 2. Here there is one backward, T has
its own learning rate, and `weight=2` is what their model descends. Their code crashes after the warm-up (a
counter is never made) and in its mode "instance" (a keyword does not exist). It adds a base to tau(x), and
takes for P a softmax of *probabilities*, which is nearly flat. The defaults are that code's without the
crashes (mode "class"); `transition="instance"` and `posterior="aligned"` are the paper's, in which T depends
on the image and is learned from the labeled ones alone. The rate of T follows the run's schedule.
"""

import copy
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from interlude import distributed
from interlude.method import Batch, Clock, Method, Objective, Task, register
from interlude.models import Classifier
from interlude.options import option
from interlude.parts.average import Average
from interlude.parts.losses import cross_entropy, masked_mean, probabilities
from interlude.parts.targets import align, normalize, one_hot


@register
class InstanT(Method):
    """A threshold per image from how probable it is that its pseudo-label is noise."""

    @dataclass(frozen=True)
    class Config(Method.Config):
        threshold: float = option(
            0.9, "base of all thresholds, as a share of the batch's mean confidence", at_least=0
        )
        weight: float = option(1.0, "weight of the unlabeled term (authors' code: in effect 2)", at_least=0)
        decay: float = option(0.999, "EMA factor of the mean predictions", at_least=0, at_most=1)
        warmup: float = option(
            10240 / 2**20, "fraction of the run with the base threshold and no T", at_least=0, at_most=1
        )
        transition: Literal["class", "instance"] = option(
            "class", "T is one matrix, learned with the model, or a network's output, learned from labels"
        )
        posterior: Literal["flat", "aligned"] = option(
            "flat", "what T acts on in tau(x): softmax(p / temperature) (authors' code) or p (paper)"
        )
        temperature: float = option(0.5, "temperature of the flat posterior", above=0)
        scale: float = option(5.0, "weight of the diagonal of T (authors: 10 for 100 classes)", at_least=0)
        transition_rate: float = option(
            1 / 3, "learning rate of T over that of the model (authors' mode instance: 1/30)", above=0
        )

    cfg: Config

    def __init__(self, cfg: Config, model: Classifier, task: Task) -> None:
        super().__init__(cfg, model, task)
        uniform = torch.full((task.num_classes,), 1 / task.num_classes)
        self.prior_x = Average(uniform, cfg.decay)
        self.prior_u = Average(uniform, cfg.decay, from_first=True)
        kind = PerClass if cfg.transition == "class" else PerImage
        self.transition = kind(model, task.num_classes, cfg.scale)

    def lr_scale(self, name: str) -> float:
        return self.cfg.transition_rate if name.startswith("transition.") else 1.0

    def step(self, batch: Batch, clock: Clock) -> Iterator[Objective]:
        (x,), y, (u_weak, u_strong) = batch.x, batch.y, batch.u
        logits_x, logits_weak, logits_strong = self.model.together(x, u_weak, u_strong, targets=[u_weak])

        p_x, p_u = probabilities(logits_x), probabilities(logits_weak)
        q = align(p_u, self.prior_u.update(p_u.mean(0)), self.prior_x.update(p_x.mean(0)))
        confidence, label = q.max(-1)
        threshold = self.cfg.threshold * distributed.mean(confidence.mean())

        t_x, t_u = self.transition(x, u_weak)
        if clock.progress < self.cfg.warmup:
            losses = cross_entropy(logits_strong, label)
        else:
            column = t_u.take_along_dim(label[:, None, None], -1).squeeze(-1)  # T_ik of all i, label k
            threshold = threshold + self.threshold_of(q, column.detach())
            losses = forward_corrected(logits_strong, column)
        mask = confidence >= threshold.clamp(0, 0.99)

        objective = Objective(
            supervised=self.supervised(logits_x, y),
            unlabeled=self.cfg.weight * masked_mean(losses, mask),
        ).log(mask=mask, threshold=threshold)
        if t_x is not None:
            objective.terms["transition"] = match_posterior(t_x, y, p_x)
        yield objective

    def threshold_of(self, q: Tensor, column: Tensor) -> Tensor:
        """tau(x) of each row: `column` weighs the posterior, whose largest entry gives way to the second."""
        posterior = (q / self.cfg.temperature).softmax(-1) if self.cfg.posterior == "flat" else q
        second = posterior.topk(2).values[:, 1:]
        return (column * posterior.scatter(1, q.argmax(-1, keepdim=True), second)).sum(-1)


class PerClass(nn.Module):
    """One matrix for all images: a fixed diagonal, learned entries beside it, rows of sum 1."""

    def __init__(self, model: Classifier, num_classes: int, scale: float) -> None:
        super().__init__()
        self.num_classes, self.scale = num_classes, scale
        # flat, because one-dimensional parameters take no weight decay
        self.entries = nn.Parameter(torch.full((num_classes**2,), -2.0))

    def forward(self, x: Tensor, u: Tensor) -> tuple[None, Tensor]:
        """T of each unlabeled row (N, K, K); labeled rows have no part in it."""
        eye = torch.eye(self.num_classes, device=self.entries.device, dtype=self.entries.dtype)
        beside = self.entries.sigmoid().view_as(eye) * (1 - eye)
        return None, normalize(self.scale * eye + beside).expand(len(u), -1, -1)


class PerImage(nn.Module):
    """A second network that gives each image its own matrix, learned from labeled images alone."""

    def __init__(self, model: Classifier, num_classes: int, scale: float) -> None:
        super().__init__()
        self.num_classes, self.scale = num_classes, scale
        self.network = copy.deepcopy(model)
        self.network.head = nn.Linear(model.num_features, num_classes**2)

    def forward(self, x: Tensor, u: Tensor) -> tuple[Tensor, Tensor]:
        """T of each labeled row, and of each unlabeled row without gradient."""
        eye = torch.eye(self.num_classes, device=x.device)
        logits = self.network.together(x, u, targets=[u])
        t_x, t_u = ((rows.view(-1, *eye.shape) + self.scale * eye).softmax(-1) for rows in logits)
        return t_x, t_u


def forward_corrected(logits: Tensor, column: Tensor) -> Tensor:
    """-log of the probability of the label after the noise, sum_i p_i T_ik, for each row."""
    return -torch.logsumexp(logits.log_softmax(-1) + column.clamp_min(1e-12).log(), -1)


def match_posterior(t: Tensor, y: Tensor, p: Tensor) -> Tensor:
    """Cross-entropy of the row of T that belongs to the true label, against the model's prediction."""
    true = one_hot(y, p) if y.ndim == 1 else y
    row = (true[..., None] * t).sum(1)
    return -(p * row.clamp_min(1e-12).log()).sum(-1).mean()
