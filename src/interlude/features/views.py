"""Realisations: an augmentation with its random numbers drawn once, to be applied to every image alike."""

from dataclasses import dataclass, fields, is_dataclass
from hashlib import blake2b
from itertools import combinations
from types import FunctionType
from typing import Any

import torch
from torch import Tensor

from interlude import rng
from interlude.augment import Augmentation, Draw, take

CANDIDATES = 256  # among which realisations are chosen; shares of a power of two are exact


@dataclass(frozen=True, eq=False)
class View:
    """One realisation of an augmentation, and the name under which its vectors are kept."""

    name: str
    augmentation: Augmentation
    draw: Draw  # of one row

    def draw_for(self, count: int) -> Draw:
        """The same numbers for so many images."""
        return {name: values.expand(count, *values.shape[1:]) for name, values in self.draw.items()}


def realisations(
    kind: str, augmentation: Augmentation, *, count: int, seed: int, shape: tuple[int, int, int]
) -> list[View]:
    """Up to `count` different realisations for images (C, H, W); the first ones do not depend on `count`.

    There are fewer where no more differ: one of what draws nothing, two of a mere flip. Those chosen, in this
    order, keep flips and operations as frequent as the augmentation has them, which so few would not be by
    chance.
    """
    text, probe = described(augmentation), _probe(shape)
    draw = augmentation.draw(CANDIDATES, rng.generator(seed, "features", kind))
    if not draw:
        return [View(_name(kind, 0, text), augmentation, draw)]
    traits = _traits(draw)
    surplus = torch.zeros_like(traits[0])  # of each trait among the chosen, beyond its share
    left = torch.ones(CANDIDATES, dtype=torch.bool)
    views: list[View] = []
    seen: list[Tensor] = []
    while len(views) < count and left.any():
        after = surplus + traits - traits.mean(0)
        number = int(after.square().sum(1).masked_fill(~left, torch.inf).argmin())
        left[number] = False
        own = take(draw, torch.tensor([number]))
        result = augmentation.apply(probe, own)
        if not any(torch.equal(result, other) for other in seen):
            seen.append(result)
            surplus = after[number]
            words = f"{text} of seed {seed}, number {number} of {CANDIDATES}"
            views.append(View(_name(kind, number, words), augmentation, own))
    return views


def described(value: Any) -> str:
    """An augmentation and all its settings in words that are the same in every process."""
    if is_dataclass(value) and not isinstance(value, type):
        parts = [f"{item.name}={described(getattr(value, item.name))}" for item in fields(value)]
    elif isinstance(value, tuple | list):
        parts = [described(item) for item in value]
    elif isinstance(value, FunctionType):
        return f"{value.__module__}.{value.__qualname__}"
    elif hasattr(value, "__dict__"):
        parts = [f"{name}={described(item)}" for name, item in sorted(vars(value).items())]
    else:
        return repr(value)
    return f"{type(value).__name__}({', '.join(parts)})"


def _probe(shape: tuple[int, int, int]) -> Tensor:
    """An image in which nearly every change shows."""
    generator = rng.generator(0, "probe")
    return torch.randint(256, (1, *shape), dtype=torch.uint8, generator=generator)


def _traits(draw: Draw) -> Tensor:
    """What can be counted of each row: its flags, any two together, the operations that it applies."""
    own = [values.reshape(CANDIDATES, -1) for values in draw.values() if values.dtype == torch.bool]
    flags = list(torch.cat(own, 1).double().unbind(1)) if own else []
    columns = flags + [one * other for one, other in combinations(flags, 2)]
    if "operation" in draw:
        used = torch.where(draw["applied"], draw["operation"], -1)
        columns += [(used == operation).double().sum(1) for operation in draw["operation"].unique()]
    return torch.stack(columns, 1) if columns else torch.zeros(CANDIDATES, 1, dtype=torch.float64)


def _name(kind: str, number: int, words: str) -> str:
    return f"{kind}-{number}-{blake2b(words.encode(), digest_size=8).hexdigest()}"
