"""Embeddings, and what methods remember of them: banks of earlier rows; and means of earlier predictions.

All of it is buffers. A place of a bank that was never written has no say: its similarity is so low that no
softmax gives it weight beside a written one.
"""

from collections.abc import Sequence
from typing import Self

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from interlude import distributed
from interlude.models import Classifier
from interlude.parts.ema import Ema

NEVER = -1e9  # similarity to an empty place; finite, so that 0 * log(0) stays 0


class Projector(nn.Module):
    """Two layers from features to an embedding of length 1."""

    def __init__(self, num_features: int, width: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(num_features, num_features), nn.ReLU(), nn.Linear(num_features, width)
        )

    def forward(self, features: Tensor) -> Tensor:
        """Embeddings (N, width) of features (N, num_features)."""
        return F.normalize(self.layers(features), dim=-1)


def embed(
    model: Classifier, projector: nn.Module, *views: Tensor, targets: Sequence[Tensor] = ()
) -> tuple[Sequence[Tensor], Sequence[Tensor]]:
    """The logits and the embeddings of each view, as `Classifier.together` gives the logits."""
    features = torch.cat(model.features_together(*views, targets=targets))
    sizes = [len(view) for view in views]
    return model.classify(features).split(sizes), projector(features).split(sizes)


class Teacher(nn.Module):
    """The averages of a network and of its projector; always in evaluation mode, without gradients.

    BatchNorm then uses the running statistics, which are the student's, and no view sees its batch mates.
    """

    def __init__(self, model: Classifier, projector: Projector, decay: float, *, warmup: bool) -> None:
        super().__init__()
        self.model = Ema(model, decay, warmup=warmup)
        self.projector = Ema(projector, decay, warmup=warmup)

    def train(self, mode: bool = True) -> Self:
        """Stays in evaluation mode when the student is set to train."""
        return super().train(False)

    @torch.no_grad()
    def forward(self, *views: Tensor) -> tuple[Sequence[Tensor], Sequence[Tensor]]:
        """The logits and the embeddings of each view."""
        return embed(self.model.model, self.projector.model, *views)

    def update(self, model: Classifier, projector: Projector) -> None:
        """Move towards the student."""
        self.model.update(model)
        self.projector.update(projector)


class Ring(nn.Module):
    """The last `size` rows that were pushed: unit embeddings `z` (size, width), predictions `q` (size, K)."""

    z: Tensor
    q: Tensor
    pushed: Tensor

    def __init__(self, size: int, width: int, num_classes: int) -> None:
        super().__init__()
        self.register_buffer("z", torch.zeros(size, width))
        self.register_buffer("q", torch.full((size, num_classes), 1 / num_classes))
        self.register_buffer("pushed", torch.tensor(0))  # rows ever pushed; the next goes to pushed % size

    @torch.no_grad()
    def push(self, z: Tensor, q: Tensor) -> None:
        """Put the batch's rows in the places of the oldest; of more rows than places the last ones stay."""
        z, q = distributed.gather(z), distributed.gather(q)
        first = max(0, len(z) - len(self.z))
        places = (self.pushed + torch.arange(first, len(z), device=z.device)) % len(self.z)
        self.z[places] = z[first:].to(self.z.dtype)
        self.q[places] = q[first:].to(self.q.dtype)
        self.pushed += len(z)

    def similarity(self, z: Tensor) -> Tensor:
        """Cosine of each row of `z` and each place (N, size); an empty ring is equally far from all."""
        empty = torch.arange(len(self.z), device=z.device) >= self.pushed
        return (z @ self.z.T).masked_fill(empty, NEVER)


class Slots(nn.Module):
    """A place for each labeled image: its unit embedding `z` (N, width), its label, and whether it was seen.

    The labels are known from the start, an embedding from the first batch that holds its image.
    """

    z: Tensor
    labels: Tensor
    seen: Tensor

    def __init__(self, labels: Tensor, width: int) -> None:
        super().__init__()
        self.register_buffer("labels", labels.clone())
        self.register_buffer("z", torch.zeros(len(labels), width))
        self.register_buffer("seen", torch.zeros(len(labels), dtype=torch.bool))

    @torch.no_grad()
    def write(self, rows: Tensor, z: Tensor, *, decay: float = 0.0) -> None:
        """`slot <- norm(decay * slot + (1 - decay) * z)` for the images `rows`; the first time, z alone.

        An image that is in the batch several times counts with the mean of its embeddings, so the order of
        the rows does not matter, nor how they are spread over processes.
        """
        places = torch.arange(len(self.z), device=rows.device)
        member = (places[:, None] == rows).to(self.z.dtype)
        count = distributed.total(member.sum(1, keepdim=True))
        mean = distributed.total(member @ z.to(self.z.dtype)) / count.clamp_min(torch.finfo(z.dtype).tiny)
        moved = F.normalize(decay * self.z + (1 - decay) * mean, dim=-1)  # an empty slot is 0
        self.z.copy_(torch.where(count > 0, moved, self.z))
        self.seen.logical_or_(count[:, 0] > 0)

    def similarity(self, z: Tensor) -> Tensor:
        """Cosine of each row of `z` and each slot (N, number of labeled images)."""
        return (z @ self.z.T).masked_fill(~self.seen, NEVER)


class Recent(nn.Module):
    """The mean of the last `window` batch statistics (K,), or of those seen so far."""

    means: Tensor
    count: Tensor

    def __init__(self, window: int, num_classes: int) -> None:
        super().__init__()
        self.register_buffer("means", torch.zeros(window, num_classes))
        self.register_buffer("count", torch.tensor(0))

    @torch.no_grad()
    def update(self, new: Tensor) -> Tensor:
        """Take in this process's statistic of the batch; returns the moved mean."""
        place = (self.count % len(self.means))[None]  # stays on the device
        self.means[place] = distributed.mean(new).to(self.means.dtype)
        self.count += 1
        return self.value

    @property
    def value(self) -> Tensor:
        """The mean of what is in the window; zeros before the first batch."""
        return self.means.sum(0) / self.count.clamp(1, len(self.means))
