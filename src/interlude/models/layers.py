"""What the convolutional networks of this package are made of, written to need few passes over memory.

On a CPU with numba (`interlude-ssl[fast]`) some layers are compiled loops. They give the same bits as torch's
own layers, so a run may go over to them at any step.
"""

from functools import partial
from types import ModuleType
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd import Function

from interlude.arrival import Arrival
from interlude.quickest import Quickest, Way

Backend = Literal["auto", "torch", "numba"]
SLOPE = 0.1  # of the leaky ReLU below zero

# In numbers that went through a layer without them: those of five to ten seconds on one core.
_arrival = Arrival("interlude.models.compiled", worth=2**30)
_backend: Backend = "auto"


def use(backend: Backend) -> None:
    """Which back end computes the layers of this process from now on; who insists on numba waits for it."""
    global _backend
    if backend == "numba":
        _arrival.wait()
    _backend = backend


def compiled_for(x: Tensor, arrival: Arrival | None = None) -> ModuleType | None:
    """Compiled layers, if they are there and wanted for such numbers; not while torch takes notes."""
    return None if is_recorded() else _compiled_for(x, arrival or _arrival)


def _compiled_for(x: Tensor, arrival: Arrival) -> ModuleType | None:
    if _backend == "torch" or not x.is_cpu:
        return None
    return arrival.wait() if _backend == "numba" else arrival.after(x.numel())


def activated(norm: nn.Module, x: Tensor) -> Tensor:
    """A leaky ReLU of `norm(x)`."""
    compiled = compiled_for(x)
    result: Tensor | None = compiled.activated(norm, x, SLOPE) if compiled else None
    # in place: the backward pass of a norm does not need its result
    return F.leaky_relu(norm(x), SLOPE, inplace=True) if result is None else result


def halved(x: Tensor) -> Tensor:
    """The largest of each 2x2 pixels; sides are rounded up, which keeps a 1x1 map alive."""
    compiled = compiled_for(x)
    result: Tensor | None = compiled.halved(x) if compiled else None
    return F.max_pool2d(x, 2, ceil_mode=True) if result is None else result


class Mover:
    """Moves numbers a share of the way towards others, each in one piece, as `old.lerp_(new, share)` does.

    Made once for many moves. A compiled loop, where there is one, is tried beside torch: which of them is
    quicker depends on the processor.
    """

    def __init__(self, old: Tensor, new: Tensor) -> None:
        self.old, self.new = old, new
        self._by_torch: Way = partial(old.lerp_, new)
        self._quickest: Quickest | None = None

    def __call__(self, share: float) -> None:
        if self._quickest is None:
            compiled = _compiled_for(self.old, _arrival)
            loop: Way | None = compiled.mover(self.old, self.new) if compiled else None
            self._quickest = Quickest(loop, self._by_torch) if loop else None
        if self._quickest is not None and share < 0.5:  # from there on torch begins at the other end
            self._quickest(share)
        else:
            self._by_torch(share)


def branched(x: Tensor, stride: int) -> tuple[Tensor, Tensor]:
    """Maps for a convolution with a stride, and every `stride`th pixel of them for a 1x1 one beside it.

    With a stride of its own such a convolution is as slow as if it saw every pixel, and its gradient slower.
    What takes the maps must make a gradient of its own for them, as any layer does: it grows in its place.
    """
    if stride == 1:
        return x, x
    if is_recorded() or not (torch.is_grad_enabled() and x.requires_grad):
        return x, x[:, :, ::stride, ::stride]
    result: tuple[Tensor, Tensor] = _Branched.apply(x, stride)  # type: ignore[no-untyped-call]
    return result


def is_recorded() -> bool:
    """Whether torch traces, exports, transforms or counts the network instead of just computing with it."""
    traced: bool = torch._C._get_tracing_state() is not None
    transformed: bool = torch._C._are_functorch_transforms_active()
    watched: bool = torch._C._len_torch_dispatch_stack() > 0  # by a mode, as one that counts FLOPs
    return traced or transformed or watched or torch.compiler.is_compiling()


class _Branched(Function):
    """The gradients meet at the pixels that were picked; that of a slice would be spread over maps first."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, stride: int) -> tuple[Tensor, Tensor]:
        channels_last = x.is_contiguous(memory_format=torch.channels_last)
        order = torch.channels_last if channels_last else torch.contiguous_format
        ctx.stride = stride
        return x, x[:, :, ::stride, ::stride].contiguous(memory_format=order)

    @staticmethod
    def backward(ctx: Any, dx: Tensor, picked: Tensor) -> tuple[Tensor, None]:
        if torch.is_grad_enabled():  # to be differentiated again
            dx = dx.clone()
        dx[:, :, :: ctx.stride, :: ctx.stride].add_(picked)
        return dx, None
