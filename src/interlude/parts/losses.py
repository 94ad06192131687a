"""Per-row losses and targets that several methods share."""

import torch.nn.functional as F
from torch import Tensor

FEW = 16  # numbers in a vector: rows that are shorter torch takes number by number, columns never


def softmax(logits: Tensor) -> Tensor:
    """Softmax of each row (N, K)."""
    return logits.t().softmax(0).t().contiguous() if _has_few(logits) else logits.softmax(-1)


def cross_entropy(logits: Tensor, target: Tensor) -> Tensor:
    """Cross-entropy of each row (N,); `target` is a label (N,) or a distribution (N, K)."""
    if not _has_few(logits):
        return F.cross_entropy(logits, target, reduction="none")
    log_p = logits.t().log_softmax(0).t()
    return -(target * log_p).sum(-1) if target.ndim == 2 else F.nll_loss(log_p, target, reduction="none")


def masked_mean(values: Tensor, mask: Tensor) -> Tensor:
    """Sum over the kept rows divided by the number of all rows, kept or not."""
    return (values * mask).mean()


def probabilities(logits: Tensor) -> Tensor:
    """Softmax as a target: no gradient flows back."""
    return softmax(logits.detach())


def _has_few(logits: Tensor) -> bool:
    """Whether there are so few classes that it is several times faster to go through rows in parallel."""
    return logits.shape[-1] < FEW and logits.ndim == 2 and logits.device.type == "cpu"
