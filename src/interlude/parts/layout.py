"""The order of the rows of a batch: how labeled and unlabeled views are interdigitated before fusion."""

import math

import torch
from torch import Tensor

LAYOUTS = ("low-i", "high-i1", "high-i2", "high-i3")


def order(layout: str, groups: int, mu: int) -> Tensor:
    """Which view stands in each row, the views counted as in `cat([x_weak, x_strong, u_weak, u_strong])`."""
    x_weak = torch.arange(groups)
    x_strong = x_weak + groups
    u_weak = 2 * groups + torch.arange(groups * mu)
    u_strong = u_weak + groups * mu
    if layout == "low-i":
        return torch.cat([x_weak, x_strong, u_weak, u_strong])
    # High-I1 works on chunks of several groups: the paper's 2(mu+1), or as many of them as divide B.
    chunks = math.gcd(groups, 2 * (mu + 1)) if layout == "high-i1" else groups
    blocks = [view.view(chunks, -1) for view in (x_weak, x_strong, u_weak, u_strong)]
    if layout == "high-i3":
        blocks = [blocks[0], blocks[2], blocks[1], blocks[3]]
    return torch.cat(blocks, dim=1).flatten()


class Layout:
    """A permutation of rows for `groups` labeled images with `mu` unlabeled ones each."""

    def __init__(self, layout: str, *, groups: int, mu: int, device: torch.device) -> None:
        self.sizes = [groups, groups, groups * mu, groups * mu]
        self.order = order(layout, groups, mu).to(device)
        self.inverse = torch.empty_like(self.order)
        self.inverse[self.order] = torch.arange(len(self.order), device=device)

    def pack(self, *views: Tensor) -> Tensor:
        """The views x_weak, x_strong, u_weak, u_strong as one batch in this layout's order."""
        return torch.cat(views)[self.order]

    def unpack(self, rows: Tensor) -> tuple[Tensor, ...]:
        """Back to x_weak, x_strong, u_weak, u_strong."""
        return torch.split(rows[self.inverse], self.sizes)
