"""Rows of a batch that take a share of their neighbour's in a circle."""

from functools import lru_cache
from typing import Any, NamedTuple

import torch
from torch import Tensor

from interlude import distributed
from interlude.parts import layout


class Circle(NamedTuple):
    """Who stands beside whom: for each row its neighbour, and the row whose neighbour it is."""

    neighbour: Tensor
    of_whom: Tensor

    @classmethod
    def of(cls, places: Tensor, side: int) -> "Circle":
        """The rows stand in this order; the neighbour is the next one (`side` 1) or the previous (-1)."""
        at = places.argsort()
        return cls(places.roll(-side)[at], places.roll(side)[at])


def fuse(rows: Tensor, alpha: float, circle: Circle) -> Tensor:
    """Each row moved a share alpha towards its neighbour."""
    fused: Tensor = _Fusion.apply(rows, alpha, circle)  # type: ignore[no-untyped-call]
    return fused


def fuse_views(rows: Tensor, alpha: float, order: str, *, groups: int, mu: int, side: int) -> Tensor:
    """`fuse` the rows of x_weak, x_strong, u_weak, u_strong, which are one after the other, in a layout.

    The circle is that of the global batch, of which these rows are one process's.
    """
    if distributed.num_processes() == 1:
        return fuse(rows, alpha, _circle(order, groups, mu, side, rows.device))
    if layout.by_groups(order):  # these rows are a stretch of the circle: beyond it they need a single one
        places = layout.order(order, groups, mu).to(rows.device)
        begin, end = (places[:1], places[-1:])[::side]
        seam = distributed.from_neighbour(rows.index_select(0, begin), side)
        neighbour = Circle.of(places, side).neighbour.index_fill(0, end, len(rows))
        return torch.lerp(rows, _picked(torch.cat([rows, seam]), neighbour), alpha)
    sizes = layout.sizes(groups, mu)
    circle = _circle(order, distributed.count(groups), mu, side, rows.device)
    return distributed.own_of(fuse(distributed.join(rows.split(sizes)), alpha, circle), sizes)


@lru_cache(maxsize=16)
def _circle(order: str, groups: int, mu: int, side: int, device: torch.device) -> Circle:
    circle = Circle.of(layout.order(order, groups, mu), side)
    return Circle(*(rows.to(device) for rows in circle))


class _Fusion(torch.autograd.Function):
    """Its gradient is fusion with the row on the other side."""

    @staticmethod
    def forward(ctx: Any, rows: Tensor, alpha: float, circle: Circle) -> Tensor:
        ctx.alpha, ctx.circle = alpha, circle
        return torch.lerp(rows, _picked(rows, circle.neighbour), alpha)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        return fuse(gradient, ctx.alpha, Circle(*reversed(ctx.circle))), None, None


def _picked(rows: Tensor, which: Tensor) -> Tensor:
    """These of the rows, images in channels-last order if they are in it."""
    return rows.movedim(1, -1).index_select(0, which).movedim(-1, 1)
