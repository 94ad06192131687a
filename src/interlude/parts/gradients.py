"""Gradients as vectors, and a network at weights moved along one.

A vector (P,) holds one number for each trainable weight of a network, in the order of its parameters. A
gradient is always that of the global batch, so that several processes compute with the same one.
"""

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.func import functional_call

from interlude import distributed


def trainable(network: nn.Module) -> dict[str, nn.Parameter]:
    """The parameters that training moves, by name."""
    return {name: weight for name, weight in network.named_parameters() if weight.requires_grad}


def num_trainable(network: nn.Module) -> int:
    """How many weights training moves: the length of a gradient."""
    return sum(weight.numel() for weight in trainable(network).values())


def gradient(loss: Tensor, network: nn.Module, *, keep_graph: bool = True) -> Tensor:
    """The gradient of `loss`, a mean over rows, at all weights; zeros where none arrives, no `.grad` touched.

    With `keep_graph` the loss may still be descended; without, only through `with_gradient`.
    """
    weights = list(trainable(network).values())
    if not loss.requires_grad:
        return torch.cat([torch.zeros_like(weight).flatten() for weight in weights])
    loss = distributed.weighted(loss)
    parts = torch.autograd.grad(loss, weights, retain_graph=keep_graph, materialize_grads=True)
    return distributed.total(torch.cat([part.flatten() for part in parts]))


def with_gradient(loss: Tensor, vector: Tensor, network: nn.Module) -> Tensor:
    """The value of `loss`, with `vector` as its gradient: for one already known, without a second pass.

    All weights take part: one that the loss does not reach has a gradient of zero, not none.
    """
    weights = torch.cat([weight.flatten() for weight in trainable(network).values()])
    slope = weights @ vector.detach()
    return loss.detach() + (slope - slope.detach())


def direction(vector: Tensor) -> Tensor:
    """The vector scaled to length 1 in the 2-norm over all weights; zeros stay zeros."""
    length: Tensor = vector.norm()
    return vector / length.clamp_min(torch.finfo(vector.dtype).tiny)


def perturbed(network: nn.Module, offset: Tensor) -> Callable[..., tuple[Tensor, ...]]:
    """`network.together` at weights + offset: called with views it returns the logits of each.

    The weights themselves stay where they are, and gradients arrive at them as if they had been moved.
    """
    weights = trainable(network)
    parts = offset.detach().split([weight.numel() for weight in weights.values()])
    moved = {
        name: weight + part.view_as(weight)
        for (name, weight), part in zip(weights.items(), parts, strict=True)
    }

    def together(*views: Tensor) -> tuple[Tensor, ...]:
        with distributed.passing(views):
            logits: Tensor = functional_call(network, moved, (torch.cat(views),))
        return torch.split(logits, [len(view) for view in views])

    return together
