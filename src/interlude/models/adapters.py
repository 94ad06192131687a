"""Low-rank adapters (LoRA; Hu et al., 2022, arXiv:2106.09685) on the attention of a vision transformer."""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from interlude.errors import UserError

PLACES = (".attn.qkv", ".attn.proj")


class Adapted(nn.Linear):
    """`linear` plus alpha / rank times a product of two thin matrices that starts at zero."""

    def __init__(self, linear: nn.Linear, *, rank: int, alpha: float) -> None:
        super().__init__(linear.in_features, linear.out_features, bias=linear.bias is not None)
        self.weight, self.bias = linear.weight, linear.bias
        self.scale = alpha / rank
        self.down = nn.Parameter(torch.empty(rank, linear.in_features))
        self.up = nn.Parameter(torch.zeros(linear.out_features, rank))
        nn.init.kaiming_uniform_(self.down, a=math.sqrt(5))

    def forward(self, input: Tensor) -> Tensor:
        return super().forward(input) + self.scale * F.linear(F.linear(input, self.down), self.up)

    def merged(self) -> nn.Linear:
        """One plain layer that does the same."""
        plain = nn.Linear(self.in_features, self.out_features, bias=self.bias is not None)
        plain.weight = nn.Parameter(self.weight + self.scale * self.up @ self.down, requires_grad=False)
        plain.bias = self.bias
        return plain


def adapt(body: nn.Module, *, rank: int, alpha: float) -> set[str]:
    """Put adapters on the attention of `body`; the names of the new parameters."""
    parts = {name: part for name, part in body.named_modules() if name.endswith(PLACES)}
    linears = {
        name: part for name, part in parts.items() if type(part) is nn.Linear and _is_called(body, name)
    }
    if not linears:
        raise UserError("adapters need the attention of a ViT of timm; use unfreeze=last-stage here")
    for name, linear in linears.items():
        body.set_submodule(name, Adapted(linear, rank=rank, alpha=alpha))
    return {f"{name}.{matrix}" for name in linears for matrix in ("down", "up")}


def merge(body: nn.Module) -> None:
    """Replace the adapted layers of `body` by plain ones that do the same."""
    for name, part in list(body.named_modules()):
        if isinstance(part, Adapted):
            with torch.no_grad():
                body.set_submodule(name, part.merged())


def _is_called(body: nn.Module, name: str) -> bool:
    """BEiT and its kin, which have biases of their own, use the weight of `qkv` and never call it."""
    parent = body.get_submodule(name.rpartition(".")[0])
    return not name.endswith(".qkv") or getattr(parent, "q_bias", None) is None
