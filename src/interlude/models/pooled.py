"""A convolution and the pool behind it, some images at a time.

The maps between the two are four times as large as what the pool leaves of them, and larger than a cache.
Those of some images stay in it, on the way there as on the way back.
"""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd import Function

from interlude.models.layers import compiled_for, halved, is_recorded

BYTES_AT_ONCE = 2**21  # of maps, for each thread
ONE, TWO, NONE = [1, 1], [2, 2], [0, 0]


def halved_convolution(layer: nn.Conv2d, x: Tensor) -> Tensor:
    """`halved(layer(x))`, the same numbers; gradients of weights are added up in another order."""
    # Nothing may look at the number of images of a network that is recorded: it would be fixed in the record.
    if not _pays(layer, x) or len(x) <= images_at_once(layer, x):
        return halved(layer(x))
    result: Tensor = _HalvedConvolution.apply(  # type: ignore[no-untyped-call]
        x, layer.weight, images_at_once(layer, x)
    )
    return result


def images_at_once(layer: nn.Conv2d, x: Tensor) -> int:
    """Of how many images the maps of a convolution fill a cache."""
    each = x.element_size() * layer.out_channels * x.shape[2] * x.shape[3]
    return max(1, BYTES_AT_ONCE * torch.get_num_threads() // each)


def pool(x: Tensor, y: Tensor) -> Tensor:
    """Write the halved maps into `y`; which pixels they are, for `unpool`."""
    values, which = F.max_pool2d(x, 2, return_indices=True)
    y.copy_(values)
    return which


def unpool(dy: Tensor, which: Tensor, dx: Tensor) -> None:
    """Write the gradient of the maps that `pool` halved into `dx`."""
    dx.copy_(torch.ops.aten.max_pool2d_with_indices_backward(dy, dx, TWO, TWO, NONE, ONE, False, which))


def _pays(layer: nn.Conv2d, x: Tensor) -> bool:
    """Whether there is a gradient to come, and layer and maps are of the usual kind."""
    return (
        not is_recorded()
        and torch.is_grad_enabled()
        and (x.requires_grad or layer.weight.requires_grad)
        and type(layer) is nn.Conv2d
        and layer.bias is None
        and (layer.kernel_size, layer.stride, layer.padding, layer.groups) == ((3, 3), (1, 1), (1, 1), 1)
        and not (layer._forward_hooks or layer._forward_pre_hooks or layer._backward_hooks)
        and x.shape[2] % 2 == x.shape[3] % 2 == 0
        and x.dtype == layer.weight.dtype == torch.float32
        and x.device.type == "cpu"
        and x.is_contiguous(memory_format=torch.channels_last)
        and not torch.is_autocast_enabled("cpu")
    )


class _HalvedConvolution(Function):
    """Of the maps between the two, only which pixels were the largest is kept."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, at_once: int) -> Tensor:
        count, _, height, width = x.shape
        y = torch.empty(count, len(weight), height // 2, width // 2, memory_format=torch.channels_last)
        compiled, ctx.pools = compiled_for(x), []
        for images, halves in zip(x.split(at_once), y.split(at_once), strict=True):
            maps = F.conv2d(images, weight, padding=1)
            if compiled and compiled.takes(maps):
                ctx.pools.append((compiled.unpool, compiled.pool(maps, halves)))
            else:
                ctx.pools.append((unpool, pool(maps, halves)))
        ctx.save_for_backward(x, weight)
        ctx.at_once = at_once
        return y

    @staticmethod
    def backward(ctx: Any, dy: Tensor) -> tuple[Tensor | None, ...]:
        x, weight = ctx.saved_tensors
        wanted = list(ctx.needs_input_grad[:2])
        if torch.is_grad_enabled():  # to be differentiated again
            y = F.max_pool2d(F.conv2d(x, weight, padding=1), 2)
            inputs = [value for value, needed in zip((x, weight), wanted, strict=True) if needed]
            found = iter(torch.autograd.grad(y, inputs, dy, create_graph=True))
            return *(next(found) if needed else None for needed in wanted), None
        dx = torch.empty_like(x) if wanted[0] else None
        dw = torch.zeros_like(weight) if wanted[1] else None
        dy = dy.contiguous(memory_format=torch.channels_last)
        room = torch.empty(ctx.at_once, dy.shape[1], *x.shape[2:], memory_format=torch.channels_last)
        parts = zip(ctx.pools, x.split(ctx.at_once), dy.split(ctx.at_once), strict=True)
        for number, ((spread, which), images, gradient) in enumerate(parts):
            maps = room[: len(images)]
            spread(gradient, which, maps)
            of_images, of_weight, _ = torch.ops.aten.convolution_backward(
                maps, images, weight, None, ONE, ONE, ONE, False, NONE, 1, [*wanted, False]
            )
            if dx is not None:
                dx[number * ctx.at_once :][: len(images)].copy_(of_images)
            if dw is not None:
                dw.add_(of_weight)
        return dx, dw, None
