"""How labeled and unlabeled rows are interdigitated: the order in which they stand in a circle for fusion."""

import math

import torch
from torch import Tensor

LAYOUTS = ("low-i", "high-i1", "high-i2", "high-i3")


def by_groups(layout: str) -> bool:
    """Whether the rows of a group, whatever the number of groups, stand together."""
    return layout in ("high-i2", "high-i3")


def sizes(groups: int, mu: int) -> tuple[int, int, int, int]:
    """How many rows x_weak, x_strong, u_weak and u_strong have, `mu` unlabeled images to a labeled one."""
    return groups, groups, groups * mu, groups * mu


def order(layout: str, groups: int, mu: int) -> Tensor:
    """Which row stands in each place, the rows counted through x_weak, x_strong, u_weak, u_strong.

    Each of these views is cut into the same number of chunks, and each stretch of places holds one of every
    view: in this order, or with the middle two exchanged.
    """
    # High-I1 works on chunks of several groups: the paper's 2(mu+1), or as many of them as divide B.
    chunks = {"low-i": 1, "high-i1": math.gcd(groups, 2 * (mu + 1))}.get(layout, groups)
    counted = torch.arange(2 * groups * (1 + mu)).split(sizes(groups, mu))
    x_weak, x_strong, u_weak, u_strong = (rows.view(chunks, -1) for rows in counted)
    middle = (u_weak, x_strong) if layout == "high-i3" else (x_strong, u_weak)
    return torch.cat([x_weak, *middle, u_strong], dim=1).flatten()
