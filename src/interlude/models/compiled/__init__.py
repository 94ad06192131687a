"""Layers in compiled loops, same bits as with torch: for a CPU with numba (`interlude-ssl[fast]`)."""

import ctypes
import sys
from collections.abc import Callable
from functools import cache, partial
from typing import Any, TypeGuard

import numba
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd import Function

from interlude.loops import Array
from interlude.models.compiled import kernels
from interlude.registers import LANES

OTHER_BITS = "the compiled loops do not give the bits of this version of torch; choose auto or torch"
FEWEST = 2**16  # numbers: with fewer, torch is done before the loops have been called


def activated(norm: nn.Module, x: Tensor, slope: float) -> Tensor | None:
    """`leaky_relu(norm(x), slope)`; None where the loops cannot."""
    if not (takes(x) and is_plain(norm)):
        return None
    if norm.training:
        if norm.num_batches_tracked is not None:
            norm.num_batches_tracked.add_(1)
        return _activated(x, norm, slope)
    if torch.is_grad_enabled() and (x.requires_grad or norm.weight.requires_grad):
        return None
    y = torch.empty_like(x)
    kernels.rescale(rows(x), numbers_of(norm, slope), threads(), rows(y))
    return y


def halved(x: Tensor) -> Tensor | None:
    """`max_pool2d(x, 2)` of maps with even sides; None where the loops cannot."""
    if not takes(x) or x.shape[2] % 2 or x.shape[3] % 2:
        return None
    return _halved(x)


def pool(x: Tensor, y: Tensor) -> Tensor:
    """Write the largest of each 2x2 pixels into `y`; which of the four they are."""
    which = torch.empty_like(y, dtype=torch.uint8)
    kernels.pool(maps(x), threads(), maps(y), maps(which))
    return which


def unpool(dy: Tensor, which: Tensor, dx: Tensor) -> None:
    """Write the gradient of the maps that `pool` halved into `dx`."""
    kernels.unpool(maps(dy), maps(which), threads(), maps(dx))


def mover(old: Tensor, new: Tensor) -> Callable[[float], None] | None:
    """A loop that does as `old.lerp_(new, share)` for shares below a half; None if torch should."""
    if old.dtype != torch.float32 or len(old) % LANES or torch.get_num_threads() > 1 or not moves_as_torch():
        return None
    return partial(kernels.move_towards, old.numpy(), new.numpy())


@cache
def moves_as_torch() -> bool:
    """Whether the loop gives torch's bits, found out by trying."""
    generator = torch.Generator().manual_seed(0)
    old, new = torch.randn(2, 64 * LANES, generator=generator)
    wanted = old.lerp(new, 0.1)
    kernels.move_towards(old.numpy(), new.numpy(), 0.1)
    return torch.equal(old, wanted)


def takes(x: Tensor) -> bool:
    """Whether maps are such that the loops know how torch would compute with them."""
    return (
        x.dtype == torch.float32
        and x.device.type == "cpu"
        and _is_channels_last(x)
        and x.numel() > max(FEWEST, x.shape[1] * torch.get_num_threads())
        and not torch.is_autocast_enabled("cpu")
        and can_share_out()
        and agrees(x.shape[1], torch.get_num_threads())
    )


def can_share_out() -> bool:
    """Whether as many threads as torch has can take part.

    Torch's threads go on turning for a while when their work is done. Others beside them would wait for a
    core, so the loops have more than one thread only where it is torch's own they are run by.
    """
    threads = torch.get_num_threads()
    return threads == 1 or (threads <= numba.config.NUMBA_NUM_THREADS and _share_an_openmp())


@cache
def agrees(channels: int, threads: int) -> bool:
    """Whether the loops give torch's bits for maps of so many channels, found out by trying.

    They do if it is a multiple of what torch takes at once; what is left over torch rounds in another way.
    """
    with torch.inference_mode(mode=False), torch.enable_grad():
        both = (_tried(channels, loops=loops) for loops in (True, False))
        return all(map(torch.equal, *both))


def rows(x: Tensor) -> Array:
    """The pixels of channels-last maps, one below the other; no copy."""
    return array(x.permute(0, 2, 3, 1).flatten(0, 2))


def numbers_of(norm: nn.BatchNorm2d, slope: float) -> kernels.Norm:
    """A norm and the activation behind it, as the loops know them."""
    assert norm.running_mean is not None
    assert norm.running_var is not None
    assert norm.momentum is not None
    return kernels.Norm(
        weight=array(norm.weight),
        bias=array(norm.bias),
        mean=array(norm.running_mean),
        variance=array(norm.running_var),
        momentum=float(norm.momentum),
        eps=norm.eps,
        slope=slope,
    )


class _Activated(Function):
    """The gradient goes through norm and activation at once, and needs only what entered the norm."""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, weight: Tensor, bias: Tensor, norm: nn.BatchNorm2d, slope: float
    ) -> Tensor:
        y = torch.empty_like(x)
        ctx.norm = numbers_of(norm, slope)
        ctx.known = kernels.normalize(rows(x), ctx.norm, threads(), rows(y))
        ctx.save_for_backward(x, weight, bias)
        return y

    @staticmethod
    def backward(ctx: Any, dy: Tensor) -> tuple[Tensor | None, ...]:
        x, weight, bias = ctx.saved_tensors
        if torch.is_grad_enabled() or not _is_channels_last(dy):
            return (*_differentiated(x, weight, bias, dy, ctx.norm.eps, ctx.norm.slope), None, None)
        dx, dw, db = torch.empty_like(x), torch.empty_like(weight), torch.empty_like(bias)
        of_weights = array(dw), array(db)
        kernels.differentiate(rows(x), rows(dy), ctx.norm, ctx.known, threads(), rows(dx), *of_weights)
        return dx, dw, db, None, None


class _Halved(Function):
    """Keeps a byte for each pixel of the result, where torch keeps what entered and eight bytes."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        count, channels, height, width = x.shape
        y = torch.empty(count, channels, height // 2, width // 2, memory_format=torch.channels_last)
        ctx.which = pool(x, y)
        return y

    @staticmethod
    def backward(ctx: Any, dy: Tensor) -> Tensor:
        count, channels, height, width = dy.shape
        if torch.is_grad_enabled() or not _is_channels_last(dy):
            four = torch.stack([torch.where(ctx.which == found, dy, 0.0) for found in range(4)])
            lines = four.view(2, 2, *dy.shape).permute(2, 3, 4, 0, 5, 1)
            return lines.reshape(count, channels, 2 * height, 2 * width)
        dx = torch.empty(count, channels, 2 * height, 2 * width, memory_format=torch.channels_last)
        unpool(dy, ctx.which, dx)
        return dx


def _activated(x: Tensor, norm: nn.BatchNorm2d, slope: float) -> Tensor:
    result: Tensor = _Activated.apply(x, norm.weight, norm.bias, norm, slope)  # type: ignore[no-untyped-call]
    return result


def _halved(x: Tensor) -> Tensor:
    result: Tensor = _Halved.apply(x)  # type: ignore[no-untyped-call]
    return result


def _differentiated(
    x: Tensor, weight: Tensor, bias: Tensor, dy: Tensor, eps: float, slope: float
) -> tuple[Tensor, ...]:
    """The gradients by torch, which can be differentiated again."""
    again = torch.is_grad_enabled()
    with torch.enable_grad():
        x, weight, bias = (
            value if again and value.requires_grad else value.detach().requires_grad_()
            for value in (x, weight, bias)
        )
        y = F.leaky_relu(F.batch_norm(x, None, None, weight, bias, training=True, eps=eps), slope)
        return torch.autograd.grad(y, (x, weight, bias), dy, create_graph=again)


def is_plain(norm: nn.Module) -> TypeGuard[nn.BatchNorm2d]:
    """Whether a norm is torch's own, with all its parts, and nobody listens to it."""
    return (
        type(norm) is nn.BatchNorm2d
        and norm.affine
        and norm.running_mean is not None
        and norm.weight.dtype == norm.running_mean.dtype == torch.float32
        and norm.momentum is not None
        and norm.eps > 0
        and not (norm._forward_hooks or norm._forward_pre_hooks or norm._backward_hooks)
    )


def _is_channels_last(x: Tensor) -> bool:
    """Whether maps are in that order and no other: where one axis is 1, torch takes the other for granted."""
    return x.ndim == 4 and x.is_contiguous(memory_format=torch.channels_last) and not x.is_contiguous()


def maps(x: Tensor) -> Array:
    """Channels-last maps (N, C, H, W) as (N, H, W, C); no copy."""
    return array(x.permute(0, 2, 3, 1))


def array(x: Tensor) -> Array:
    numbers: Array = x.detach().numpy()
    return numbers


def threads() -> int:
    """In how many stretches the rows are cut: as many as torch has threads, numba too if it may."""
    number = torch.get_num_threads()
    numba.set_num_threads(min(number, numba.config.NUMBA_NUM_THREADS))
    return number


@cache
def _share_an_openmp() -> bool:
    """Whether an OpenMP library, torch's, is there for all: then it is what runs numba's loops as well."""
    if sys.platform != "linux" or numba.threading_layer() != "omp":
        return False
    return hasattr(ctypes.CDLL(None), "GOMP_parallel")


def compile() -> str | None:
    """Compile the loops, or load what an earlier process compiled; what is wrong with them, if anything."""
    start_threads()
    moves_as_torch()
    if agrees(16, torch.get_num_threads()):
        return None
    return OTHER_BITS


def start_threads() -> None:
    """Let numba start its threads, by torch's library and without taking its number of threads from it."""
    numba.config.THREADING_LAYER = "omp"
    threads = torch.get_num_threads()
    numba.get_num_threads()
    torch.set_num_threads(threads)


def _tried(channels: int, *, loops: bool) -> list[Tensor]:
    """What becomes of some random maps, forwards and backwards."""
    generator = torch.Generator().manual_seed(channels)
    norm = nn.BatchNorm2d(channels, momentum=0.3)
    with torch.no_grad():
        for values in (norm.weight, norm.bias):
            values.copy_(torch.randn(channels, generator=generator))
    maps = torch.randn(7, channels, 8, 10, generator=generator)
    x = maps.to(memory_format=torch.channels_last).requires_grad_()
    y = _activated(x, norm, 0.1) if loops else F.leaky_relu(norm(x), 0.1)
    z = _halved(y) if loops else F.max_pool2d(y, 2)
    z.backward(z.detach().sin())
    found = y, z, x.grad, norm.weight.grad, norm.bias.grad, norm.running_mean, norm.running_var
    return [values for values in found if values is not None]
