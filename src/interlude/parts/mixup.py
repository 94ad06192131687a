"""Mixup: rows of a batch blended with rows of the same batch in another order."""

import torch
from torch import Tensor


def mixup_share(alpha: float, *, rows: int | None = None, like: Tensor) -> Tensor:
    """max(lambda, 1 - lambda) with lambda from Beta(alpha, alpha): one number, or one for each of `rows`."""
    beta = torch.distributions.Beta(alpha, alpha)
    share = beta.sample((rows,) if rows is not None else ())
    return torch.maximum(share, 1 - share).to(like)


def blend(rows: Tensor, order: Tensor, share: Tensor) -> Tensor:
    """`share * rows + (1 - share) * rows[order]`; a share per row is spread over the row."""
    share = share.view(-1, *[1] * (rows.ndim - 1)) if share.ndim else share
    return torch.lerp(rows[order], rows, share)
