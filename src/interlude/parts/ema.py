"""An exponential moving average of a network: parameters are averaged, buffers copied."""

import copy
from typing import Generic, TypeVar

import torch
from torch import Tensor, nn

from interlude.parts.packing import Pair, fixed_tensors

Network = TypeVar("Network", bound=nn.Module)


class Ema(nn.Module, Generic[Network]):
    """A second network that follows `model`; in evaluation mode, without gradients."""

    def __init__(self, model: Network, decay: float, *, warmup: bool = False) -> None:
        super().__init__()
        self.decay = decay
        self.warmup = warmup
        # what never moves is shared, not copied: it needs no memory and no time
        self.model = copy.deepcopy(model, fixed_tensors(model)).eval().requires_grad_(False)
        self._pair: Pair | None = None
        self.updates = 0  # a number, not a buffer: reading it must not wait for a GPU

    def update(self, model: nn.Module) -> None:
        """Move towards `model`; with warm-up the factor is `min(decay, (1 + t) / (10 + t))`."""
        t = self.__dict__["updates"] = self.updates + 1  # an nn.Module takes microseconds to set a number
        decay = min(self.decay, (1 + t) / (10 + t)) if self.warmup else self.decay
        if self._pair is None or not self._pair.holds(model):
            self._pair = Pair(self.model, model)
        self._pair.follow(1 - decay)

    def get_extra_state(self) -> Tensor:
        """The count goes into the state dict."""
        return torch.tensor(self.updates)

    def set_extra_state(self, state: Tensor) -> None:
        """And comes back from it."""
        self.updates = int(state)
