"""Where a run computes, and what is the same for one process and many."""

import torch
import torch.distributed as dist
from torch import Tensor

from interlude.errors import UserError


def pick_device(name: str) -> torch.device:
    """The device called `name`; `auto` is the best one there is."""
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "mps" if torch.backends.mps.is_available() else "cpu"
    try:
        device = torch.device(name)
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:
        raise UserError(f"cannot use device {name!r} here; choose auto, cpu, cuda, cuda:N or mps") from error
    return device


def num_processes() -> int:
    """How many processes train this run together."""
    return dist.get_world_size() if dist.is_available() and dist.is_initialized() else 1


def mean(value: Tensor) -> Tensor:
    """The mean of `value` over all processes, without gradient; the value itself in a single one."""
    value = value.detach()
    if num_processes() == 1:
        return value
    total = value.clone()
    dist.all_reduce(total)
    return total / num_processes()
