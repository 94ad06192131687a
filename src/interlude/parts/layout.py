"""The order of the rows of a batch: how labeled and unlabeled views are interdigitated before fusion."""

import math

import torch
from torch import Tensor

LAYOUTS = ("low-i", "high-i1", "high-i2", "high-i3")


class Layout:
    """An order of the rows of `groups` labeled images with `mu` unlabeled ones each.

    Each of x_weak, x_strong, u_weak, u_strong is cut into the same number of chunks, and each chunk of rows
    holds one of every view: in this order, or with the middle two exchanged.
    """

    def __init__(self, layout: str, *, groups: int, mu: int) -> None:
        self.layout, self.groups, self.mu = layout, groups, mu
        # High-I1 works on chunks of several groups: the paper's 2(mu+1), or as many of them as divide B.
        self.chunks = {"low-i": 1, "high-i1": math.gcd(groups, 2 * (mu + 1))}.get(layout, groups)
        self.turn = (0, 2, 1, 3) if layout == "high-i3" else (0, 1, 2, 3)  # either is its own inverse
        sizes = (groups, groups, groups * mu, groups * mu)
        self.widths = [sizes[view] // self.chunks for view in self.turn]

    @property
    def by_groups(self) -> bool:
        """Whether the rows of a group, whatever the number of groups, stand together."""
        return self.layout in ("high-i2", "high-i3")

    def pack(self, *views: Tensor) -> Tensor:
        """The views x_weak, x_strong, u_weak, u_strong as one batch in this order, images channels-last."""
        blocks = [views[view].movedim(1, -1).unflatten(0, (self.chunks, -1)) for view in self.turn]
        return torch.cat(blocks, dim=1).flatten(0, 1).movedim(-1, 1)

    def unpack(self, rows: Tensor) -> tuple[Tensor, ...]:
        """Back to x_weak, x_strong, u_weak, u_strong."""
        blocks = rows.unflatten(0, (self.chunks, -1)).split(self.widths, dim=1)
        return tuple(blocks[view].flatten(0, 1) for view in self.turn)


def order(layout: str, groups: int, mu: int) -> Tensor:
    """Which view stands in each row, the views counted as in `cat([x_weak, x_strong, u_weak, u_strong])`."""
    rows = torch.arange(2 * groups * (1 + mu))[:, None]
    sizes = (groups, groups, groups * mu, groups * mu)
    return Layout(layout, groups=groups, mu=mu).pack(*rows.split(sizes)).flatten()
