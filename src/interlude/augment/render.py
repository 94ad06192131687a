"""Views as a network reads them, by torch or by compiled loops, which give the same bits."""

from collections.abc import Callable, Sequence
from typing import Literal, Protocol

import torch
from torch import Tensor

from interlude.arrival import Arrival
from interlude.augment.draw import Augmentation, Draw
from interlude.augment.groups import Groups, views_of
from interlude.augment.views import normalize

Backend = Literal["auto", "torch", "numba"]
Ready = Callable[[], list[Tensor]]  # gives the views of each batch

# In values made by torch: those of a second or so. Numba takes as long to load, longer to compile.
_arrival = Arrival("interlude.augment.compiled", worth=2**28)


class Loops(Protocol):
    """Compiled loops, ready for batches whose images share rows of a draw; None for what they cannot."""

    def __call__(
        self,
        batches: Sequence[Tensor],
        augmentation: Augmentation,
        draw: Draw,
        mean: Sequence[float],
        std: Sequence[float],
    ) -> Ready | None: ...


def render(
    images: Tensor,
    augmentation: Augmentation,
    draw: Draw,
    mean: Sequence[float],
    std: Sequence[float],
    *,
    backend: Backend = "auto",
) -> Tensor:
    """Augmented and normalised views, float32 channels-last (N, C, H, W), of uint8 images (N, C, H, W).

    `auto` begins with torch and, on a CPU with numba, goes over to compiled loops once they are worth their
    loading, for which it does not wait; `numba` waits. What the loops are not made for is left to torch.
    """
    loops = _loops([images], augmentation, draw, mean, std, backend=backend)
    if loops is not None:
        return loops()[0]
    with torch.inference_mode():  # hundreds of small steps, each a little shorter without bookkeeping
        pixels = augmentation.apply(images, draw)
    return normalize(pixels, mean, std, channels_last=True)


def render_groups(
    x: Tensor,
    u: Tensor,
    augmentations: Sequence[Augmentation],
    draws: Sequence[Draw],
    mean: Sequence[float],
    std: Sequence[float],
    *,
    backend: Backend = "auto",
) -> list[tuple[Tensor, Tensor]]:
    """`render` by each augmentation for groups, an image of `x` and the next of `u`, that share its draws."""
    each = list(zip(augmentations, draws, strict=True))
    # All small work first: after the pixels of other views, its code would no longer be in the cache.
    ready = [_loops([x, u], *one, mean, std, backend=backend) for one in each]
    views = [loops() if loops else None for loops in ready]
    if not all(views):
        mine = u.unflatten(0, (len(x), len(u) // len(x)))
        groups = Groups(torch.cat([x[:, None], mine], dim=1))
        views = [done or _of_groups(groups, *one, mean, std) for done, one in zip(views, each, strict=True)]
    return [(of_x, of_u) for of_x, of_u in filter(None, views)]


def _of_groups(
    groups: Groups, augmentation: Augmentation, draw: Draw, mean: Sequence[float], std: Sequence[float]
) -> list[Tensor]:
    """The views of the first image of each group, and those of the others, by torch."""
    with torch.inference_mode():
        pixels = views_of(augmentation, groups, draw)
    parts = pixels[:, :1], pixels[:, 1:]
    return [normalize(part, mean, std, channels_last=True).flatten(0, 1) for part in parts]


def _loops(
    batches: Sequence[Tensor],
    augmentation: Augmentation,
    draw: Draw,
    mean: Sequence[float],
    std: Sequence[float],
    *,
    backend: Backend,
) -> Ready | None:
    """Compiled loops, ready to run; None where they are not wanted, not there or not made for it."""
    if backend == "torch" or batches[0].device.type != "cpu":
        return None
    if backend == "numba":
        return loaded()(batches, augmentation, draw, mean, std)
    compiled = _arrival.after(sum(images.numel() for images in batches))
    return compiled.prepare(batches, augmentation, draw, mean, std) if compiled else None


def loaded() -> Loops:
    """The compiled loops; the first call may wait for a compiler."""
    loops: Loops = _arrival.wait().prepare
    return loops
