"""Where a run computes, and what many processes share so that they compute what one would.

Each process holds whole groups of the global batch, in the order of the processes. Its losses and statistics
are means over its own rows; the mean over all rows is the sum of these, each times the process's share of
the groups. In a single process every function here gives back what it was given.
"""

import importlib
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from interlude.errors import UserError

BUCKET = 8 << 20  # bytes of gradients that are sent together

_groups = [1]  # how many groups of a batch each process has
_passing: list[list[int]] = []  # the sizes of the views in the passes under way


def pick_device(name: str) -> torch.device:
    """The device called `name`; `auto` is the best one there is, and of several GPUs each process has one."""
    if name == "auto":
        mps = torch.backends.mps.is_available() and num_processes() == 1
        name = "cuda" if torch.cuda.is_available() else "mps" if mps else "cpu"
    if name == "cuda" and num_processes() > 1:
        name = f"cuda:{os.environ.get('LOCAL_RANK', rank())}"
    try:
        device = torch.device(name)
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:
        raise UserError(f"cannot use device {name!r} here; choose auto, cpu, cuda, cuda:N or mps") from error
    return device


def connect(device: str, **place: Any) -> None:
    """Make the processes of this run one group: by NCCL where they compute on GPUs, else by gloo."""
    # Functions there hold the group that exists when they are first imported, which something does sooner or
    # later: that group would never end, and its threads could abort a process that ends.
    importlib.import_module("torch.distributed.nn.functional")
    gpus = device.startswith(("auto", "cuda")) and torch.cuda.is_available()
    dist.init_process_group("cpu:gloo,cuda:nccl" if gpus else "gloo", **place)
    if gpus:
        torch.cuda.set_device(pick_device("cuda"))


def num_processes() -> int:
    """How many processes train this run together."""
    return dist.get_world_size() if dist.is_available() and dist.is_initialized() else 1


def rank() -> int:
    """Which of them this one is."""
    return dist.get_rank() if num_processes() > 1 else 0


def is_main() -> bool:
    """Whether this is the process that writes and speaks."""
    return rank() == 0


def share_out(groups: int) -> None:
    """Divide the groups of a batch, whole and as evenly as they go, among the processes, from now on."""
    count = num_processes()
    if groups < count:
        raise UserError(
            f"a batch of {groups} cannot be shared out among {count} processes; take a larger --batch, "
            "or fewer processes"
        )
    _groups[:] = [groups // count + (number < groups % count) for number in range(count)]


def share() -> float:
    """This process's share of the batch."""
    return _groups[rank()] / sum(_groups) if num_processes() > 1 else 1.0


def count(rows: int) -> int:
    """How many rows the global batch has where this process has `rows`."""
    return rows if num_processes() == 1 else sum(_sizes(rows))


def own(rows: Tensor, dim: int = 0) -> Tensor:
    """This process's part of something made for the global batch, such as random numbers."""
    if num_processes() == 1:
        return rows
    each = rows.shape[dim] // sum(_groups)  # rows of a group
    assert each * sum(_groups) == rows.shape[dim], "made for whole groups"
    return rows.narrow(dim, each * sum(_groups[: rank()]), each * _groups[rank()])


def own_of(views: Tensor, sizes: Sequence[int], dim: int = 0) -> Tensor:
    """This process's part of what `join` made of views of which it has so many rows each."""
    if num_processes() == 1:
        return views
    return torch.cat([own(view, dim) for view in views.split([count(size) for size in sizes], dim)], dim)


@contextmanager
def passing(views: Sequence[Tensor]) -> Iterator[None]:
    """Inside, a pass over the rows of these views, one after the other, knows where each begins."""
    _passing.append([len(view) for view in views])
    try:
        yield
    finally:
        _passing.pop()


def own_in_pass(rows: Tensor, dim: int = 0) -> Tensor:
    """This process's part of what was drawn for the rows of a pass in all processes."""
    sizes = _passing[-1] if _passing else []
    known = count(sum(sizes)) == rows.shape[dim]
    return own_of(rows, sizes, dim) if known else own(rows, dim)


def like_all(rows: Tensor, dim: int = 0) -> Tensor:
    """A tensor of any content like the rows, along an axis, of all processes."""
    if num_processes() == 1:
        return rows
    shape = list(rows.shape)
    shape[dim] = count(shape[dim])
    if dim:
        return rows.new_empty(shape)
    return torch.empty_strided(shape, rows.stride(), dtype=rows.dtype, device=rows.device)


def mean(value: Tensor) -> Tensor:
    """The mean over the global batch of what is a mean over the rows of each process; no gradient."""
    value = value.detach()
    return value if num_processes() == 1 else _sum(value * share())


def total(value: Tensor) -> Tensor:
    """The sum of `value` over all processes; no gradient."""
    value = value.detach()
    return value if num_processes() == 1 else _sum(value)


def mean_with_gradient(value: Tensor) -> Tensor:
    """As `mean`, and a gradient goes back to the rows of every process."""
    if num_processes() == 1:
        return value
    result: Tensor = _Sum.apply(value * share())  # type: ignore[no-untyped-call]
    return result


def gather(rows: Tensor) -> Tensor:
    """The rows of all processes, in the order of the global batch; gradients go back to where they are from.

    In each process they are a whole number of rows for each of its groups.
    """
    if num_processes() == 1:
        return rows
    result: Tensor = _Gather.apply(rows, _sizes(len(rows)))  # type: ignore[no-untyped-call]
    return result


def from_neighbour(rows: Tensor, offset: int) -> Tensor:
    """As many rows, of the process so many places further on in the circle of all; with their gradient."""
    world = num_processes()
    everyone: Tensor = _Gather.apply(rows, [len(rows)] * world)  # type: ignore[no-untyped-call]
    return torch.split(everyone, len(rows))[(rank() + offset) % world]


def join(views: Sequence[Tensor]) -> Tensor:
    """All views of the global batch one after the other: the first of all processes, then the second."""
    return torch.cat([gather(view) for view in views])


def gather_sizes(rows: Tensor, sizes: Sequence[int]) -> Tensor:
    """The rows of all processes, of which each has so many; no gradient."""
    return rows if num_processes() == 1 else _gathered(rows.detach(), sizes)


def weighted(loss: Tensor) -> Tensor:
    """A loss of this process's rows as its part of the loss of all: the parts add up to the mean."""
    return loss if num_processes() == 1 else loss * share()


def share_statistics(network: nn.Module) -> None:
    """Let all processes go on with the mean of the running statistics that each has of its own rows."""
    if num_processes() == 1:
        return
    norms = [part for part in network.modules() if isinstance(part, nn.modules.batchnorm._BatchNorm)]
    statistics = [x for norm in norms for x in (norm.running_mean, norm.running_var) if x is not None]
    if statistics:
        flat = _sum(torch.cat(statistics) * share())
        torch._foreach_copy_(statistics, list(flat.split([len(x) for x in statistics])))


def highest(number: int) -> int:
    """The largest of the numbers that the processes call this with."""
    if num_processes() == 1:
        return number
    tensor = torch.tensor(number)
    dist.all_reduce(tensor, dist.ReduceOp.MAX)
    return int(tensor)


class Gradients:
    """Adds up the gradients of all processes, in buckets, while the others are still being computed.

    A bucket is filled in the order in which gradients arrive. That order is the same in all processes,
    because a loss never branches on data.
    """

    def __init__(self, parameters: Iterable[Tensor]) -> None:
        self._arrived: list[Tensor] = []
        self._bytes = 0
        self._sent: list[tuple[list[Tensor], Tensor, Any]] = []
        if num_processes() > 1:
            for parameter in parameters:
                parameter.register_post_accumulate_grad_hook(self._arrive)

    def of(self, loss: Tensor) -> None:
        """Leave in each parameter its gradient of the loss over the global batch."""
        weighted(loss).backward()
        self._send()
        for parameters, flat, work in self._sent:
            work.wait()
            parts = flat.split([parameter.numel() for parameter in parameters])
            for parameter, part in zip(parameters, parts, strict=True):
                assert parameter.grad is not None
                parameter.grad.copy_(part.view_as(parameter))
        self._sent.clear()

    def _arrive(self, parameter: Tensor) -> None:
        self._arrived.append(parameter)
        self._bytes += parameter.numel() * parameter.element_size()
        if self._bytes >= BUCKET:
            self._send()

    def _send(self) -> None:
        if self._arrived:
            flat = torch.cat([_gradient(parameter).flatten() for parameter in self._arrived])
            self._sent.append((self._arrived, flat, dist.all_reduce(flat, async_op=True)))
        self._arrived, self._bytes = [], 0


def _gradient(parameter: Tensor) -> Tensor:
    assert parameter.grad is not None
    return parameter.grad


class _Sum(torch.autograd.Function):
    """The sum over processes. What each does with it depends on the values of all: so do the gradients."""

    @staticmethod
    def forward(ctx: Any, value: Tensor) -> Tensor:
        return _sum(value)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        return _sum(gradient)


class _Gather(torch.autograd.Function):
    """Rows of all processes; the gradient of a row is the sum of what each process found for it."""

    @staticmethod
    def forward(ctx: Any, rows: Tensor, sizes: Sequence[int]) -> Tensor:
        ctx.sizes = sizes
        return _gathered(rows, sizes)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        return _sum(gradient).split(ctx.sizes)[rank()], None


def _sum(value: Tensor) -> Tensor:
    result = value.clone(memory_format=torch.contiguous_format)
    dist.all_reduce(result)
    return result


def _sizes(rows: int) -> list[int]:
    """How many rows each process has where this one has `rows`."""
    each, rest = divmod(rows, _groups[rank()])
    assert not rest, "whole groups"
    return [each * groups for groups in _groups]


def _gathered(rows: Tensor, sizes: Sequence[int]) -> Tensor:
    """Rows of all processes, sent in tensors of one size, as collectives want them."""
    kind = torch.uint8 if rows.dtype == torch.bool else rows.dtype
    padded = torch.zeros(max(sizes), *rows.shape[1:], dtype=kind, device=rows.device)
    padded[: len(rows)] = rows
    parts = [torch.empty_like(padded) for _ in sizes]
    dist.all_gather(parts, padded)
    return torch.cat([part[:size] for part, size in zip(parts, sizes, strict=True)]).to(rows.dtype)
