"""How unlike the training images an image is, as any classifier can tell: by the distance of its embedding.

The distance to the nearest class, in units of how far embeddings spread within classes (Mahalanobis distance,
Lee et al. 2018). Of what was measured it told other data sets apart best; confidence and energy do
little better than chance where a network is not very good. It is given as a share: 0.97 says "more
unusual than 97 % of the training images".
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

import torch
from torch import Tensor

LEVELS = 200  # quantiles that are kept of the distances of training images
SHRINKAGE = 0.1  # how much the spread is taken to be the same in all directions


@dataclass(frozen=True, eq=False)
class Usual:
    """Embeddings of training images summed up: where their classes lie and how far from them they are."""

    origin: Tensor  # (D,)
    whitening: Tensor  # (D, D); embeddings of a class spread alike in all directions after it
    centres: Tensor  # (C, D), of the classes that were seen, whitened
    quantiles: Tensor  # (LEVELS,), of the distances, ascending

    def distance(self, features: Tensor) -> Tensor:
        """The squared distance (N,) of embeddings (N, D) to the nearest class."""
        z = (features - self.origin) @ self.whitening
        squares = z.square().sum(-1, keepdim=True) + self.centres.square().sum(-1)
        return (squares - 2 * z @ self.centres.T).amin(-1).clamp_min(0)

    def share(self, features: Tensor) -> Tensor:
        """The share (N,) of training images that are less unusual than each of these embeddings (N, D)."""
        return (self.distance(features)[:, None] > self.quantiles).to(features.dtype).mean(-1)

    def to(self, device: torch.device) -> "Usual":
        """The same on a device."""
        return Usual(**{name: value.to(device) for name, value in self.tensors().items()})

    def tensors(self) -> dict[str, Tensor]:
        """What it consists of, by name."""
        return dict(vars(self))

    @classmethod
    def of(cls, features: Tensor, classes: Tensor) -> Self:
        """From embeddings (N, D) of training images and their predicted classes (N,).

        Every second image tells where the classes lie, the others how far away is usual: an image is always
        nearer to a centre that it was itself averaged into.
        """
        features = features.double().cpu()
        known, others = features[::2], features[1::2] if len(features) > 1 else features
        seen, row = torch.unique(classes.cpu()[::2], return_inverse=True)
        centres = torch.stack([known[row == k].mean(0) for k in range(len(seen))])
        spread = known - centres[row]
        covariance = spread.T @ spread / len(known)
        width = len(covariance)
        even = covariance.trace().clamp_min(1e-12) / width * torch.eye(width, dtype=torch.float64)
        precision = torch.linalg.inv((1 - SHRINKAGE) * covariance + SHRINKAGE * even)
        whitening = torch.linalg.cholesky((precision + precision.T) / 2)
        origin = known.mean(0)
        made = cls(origin, whitening, (centres - origin) @ whitening, torch.empty(0))
        levels = (torch.arange(LEVELS, dtype=torch.float64) + 0.5) / LEVELS
        quantiles = torch.quantile(made.distance(others), levels)
        return cls(*(value.float() for value in (origin, whitening, made.centres, quantiles)))

    @classmethod
    def from_tensors(cls, tensors: Mapping[str, Tensor]) -> Self:
        """What `tensors` gave."""
        return cls(**tensors)
