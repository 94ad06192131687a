"""Views as a network reads them, by torch or by compiled loops, which give the same bits."""

from collections.abc import Callable, Sequence
from typing import Literal, Protocol

import torch
from torch import Tensor

from interlude.adjacent import room
from interlude.arrival import Arrival
from interlude.augment.draw import Augmentation, Draw
from interlude.augment.groups import Groups, views_of
from interlude.augment.views import normalize_into

Backend = Literal["auto", "torch", "numba"]
Ready = Callable[[], None]  # writes the views of each batch

# In values made by torch: those of a second or so. Numba takes as long to load, longer to compile.
_arrival = Arrival("interlude.augment.compiled", worth=2**28)


class Loops(Protocol):
    """Compiled loops, ready for batches whose images share rows of a draw; None for what they cannot."""

    def __call__(
        self,
        batches: Sequence[Tensor],
        places: Sequence[Tensor],
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
    place = room(1, *images.shape, device=images.device)
    render_into(place, images, augmentation, draw, mean, std, backend=backend)
    return place[0]


def render_into(
    place: Tensor,
    images: Tensor,
    augmentation: Augmentation,
    draw: Draw,
    mean: Sequence[float],
    std: Sequence[float],
    *,
    backend: Backend = "auto",
) -> None:
    """Write what `render` gives into a place (steps, n, C, H, W) for images of one step after the other."""
    loops = _loops([images], [place], augmentation, draw, mean, std, backend=backend)
    if loops is not None:
        loops()
        return
    with torch.inference_mode():  # hundreds of small steps, each a little shorter without bookkeeping
        pixels = augmentation.apply(images, draw)
    normalize_into(place, pixels.unflatten(0, place.shape[:2]), mean, std)


def render_groups_into(
    places: Sequence[tuple[Tensor, Tensor]],
    x: Tensor,
    u: Tensor,
    augmentations: Sequence[Augmentation],
    draws: Sequence[Draw],
    mean: Sequence[float],
    std: Sequence[float],
    *,
    backend: Backend = "auto",
) -> None:
    """Likewise by each augmentation for groups, an image of `x` and the next of `u`, that share its draws."""
    views = list(zip(places, augmentations, draws, strict=True))
    # All small work first: after the pixels of other views, its code would no longer be in the cache.
    ready = [
        _loops([x, u], place, augmentation, draw, mean, std, backend=backend)
        for place, augmentation, draw in views
    ]
    for write in filter(None, ready):
        write()
    if all(ready):
        return
    groups = Groups(torch.cat([x[:, None], u.unflatten(0, (len(x), len(u) // len(x)))], dim=1))
    for loops, (place, augmentation, draw) in zip(ready, views, strict=True):
        if loops is None:
            _of_groups(place, groups, augmentation, draw, mean, std)


def _of_groups(
    places: tuple[Tensor, Tensor],
    groups: Groups,
    augmentation: Augmentation,
    draw: Draw,
    mean: Sequence[float],
    std: Sequence[float],
) -> None:
    """The views of the first image of each group, and those of the others, by torch."""
    with torch.inference_mode():
        pixels = views_of(augmentation, groups, draw)
    for place, part in zip(places, (pixels[:, :1], pixels[:, 1:]), strict=True):
        by_step = part.unflatten(0, (len(place), -1))
        normalize_into(place.unflatten(1, by_step.shape[1:3]), by_step, mean, std)


def _loops(
    batches: Sequence[Tensor],
    places: Sequence[Tensor],
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
        return loaded()(batches, places, augmentation, draw, mean, std)
    compiled = _arrival.after(sum(images.numel() for images in batches))
    return compiled.prepare(batches, places, augmentation, draw, mean, std) if compiled else None


def loaded() -> Loops:
    """The compiled loops; the first call may wait for a compiler."""
    loops: Loops = _arrival.wait().prepare
    return loops
