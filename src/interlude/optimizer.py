"""The optimiser: which parameters take weight decay, how fast each moves, and the rate of the step."""

from collections import defaultdict
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor

from interlude import schedule
from interlude.distributed import Gradients
from interlude.errors import UserError
from interlude.method import Method
from interlude.models import Classifier, Frozen
from interlude.options import Options, option


@dataclass(frozen=True)
class OptimizerConfig(Options):
    """How weights move."""

    name: Literal["sgd", "adamw"] = option("sgd", "SGD with Nesterov momentum, or AdamW")
    rate: float = option(0.03, "peak learning rate", above=0)
    momentum: float = option(0.9, "Nesterov momentum of SGD", at_least=0, below=1)
    weight_decay: float = option(5e-4, "not applied to norms, biases and tokens", at_least=0)
    layer_decay: float = option(
        1.0, "learning rate factor from each layer to the one below it", above=0, at_most=1
    )
    unfrozen: float = option(
        0.1, "learning rate factor of the unfrozen last stage of a frozen network", above=0, at_most=1
    )
    warmup: int = option(0, "steps of linear warm-up", at_least=0)
    fall: float = option(
        schedule.FALL,
        "the rate falls as cos(fall pi k / K): 7/16, as published, leaves a fifth of it, 0.5 nothing",
        at_least=0,
        at_most=0.5,
    )


class Sgd(torch.optim.SGD):
    """Torch's fused SGD with momentum that is always there, and a step that visits parameters once.

    Torch's own visits them several times, through a dozen functions that a network has driven out of the
    cache: for the small CNN it takes 0.6 ms, this one 0.34.
    """

    def fill_momentum(self) -> None:
        """Momentum starts at zero for all: fused SGD fails where parameters first move at different steps."""
        for group in self.param_groups:
            for parameter in group["params"] if group["momentum"] else ():
                self.state[parameter]["momentum_buffer"] = torch.zeros_like(parameter)
        self._alike = all(len({(p.dtype, p.device) for p in g["params"]}) == 1 for g in self.param_groups)

    @torch.no_grad()
    def descend(self) -> None:
        """Move the parameters that have a gradient."""
        if not self._alike:  # torch sorts them
            self.step()
            return
        for group in self.param_groups:
            moving = [parameter for parameter in group["params"] if parameter.grad is not None]
            if moving:
                torch._fused_sgd_(
                    moving,
                    [parameter.grad for parameter in moving],
                    [self.state[parameter]["momentum_buffer"] for parameter in moving if group["momentum"]],
                    weight_decay=group["weight_decay"],
                    momentum=group["momentum"],
                    lr=group["lr"],
                    dampening=group["dampening"],
                    nesterov=group["nesterov"],
                    maximize=group["maximize"],
                    is_first_step=False,
                )


class Optimizer:
    """One torch optimiser over all that a method trains; parameters without gradient do not move."""

    def __init__(self, cfg: OptimizerConfig, method: Method, total: int) -> None:
        self.cfg = cfg
        self.total = total
        groups = parameter_groups(cfg, method)
        if cfg.name == "sgd":
            self.torch: Sgd | torch.optim.AdamW = Sgd(
                groups, lr=cfg.rate, momentum=cfg.momentum, nesterov=cfg.momentum > 0, fused=True
            )
        else:
            self.torch = torch.optim.AdamW(groups, lr=cfg.rate, fused=True)
        self.fill_momentum()
        self.parameters: list[Tensor] = [p for group in groups for p in group["params"]]
        self.gradients = Gradients(self.parameters)

    def fill_momentum(self) -> None:
        """Begin anew, with momentum that is zero and of the type that the parameters have now."""
        if isinstance(self.torch, Sgd):
            self.torch.fill_momentum()

    def rate(self, step: int) -> float:
        """The learning rate of a step, before the factors of single parameters."""
        return self.cfg.rate * schedule.factor(step, self.total, self.cfg.warmup, self.cfg.fall)

    def step(self, step: int, loss: Tensor, scale: float = 1.0) -> None:
        """Descend `loss` once at the rate of `step` times `scale`."""
        rate = self.rate(step) * scale
        for group in self.torch.param_groups:
            group["lr"] = rate * group["scale"]
        for parameter in self.parameters:  # `zero_grad` does the same and takes four times as long
            parameter.grad = None
        self.gradients.of(loss)
        if isinstance(self.torch, Sgd):
            self.torch.descend()
        else:
            self.torch.step()


def parameter_groups(cfg: OptimizerConfig, method: Method) -> list[dict[str, Any]]:
    """Parameters by (rate factor, weight decay): one-dimensional ones and tokens are not decayed."""
    networks = networks_of(method)
    depths = {
        f"{prefix}.{name}": depth
        for prefix, network in networks.items()
        for name, depth in network.layers().items()
    }
    if cfg.layer_decay < 1 and not depths:
        raise UserError("layer_decay needs a network that names its layers, such as a ViT; set it to 1 here")
    last = max(depths.values(), default=0)
    undecayed = {f"{prefix}.{name}" for prefix, network in networks.items() for name in network.undecayed()}
    unfrozen = {
        f"{prefix}.{name}"
        for prefix, part in method.named_modules()
        if isinstance(part, Frozen)
        for name in part.pretrained
    }
    groups: dict[tuple[float, float], list[Tensor]] = defaultdict(list)
    for name, parameter in method.named_parameters():
        if not parameter.requires_grad:
            continue
        scale = method.lr_scale(name) * cfg.layer_decay ** (last - depths.get(name, last))
        scale *= cfg.unfrozen if name in unfrozen else 1
        decay = 0.0 if parameter.ndim <= 1 or name in undecayed else cfg.weight_decay
        groups[scale, decay].append(parameter)
    return [
        {"params": parameters, "scale": scale, "weight_decay": decay}
        for (scale, decay), parameters in groups.items()
    ]


def networks_of(method: Method) -> dict[str, Classifier]:
    """The classifiers that a method trains, its second one if it has two, by their names in it."""
    return {
        prefix: part
        for prefix, part in method.named_modules()
        if part is method.model or isinstance(part, Classifier)
    }
