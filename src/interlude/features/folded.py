"""A network for evaluation alone, without the BatchNorms that follow a convolution: same numbers, sooner."""

import copy

import torch
from torch import Tensor, nn
from torch.nn.utils.fusion import fuse_conv_bn_eval

CLOSE = 1e-3  # of the largest number: what folding may change by rounding


@torch.no_grad()
def folded(network: nn.Module, images: Tensor) -> nn.Module:
    """A copy of `network`, which is in evaluation mode, with norms folded into the convolutions before them.

    Which follows which is seen when `images` pass. A network in which something else reads what a
    convolution gives would then give other numbers: such a one comes back as it is.
    """
    copied = copy.deepcopy(network)
    names = {part: name for name, part in copied.named_modules()}
    for convolution, norm in _pairs(copied, images):
        fused = fuse_conv_bn_eval(convolution, norm)
        convolution.weight, convolution.bias = fused.weight, fused.bias
        copied.set_submodule(names[norm], _rest(norm))
    copied.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    before, after = network(images), copied(images)
    close = torch.allclose(before, after, rtol=CLOSE, atol=CLOSE * float(before.abs().max()))
    return copied if close else network


def _pairs(network: nn.Module, images: Tensor) -> list[tuple[nn.Conv2d, nn.BatchNorm2d]]:
    """Each convolution whose result a BatchNorm takes, with that norm."""
    made: list[tuple[nn.Conv2d, Tensor]] = []
    pairs: dict[nn.Conv2d, nn.BatchNorm2d] = {}

    def note(convolution: nn.Conv2d, _: tuple[Tensor, ...], maps: Tensor) -> None:
        made.append((convolution, maps))

    def match(norm: nn.BatchNorm2d, args: tuple[Tensor, ...]) -> None:
        pairs.update({convolution: norm for convolution, maps in made if maps is args[0]})

    hooks = []
    for part in network.modules():
        if isinstance(part, nn.Conv2d):
            hooks.append(part.register_forward_hook(note))
        elif isinstance(part, nn.modules.batchnorm._BatchNorm) and part.running_var is not None:
            hooks.append(part.register_forward_pre_hook(match))
    try:
        network(images)
    finally:
        for hook in hooks:
            hook.remove()
    return list(pairs.items())


def _rest(norm: nn.Module) -> nn.Module:
    """What remains of a norm: nothing, or the activation that timm keeps in it."""
    return nn.Sequential(*(getattr(norm, name) for name in ("drop", "act") if hasattr(norm, name)))
