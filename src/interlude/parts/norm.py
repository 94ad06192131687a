"""BatchNorm: passes that must leave its running statistics alone, and statistics over all processes."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from interlude import distributed
from interlude.errors import UserError
from interlude.models import Frozen

PLAIN = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)


@contextmanager
def frozen_statistics(network: nn.Module) -> Iterator[None]:
    """Inside the block BatchNorm uses the statistics of the batch, but does not record them."""
    norms = [part for part in network.modules() if isinstance(part, _BatchNorm)]
    momenta = [norm.momentum for norm in norms]
    counts = [norm.num_batches_tracked for norm in norms]
    for norm in norms:
        norm.momentum = 0.0
        norm.num_batches_tracked = None  # else counted, although nothing is recorded
    try:
        yield
    finally:
        for norm, momentum, count in zip(norms, momenta, counts, strict=True):
            norm.momentum, norm.num_batches_tracked = momentum, count


class SyncBatchNorm(_BatchNorm):
    """BatchNorm by the statistics of the rows of all processes, on any device.

    torch's own is for GPUs alone; this one is made of the same two means as every other statistic here.
    """

    def forward(self, x: Tensor) -> Tensor:
        if not self.training:
            return F.batch_norm(
                x, self.running_mean, self.running_var, self.weight, self.bias, False, 0.0, self.eps
            )
        axes, shape = [0, *range(2, x.ndim)], [1, -1, *[1] * (x.ndim - 2)]
        wide = x.to(torch.promote_types(x.dtype, torch.float32))
        mean = distributed.mean_with_gradient(wide.mean(axes))
        centred = wide - mean.view(shape)
        variance = distributed.mean_with_gradient(centred.square().mean(axes))
        self._record(mean.detach(), variance.detach(), distributed.count(len(x)) * x[0, 0].numel())
        scale = (variance + self.eps).rsqrt() * (1.0 if self.weight is None else self.weight)
        normal = centred * scale.view(shape)
        return (normal if self.bias is None else normal + self.bias.view(shape)).to(x.dtype)

    def _record(self, mean: Tensor, variance: Tensor, count: int) -> None:
        """Move the running statistics towards those of `count` numbers a channel, as torch's norms do."""
        if self.num_batches_tracked is not None:
            self.num_batches_tracked.add_(1)
        if self.running_mean is None or self.running_var is None:
            return
        momentum = self.momentum
        if momentum is None:
            momentum = 0.0 if self.num_batches_tracked is None else 1 / float(self.num_batches_tracked)
        self.running_mean.lerp_(mean.to(self.running_mean.dtype), momentum)
        unbiased = variance * (count / max(count - 1, 1))
        self.running_var.lerp_(unbiased.to(self.running_var.dtype), momentum)

    def _check_input_dim(self, input: Tensor) -> None:
        """Any number of axes will do."""


def synchronize(network: nn.Module) -> None:
    """Let every BatchNorm that is trained see the rows of all processes, if there are many."""
    if distributed.num_processes() == 1:
        return
    fixed = {id(x) for part in network.modules() if isinstance(part, Frozen) for x in part.body.modules()}
    for part in network.modules():
        if not isinstance(part, _BatchNorm) or isinstance(part, SyncBatchNorm) or id(part) in fixed:
            continue
        if type(part) not in PLAIN:
            raise UserError(
                f"sync_batch_norm cannot join the statistics of a {type(part).__name__}; leave it off, "
                "or choose another model"
            )
        part.__class__ = SyncBatchNorm
