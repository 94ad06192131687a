"""Realisations: an augmentation with its random numbers drawn once, to be applied to every image alike."""

from dataclasses import dataclass, fields, is_dataclass
from hashlib import blake2b
from types import FunctionType
from typing import Any

import torch
from torch import Tensor

from interlude import rng
from interlude.augment import Augmentation, Draw

TRIES = 16  # per realisation wanted, before it is taken that there are no more different ones


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

    There are fewer where no more differ: one of what draws nothing, two of a mere flip.
    """
    text, probe = described(augmentation), _probe(shape)
    views: list[View] = []
    seen: list[Tensor] = []
    for number in range(count * TRIES):
        draw = augmentation.draw(1, rng.generator(seed, "features", kind, number))
        result = augmentation.apply(probe, draw)
        if not any(torch.equal(result, other) for other in seen):
            seen.append(result)
            words = f"{text} of seed {seed}, number {number}" if draw else text
            name = f"{kind}-{number}-{blake2b(words.encode(), digest_size=8).hexdigest()}"
            views.append(View(name, augmentation, draw))
        if len(views) == count or not draw:
            break
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
