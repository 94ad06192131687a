"""Rules that turn predictions into targets; none of them lets a gradient through."""

import torch
import torch.nn.functional as F
from torch import Tensor


def one_hot(label: Tensor, like: Tensor) -> Tensor:
    """Labels as 0/1 rows with the width and type of `like` (N, K)."""
    return F.one_hot(label, like.shape[-1]).to(like.dtype)


def normalize(weights: Tensor) -> Tensor:
    """Scale non-negative weights to sum 1 along the last axis; all zeros stay zeros."""
    return weights / weights.sum(-1, keepdim=True).clamp_min(torch.finfo(weights.dtype).tiny)


def sharpen(q: Tensor, temperature: float) -> Tensor:
    """Each row to the power 1/T, normalised: T below 1 makes it more certain."""
    return normalize(q.detach() ** (1 / temperature))


def align(q: Tensor, prior: Tensor, target: Tensor | float) -> Tensor:
    """Distribution alignment: scale each class by target over prior, and renormalise."""
    return normalize(q.detach() * (target + 1e-6) / (prior + 1e-6))
