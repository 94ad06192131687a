"""Mixup: rows of a batch blended with rows of the same batch in another order."""

from collections.abc import Sequence

import torch
from torch import Tensor

from interlude import distributed


def mixup_share(alpha: float, *, rows: int | None = None, like: Tensor) -> Tensor:
    """max(lambda, 1 - lambda) with lambda from Beta(alpha, alpha): one number, or one for each of `rows`."""
    beta = torch.distributions.Beta(alpha, alpha)
    share = beta.sample((rows,) if rows is not None else ())
    return torch.maximum(share, 1 - share).to(like)


def blend(views: Sequence[Tensor], order: Tensor, share: Tensor) -> Tensor:
    """`share * rows + (1 - share) * rows[order]` of views one after the other, for this process's rows.

    `order`, and `share` where there is one for each row, are of the views of the global batch.
    """
    sizes = [len(view) for view in views]
    whole = distributed.join(views)
    rows, partners = distributed.own_of(whole, sizes), whole[distributed.own_of(order, sizes)]
    if share.ndim:
        share = distributed.own_of(share, sizes).view(-1, *[1] * (rows.ndim - 1))
    return torch.lerp(partners, rows, share)
