"""Dropout and drop path whose chances, with many processes, are drawn for the rows of all of them.

Each process keeps the chances of its own rows, so that a row meets the same ones however many there are.
"""

from torch import Tensor, nn

from interlude import distributed


class RowDropout(nn.Dropout):
    """Dropout on rows, which are along the axis `dim`."""

    dim = 0

    def __init__(self, p: float, dim: int = 0) -> None:
        super().__init__(p)
        self.dim = dim

    def forward(self, x: Tensor) -> Tensor:
        if distributed.num_processes() == 1 or not (self.training and self.p):
            return super().forward(x)
        kept = distributed.like_all(x, self.dim).bernoulli_(1 - self.p)
        return x * distributed.own_in_pass(kept, self.dim).div(1 - self.p)


class RowDropPath(nn.Module):
    """Drop path, which leaves out whole rows: what timm's `DropPath` becomes."""

    drop_prob: float
    scale_by_keep: bool

    def forward(self, x: Tensor) -> Tensor:
        if not (self.training and self.drop_prob):
            return x
        keep = 1 - self.drop_prob
        kept = x.new_empty(distributed.count(len(x)), *[1] * (x.ndim - 1)).bernoulli_(keep)
        if keep > 0 and self.scale_by_keep:
            kept.div_(keep)
        return x * distributed.own_in_pass(kept)


def draw_for_all(network: nn.Module) -> None:
    """Let the random layers of a network draw for the rows of all processes, if there are many."""
    if distributed.num_processes() == 1:
        return
    for part in network.modules():
        if type(part) is nn.Dropout:
            part.__class__ = RowDropout
        elif type(part).__name__ == "DropPath":
            part.__class__ = RowDropPath
