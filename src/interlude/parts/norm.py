"""Passes that must leave the running statistics of a network alone."""

from collections.abc import Iterator
from contextlib import contextmanager

from torch import nn


@contextmanager
def frozen_statistics(network: nn.Module) -> Iterator[None]:
    """Inside the block BatchNorm uses the statistics of the batch, but does not record them."""
    norms = [part for part in network.modules() if isinstance(part, nn.modules.batchnorm._BatchNorm)]
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
