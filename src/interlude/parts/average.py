"""A running average of a batch statistic, kept as a buffer and taken over the global batch."""

import torch
from torch import Tensor, nn

from interlude import distributed


class Average(nn.Module):
    """`value <- decay * value + (1 - decay) * new`, starting from `start`, or from the first new value."""

    value: Tensor
    seen: Tensor | None

    def __init__(self, start: Tensor, decay: float, *, from_first: bool = False) -> None:
        super().__init__()
        self.decay = decay
        self.register_buffer(
            "value", start.detach().clone()
        )  # a clone: two averages may start from one tensor
        self.register_buffer("seen", torch.tensor(False) if from_first else None)

    @torch.no_grad()
    def update(self, new: Tensor) -> Tensor:
        """Take in this process's statistic of the batch; returns the moved average."""
        new = distributed.mean(new).to(self.value.dtype)
        moved = self.value * self.decay + new * (1 - self.decay)
        if self.seen is not None:
            moved = torch.where(self.seen, moved, new)
            self.seen.fill_(True)
        return self.value.copy_(moved)
