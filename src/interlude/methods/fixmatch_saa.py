"""SAA on FixMatch (Gui et al., 2023), https://arxiv.org/abs/2309.03598.

Sample adaptive augmentation: images whose loss on the strong view has become small teach nothing more, and
are given a more diverse strong view, in which one half comes from a second strong augmentation.

Symbols: H_i `history`, l_i `losses`, the naive samples `easy`, tau `threshold`, lambda_u `weight`; an epoch
of the paper, 256 of 2^20 steps, is `period`.

Where public code differs: the authors keep the mask inside the data set, where persistent workers never see
it change, and save neither it nor the history; images not drawn yet count with loss 0, hence as easy. Here
both are buffers, and images not drawn yet are neither counted nor easy. The authors join two RandAugments
first and flip and crop the whole; here the two halves are of two complete strong views, each with its own
flip and crop. The paper says average; the weights of the code (0.001 and 0.999), kept here, make the history
almost the last loss.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from interlude import distributed
from interlude.method import Batch, Clock, Objective, Task, register
from interlude.methods.fixmatch import FixMatch
from interlude.models import Classifier
from interlude.options import option
from interlude.parts.losses import cross_entropy, masked_mean, probabilities


@register
class FixMatchSAA(FixMatch):
    """FixMatch in which images that have become easy get a more diverse strong view."""

    unlabeled = ("weak", "strong", "strong")
    needs_pixels = "it joins the halves of two images"

    @dataclass(frozen=True)
    class Config(FixMatch.Config):
        decay: float = option(0.001, "share of the old value in an image's loss history", at_least=0, below=1)
        start: float = option(
            402 / 4096, "fraction of the run before easy images are first selected", at_least=0, at_most=1
        )
        period: float = option(
            1 / 4096,
            "fraction of the run from one selection to the next (at least a step)",
            above=0,
            at_most=1,
        )

    cfg: Config
    history: Tensor
    easy: Tensor

    def __init__(self, cfg: Config, model: Classifier, task: Task) -> None:
        super().__init__(cfg, model, task)
        self.register_buffer("history", torch.full((task.num_unlabeled,), -1.0))  # -1: not drawn yet
        self.register_buffer("easy", torch.zeros(task.num_unlabeled, dtype=torch.bool))

    def step(self, batch: Batch, clock: Clock) -> Iterator[Objective]:
        (x,), y, (u_weak, u_first, u_second) = batch.x, batch.y, batch.u
        easy = self.easy[batch.rows_u]
        u_strong = diversify(u_first, u_second, easy)
        logits_x, logits_weak, logits_strong = self.model.together(x, u_weak, u_strong, targets=[u_weak])

        confidence, label = probabilities(logits_weak).max(-1)
        mask = confidence >= self.cfg.threshold
        losses = cross_entropy(logits_strong, label)

        yield Objective(
            supervised=self.supervised(logits_x, y),
            unlabeled=self.cfg.weight * masked_mean(losses, mask),
        ).log(mask=mask, easy=easy)

        self.remember(batch.rows_u, losses.detach())  # of all rows, confident or not
        if self.due(clock):
            drawn = self.history >= 0
            self.easy.copy_(drawn & (self.history < otsu(self.history[drawn])))

    def remember(self, rows: Tensor, losses: Tensor) -> None:
        """Move the history of the images `rows` of the batch to these losses; it begins at 0."""
        rows, losses = distributed.gather(rows), distributed.gather(losses)
        before = self.history[rows].clamp_min(0)
        self.history[rows] = self.cfg.decay * before + (1 - self.cfg.decay) * losses.to(before.dtype)

    def due(self, clock: Clock) -> bool:
        """Whether easy images are selected after this step."""
        taken = clock.step + 1
        period = max(1, round(self.cfg.period * clock.total))
        return taken % period == 0 and taken >= self.cfg.start * clock.total


def diversify(first: Tensor, second: Tensor, easy: Tensor) -> Tensor:
    """`first`, but in easy rows the left or the top half, at even odds, is that of `second`."""
    height, width = first.shape[-2:]
    left = (torch.arange(width, device=first.device) < width // 2).expand(height, width)
    top = (torch.arange(height, device=first.device) < height // 2)[:, None].expand(height, width)
    chance = distributed.own(torch.rand(distributed.count(len(first)), 1, 1, device=first.device))
    half = torch.where(chance < 0.5, left, top) & easy[:, None, None]
    return torch.where(half[:, None], second, first)


def otsu(values: Tensor, num_bins: int = 256) -> Tensor:
    """The threshold that splits a histogram of `values` with the largest variance between its two parts.

    It is the edge between two bins, so that the lower part is what lies below it. Equal values are not split.
    """
    low, high = values.min(), values.max()
    edges = torch.linspace(0, 1, num_bins + 1, device=values.device, dtype=values.dtype)
    edges = low + (high - low) * edges
    counts = torch.histc(values, num_bins)
    below, moment = counts.cumsum(0), (counts * (edges[1:] + edges[:-1]) / 2).cumsum(0)
    above = below[-1] - below
    distance = moment / below.clamp_min(1) - (moment[-1] - moment) / above.clamp_min(1)
    return edges[1:][(below * above * distance.square()).argmax()].where(high > low, low)
