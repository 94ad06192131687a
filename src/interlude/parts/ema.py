"""An exponential moving average of a network: parameters are averaged, buffers copied."""

import copy
from collections.abc import Iterable, Mapping
from typing import Any, Generic, TypeVar
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn

from interlude.models import Frozen

Network = TypeVar("Network", bound=nn.Module)


class Ema(nn.Module, Generic[Network]):
    """A second network that follows `model`; in evaluation mode, without gradients."""

    def __init__(self, model: Network, decay: float, *, warmup: bool = False) -> None:
        super().__init__()
        self.decay = decay
        self.warmup = warmup
        # what never moves is shared, not copied: it needs no memory and no time
        self.model = copy.deepcopy(model, fixed_tensors(model)).eval().requires_grad_(False)
        self.updates = 0  # a number, not a buffer: reading it must not wait for a GPU

    @torch.no_grad()
    def update(self, model: nn.Module) -> None:
        """Move towards `model`; with warm-up the factor is `min(decay, (1 + t) / (10 + t))`."""
        self.updates += 1
        t = self.updates
        decay = min(self.decay, (1 + t) / (10 + t)) if self.warmup else self.decay
        (weights, buffers), (new_weights, new_buffers) = tensors_of(self.model), tensors_of(model)
        torch._foreach_lerp_(weights, new_weights, 1 - decay)
        if buffers:
            torch._foreach_copy_(buffers, new_buffers)

    def get_extra_state(self) -> Tensor:
        """The count goes into the state dict."""
        return torch.tensor(self.updates)

    def set_extra_state(self, state: Tensor) -> None:
        """And comes back from it."""
        self.updates = int(state)


Places = list[tuple[Mapping[str, Any], str]]
_places: WeakKeyDictionary[nn.Module, tuple[Places, Places]] = WeakKeyDictionary()


def tensors_of(network: nn.Module) -> tuple[list[Tensor], list[Tensor]]:
    """The parameters and the buffers of a network that may move; its parts must stay as they are from now.

    Where its tensors are kept is found out once: to walk through a network takes as long as to average it.
    """
    if network not in _places:
        parts, fixed = list(network.modules()), fixed_tensors(network)
        _places[network] = (
            _distinct((part._parameters for part in parts), fixed),
            _distinct((part._buffers for part in parts), fixed),
        )
    parameters, buffers = _places[network]
    return [home[name] for home, name in parameters], [home[name] for home, name in buffers]


def fixed_tensors(network: nn.Module) -> dict[int, Tensor]:
    """The tensors of frozen networks in `network` that never move, by their identity."""
    frozen = [part for part in network.modules() if isinstance(part, Frozen)]
    return {id(x): x for part in frozen for x in part.fixed()}


def _distinct(homes: Iterable[Mapping[str, Any]], fixed: Mapping[int, Tensor]) -> Places:
    """A place of each tensor that is not fixed; one that two parts share has one place."""
    tensors = ((x, home, name) for home in homes for name, x in home.items() if x is not None)
    places = {id(x): (home, name) for x, home, name in tensors if id(x) not in fixed}
    return list(places.values())
