"""How convolutional networks turn maps into vectors."""

from torch import Tensor


def global_average(maps: Tensor) -> Tensor:
    """The mean over all pixels (N, C) of maps (N, C, H, W).

    Pixels come before channels, as they lie in memory in channels-last order: then so does the gradient, and
    no layer before this one has to mix two orders. That of `maps.mean((2, 3))` would not.
    """
    return maps.permute(0, 2, 3, 1).flatten(1, 2).mean(1)
