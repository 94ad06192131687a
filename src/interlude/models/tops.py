"""What is trained on the vectors of a frozen network, below the linear head."""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from interlude.models.classifier import Midway

FLOOR = 1e-3  # of the mean spread: dimensions that hardly vary are not blown up beyond a thousandfold


class Scaling(nn.Module):
    """Centres and scales each dimension of vectors by fixed numbers; until these are set, does nothing."""

    mean: Tensor
    std: Tensor
    settled: Tensor

    def __init__(self, width: int) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(width))
        self.register_buffer("std", torch.ones(width))
        self.register_buffer("settled", torch.zeros((), dtype=torch.bool))

    def forward(self, vectors: Tensor) -> Tensor:
        """`(vectors - mean) / std`, in the precision of the latter two."""
        return torch.addcmul(-self.mean / self.std, vectors.to(self.mean.dtype), 1 / self.std)

    @torch.no_grad()
    def settle(self, vectors: Tensor) -> None:
        """From now on scale by the statistics of `vectors` (n, width); once settled, nothing changes."""
        if self.settled:
            return
        rows = vectors.to(self.mean.device, torch.float64)
        spread = rows.std(0, correction=0)
        self.mean.copy_(rows.mean(0))
        self.std.copy_(spread.clamp_min(max(FLOOR * float(spread.mean()), torch.finfo(torch.float32).tiny)))
        self.settled.fill_(True)


class Principal(nn.Module):
    """Keeps the directions in which vectors vary most, and brings what is left of each to one length.

    The length is the square root of the number of directions, as if each had variance one. The directions
    are not scaled against each other: with few labels, that of the weakest would be noise.
    """

    mean: Tensor
    directions: Tensor
    settled: Tensor

    def __init__(self, width: int, kept: int) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(width))
        self.register_buffer("directions", torch.eye(width, kept))
        self.register_buffer("settled", torch.zeros((), dtype=torch.bool))

    def forward(self, vectors: Tensor) -> Tensor:
        """The centred vectors in these directions, each of the one length."""
        kept = torch.addmm(-self.mean @ self.directions, vectors.to(self.mean.dtype), self.directions)
        z: Tensor = F.normalize(kept, dim=-1) * kept.shape[-1] ** 0.5
        return z

    @torch.no_grad()
    def settle(self, vectors: Tensor) -> None:
        """From now on centre and turn as `vectors` (n, width) say; once settled, nothing changes."""
        if self.settled:
            return
        rows = vectors.to(self.mean.device, torch.float64)
        self.mean.copy_(rows.mean(0))
        _, directions = torch.linalg.eigh(rows.T.cov(correction=0))  # in rising order of their variance
        self.directions.copy_(directions.flip(1)[:, : self.directions.shape[1]])
        self.settled.fill_(True)


class LinearTop(nn.Module):
    """Nothing but the scaling, to `principal` directions if given: what follows is linear regression."""

    def __init__(self, width: int, *, principal: int = 0) -> None:
        super().__init__()
        self.num_features = principal or width
        self.scaling = Principal(width, principal) if principal else Scaling(width)

    def forward(self, vectors: Tensor, midway: Midway | None = None) -> Tensor:
        """The scaled vectors, after `midway` acted on them."""
        z: Tensor = self.scaling(vectors)
        return z if midway is None else midway(z)


class MlpTop(LinearTop):
    """One hidden layer on the scaled vectors: linear, norm, activation, dropout."""

    def __init__(
        self,
        width: int,
        *,
        hidden: int,
        dropout: float = 0.0,
        principal: int = 0,
        norm: Callable[[int], nn.Module] = nn.LayerNorm,
        activation: Callable[[], nn.Module] = nn.GELU,
    ) -> None:
        super().__init__(width, principal=principal)
        self.linear = nn.Linear(self.num_features, hidden)
        self.num_features = hidden
        self.norm = norm(hidden)
        self.activation = activation()
        self.dropout = nn.Dropout(dropout)

    def forward(self, vectors: Tensor, midway: Midway | None = None) -> Tensor:
        """The hidden layer; `midway` acts on the scaled vectors that enter it."""
        hidden = self.norm(self.linear(super().forward(vectors, midway)))
        z: Tensor = self.dropout(self.activation(hidden))
        return z
