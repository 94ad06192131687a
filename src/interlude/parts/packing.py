"""The tensors of a network side by side in memory, so that one call moves them all."""

from collections.abc import Iterable, Mapping
from itertools import accumulate
from typing import Any
from weakref import WeakKeyDictionary, ref

import torch
from torch import Tensor, nn

from interlude.models import Frozen, Mover

ALIGNED = 64  # bytes; where torch lets a tensor of its own begin

Place = tuple[dict[str, Any], str]  # where a part of a network keeps a tensor, and its name there


class Addresses:
    """Where in memory some tensors are when this is made, and whether they still are.

    It is looked at with every average, of which it takes a tenth of the time.
    """

    def __init__(self, places: list[Place]) -> None:
        self._homes = [home for home, _ in places]
        self._names = [name for _, name in places]
        self._found = self._look()

    def hold(self) -> bool:
        """Whether every tensor is where it was."""
        return self._look() == self._found

    def _look(self) -> list[int]:
        """Where each tensor is; made of maps alone, which take half the time of a loop."""
        return list(map(Tensor.data_ptr, map(dict.__getitem__, self._homes, self._names)))


class Packed:
    """The parameters and buffers of a network that may move, each kind in as few pieces as it has types.

    The tensors stay the same objects and are views of the pieces. There are well over a hundred of them: to
    visit them one by one, even in one call, takes as long again as what is done to them.
    """

    def __init__(self, network: nn.Module) -> None:
        parts, fixed = list(network.modules()), fixed_tensors(network)
        parameters = _distinct((part._parameters for part in parts), fixed)
        buffers = _distinct((part._buffers for part in parts), fixed)
        self.parameters, self.buffers = _pack(parameters), _pack(buffers)
        self.places = parameters + buffers
        self._all, self._first = Addresses(self.places), Addresses(self.places[:1])

    def holds(self, *, owned: bool = False) -> bool:
        """Whether every tensor still is where it was put; if `owned`, one of them speaks for all."""
        return self._first.hold() if owned else self._all.hold()


_packed: WeakKeyDictionary[nn.Module, Packed] = WeakKeyDictionary()


def packed(network: nn.Module, *, owned: bool = False) -> Packed:
    """The pieces of a network, which keeps its parts from now on; new ones if a tensor has left them.

    `owned` says that nobody else exchanges single tensors of the network: they leave all at once, if at all.
    """
    found = _packed.get(network)
    if found is None or not found.holds(owned=owned):
        found = _packed[network] = Packed(network)
    return found


class Pair:
    """A network and one that follows it, both in pieces, made ready for many steps."""

    def __init__(self, follower: nn.Module, network: nn.Module) -> None:
        self.network = ref(network, self._let_go)
        mine, theirs = packed(follower, owned=True), packed(network)
        self.movers = list(map(Mover, mine.parameters, theirs.parameters))
        self.buffers = list(zip(mine.buffers, theirs.buffers, strict=True))
        self.addresses = Addresses(mine.places[:1] + theirs.places)

    def holds(self, network: nn.Module) -> bool:
        """Whether it is this network that is followed, and all tensors are where they were."""
        return self.network() is network and self.addresses.hold()

    def follow(self, share: float) -> None:
        """Parameters move a share of the way, buffers all of it."""
        for move in self.movers:
            move(share)
        for old, new in self.buffers:
            old.copy_(new)

    def _let_go(self, network: object) -> None:
        """The network is gone, and so should its weights be."""
        self.movers.clear()
        self.buffers.clear()
        del self.addresses

    def __deepcopy__(self, memo: dict[int, Any]) -> None:
        """Copies of networks have tensors of their own, and are no pair yet."""

    def __reduce__(self) -> tuple[Any, ...]:
        """Nor are those that are stored."""
        return type(None), ()


def fixed_tensors(network: nn.Module) -> dict[int, Tensor]:
    """The tensors of frozen networks in `network` that never move, by their identity."""
    frozen = [part for part in network.modules() if isinstance(part, Frozen)]
    return {id(x): x for part in frozen for x in part.fixed()}


def _distinct(homes: Iterable[dict[str, Any]], fixed: Mapping[int, Tensor]) -> list[Place]:
    """A place of each tensor that is not fixed; one that two parts share has one place."""
    tensors = ((x, home, name) for home in homes for name, x in home.items() if x is not None)
    places = {id(x): (home, name) for x, home, name in tensors if id(x) not in fixed}
    return list(places.values())


def _pack(places: list[Place]) -> list[Tensor]:
    """Move the tensors into one piece of memory for each type and device; the pieces."""
    alike: dict[tuple[torch.dtype, torch.device], list[Tensor]] = {}
    for x in (home[name] for home, name in places):
        alike.setdefault((x.dtype, x.device), []).append(x)
    return [_in_one_piece(tensors) for tensors in alike.values()]


@torch.no_grad()
def _in_one_piece(tensors: list[Tensor]) -> Tensor:
    unit = ALIGNED // tensors[0].element_size()
    *starts, length = accumulate((-(-x.numel() // unit) * unit for x in tensors), initial=0)
    piece = torch.zeros(length, dtype=tensors[0].dtype, device=tensors[0].device)
    for x, start in zip(tensors, starts, strict=True):
        strides = torch.empty_like(x, device="meta").stride()  # of its order of axes, without gaps
        x.data = piece.as_strided(x.shape, strides, start).copy_(x)
    return piece
