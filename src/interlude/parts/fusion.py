"""Rows of a batch that take a share of their neighbour's."""

from typing import Any

import torch
from torch import Tensor

from interlude import distributed
from interlude.parts.layout import Layout


def fuse(rows: Tensor, alpha: float, *, neighbour: int) -> Tensor:
    """Each row moved a share alpha towards the next (`neighbour` 1) or the previous (-1), in a circle."""
    fused: Tensor = _Fusion.apply(rows, alpha, neighbour)  # type: ignore[no-untyped-call]
    return fused


def fuse_all(rows: Tensor, alpha: float, *, neighbour: int, layout: Layout) -> Tensor:
    """The same in the circle of the global batch, of which these rows are one process's, in its layout."""
    if distributed.num_processes() == 1:
        return fuse(rows, alpha, neighbour=neighbour)
    if layout.by_groups:  # these rows are a stretch of the circle: beyond it they need a single one
        seam = distributed.from_neighbour(rows[:1] if neighbour == 1 else rows[-1:], neighbour)
        others = [rows[1:], seam] if neighbour == 1 else [seam, rows[:-1]]
        return torch.lerp(rows, torch.cat(others), alpha)
    whole = Layout(layout.layout, groups=distributed.count(layout.groups), mu=layout.mu)
    circle = whole.pack(*[distributed.gather(view) for view in layout.unpack(rows)])
    fused = whole.unpack(fuse(circle, alpha, neighbour=neighbour))
    return layout.pack(*[distributed.own(view) for view in fused])


class _Fusion(torch.autograd.Function):
    """Its gradient is fusion with the opposite neighbour: one pass over the rows each way, and no copies."""

    @staticmethod
    def forward(ctx: Any, rows: Tensor, alpha: float, neighbour: int) -> Tensor:
        ctx.alpha, ctx.neighbour = alpha, neighbour
        fused = torch.empty_like(rows)
        early, late = (slice(-1), slice(-1, None)), (slice(1, None), slice(1))  # the circle, cut at its seam
        here, there = (early, late) if neighbour == 1 else (late, early)
        for mine, theirs in zip(here, there, strict=True):
            torch.lerp(rows[mine], rows[theirs], alpha, out=fused[mine])
        return fused

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        return fuse(gradient, ctx.alpha, neighbour=-ctx.neighbour), None, None
