"""Per-row losses and targets that several methods share."""

import torch
import torch.nn.functional as F
from torch import Tensor


def cross_entropy(logits: Tensor, target: Tensor) -> Tensor:
    """Cross-entropy of each row (N,); `target` is a label (N,) or a distribution (N, K)."""
    return F.cross_entropy(logits, target, reduction="none")


def masked_mean(values: Tensor, mask: Tensor) -> Tensor:
    """Sum over the kept rows divided by the number of all rows, kept or not."""
    return (values * mask).mean()


def probabilities(logits: Tensor) -> Tensor:
    """Softmax as a target: no gradient flows back."""
    return torch.softmax(logits.detach(), dim=-1)
