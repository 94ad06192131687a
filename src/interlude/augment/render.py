"""Views as a network reads them, by torch or by compiled loops, which give the same bits."""

import importlib
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cache
from typing import Literal, Protocol

import torch
from torch import Tensor

from interlude.augment.draw import Augmentation, Draw, take
from interlude.augment.views import normalize
from interlude.errors import UserError

Backend = Literal["auto", "torch", "numba"]

WORTH_LOADING = (
    2**28
)  # values made by torch, in a second or so; numba takes as long to load, longer to compile


class Loops(Protocol):
    """Compiled loops: `render` for batches whose images share rows of a draw; None for what they cannot."""

    def __call__(
        self,
        batches: Sequence[Tensor],
        augmentation: Augmentation,
        draw: Draw,
        mean: Sequence[float],
        std: Sequence[float],
    ) -> list[Tensor] | None: ...


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
    views = _by_loops([images], augmentation, draw, mean, std, backend=backend)
    if views is None:
        return normalize(augmentation.apply(images, draw), mean, std, channels_last=True)
    return views[0]


def render_groups(
    x: Tensor,
    u: Tensor,
    augmentation: Augmentation,
    draw: Draw,
    mean: Sequence[float],
    std: Sequence[float],
    *,
    backend: Backend = "auto",
) -> tuple[Tensor, Tensor]:
    """`render` for groups, each an image of `x` and the next ones of `u`, that share a row of the draw."""
    views = _by_loops([x, u], augmentation, draw, mean, std, backend=backend)
    if views is not None:
        return views[0], views[1]
    groups, mu = len(x), len(u) // len(x)
    side_by_side = torch.cat([x[:, None], u.unflatten(0, (groups, mu))], dim=1).flatten(0, 1)
    pixels = augmentation.apply(side_by_side, take(draw, torch.arange(groups).repeat_interleave(1 + mu)))
    of_x, of_u = pixels.unflatten(0, (groups, 1 + mu)).split([1, mu], dim=1)
    return (
        normalize(of_x, mean, std, channels_last=True).flatten(0, 1),
        normalize(of_u, mean, std, channels_last=True).flatten(0, 1),
    )


def _by_loops(
    batches: Sequence[Tensor],
    augmentation: Augmentation,
    draw: Draw,
    mean: Sequence[float],
    std: Sequence[float],
    *,
    backend: Backend,
) -> list[Tensor] | None:
    """The views by compiled loops; None where they are not wanted, not there or not made for it."""
    if backend == "torch" or batches[0].device.type != "cpu":
        return None
    loops = loaded() if backend == "numba" else _arriving.loops(batches)
    return loops(batches, augmentation, draw, mean, std) if loops else None


def loaded() -> Loops:
    """The compiled loops; the first call may wait for a compiler."""
    loops = _loading().result()
    if loops is None:
        raise UserError(
            "the back end numba is not installed: pip install 'interlude-ssl[fast]', or choose auto"
        )
    return loops


class Arriving:
    """The compiled loops of those who do not wait for them."""

    def __init__(self) -> None:
        self.made = 0

    def loops(self, batches: Sequence[Tensor]) -> Loops | None:
        """The loops if they are there; sends for them once enough has been made without."""
        self.made += sum(images.numel() for images in batches)
        return _loading().result() if self.made > WORTH_LOADING and _loading().done() else None


_arriving = Arriving()


@cache
def _loading() -> Future[Loops | None]:
    """The loading of the loops, in a thread that the interpreter waits for when it ends."""
    pool = ThreadPoolExecutor(1, thread_name_prefix="compiler")
    future = pool.submit(_load)
    pool.shutdown(wait=False)
    return future


def _load() -> Loops | None:
    try:
        compiled = importlib.import_module("interlude.augment.compiled")
    except ImportError:  # not installed, or not with this version of numpy
        return None
    compiled.compile()
    loops: Loops = compiled.render
    return loops
