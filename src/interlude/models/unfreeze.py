"""From frozen to fine-tuned: which parameters of a frozen network are trained after all."""

import torch
from torch import Tensor

from interlude.errors import UserError
from interlude.models.adapters import adapt
from interlude.models.classifier import Backbone
from interlude.models.frozen import Frozen


def unfreeze_last_stage(network: Frozen, shape: tuple[int, int, int]) -> None:
    """Train what follows the point "stage" of the body, which sees images of this shape (C, H, W)."""
    try:
        names = _after_stage(network.body, torch.zeros(1, *shape))
    except UserError as error:
        raise UserError(f"unfreeze=last-stage: {str(error).partition(';')[0]}; choose another") from error
    if not names:
        raise UserError("unfreeze=last-stage: this network has no last stage to train; choose another")
    network.unfreeze(names)


def add_adapters(network: Frozen, *, rank: int, alpha: float) -> None:
    """Train low-rank additions to the attention of the body, zero at first."""
    network.unfreeze(adapt(network.body, rank=rank, alpha=alpha), new=True)


def _after_stage(body: Backbone, images: Tensor) -> set[str]:
    """The names of the parameters that a gradient reaches if it ends at the point "stage"."""
    parameters = dict(body.named_parameters())
    body.requires_grad_(True)
    try:
        embedding = body(images, midway=Tensor.detach)
        if not embedding.requires_grad:
            return set()
        gradients = torch.autograd.grad(embedding.sum(), list(parameters.values()), allow_unused=True)
    finally:
        body.requires_grad_(False)
    return {name for name, gradient in zip(parameters, gradients, strict=True) if gradient is not None}
