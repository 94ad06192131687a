"""FLOP/s that training reaches in forward and backward, over what the best 3x3 convolution reaches here.

FLOPs are counted by torch (two for a multiplication and an addition; the gradient with respect to the images
is not computed and not counted). The peak is the fastest forward convolution of 64 channels over several
batches, sizes of the map and both orders of memory, measured in turn with the networks.
"""

from collections.abc import Callable
from typing import Any

import measure
import ours
import torch
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

CHANNELS = 64
MAPS = [(batch, side) for side in (16, 32) for batch in (8, 32, 128)]
LAYOUTS = {"NHWC": torch.channels_last, "NCHW": torch.contiguous_format}
NETWORKS = {"flops-large": ("wrn-28-2", 64), "flops-cnn": ("cnn", 256)}


def rows() -> list[dict[str, Any]]:
    """The share of the peak that both networks reach, as they are trained."""
    convolutions = {
        f"{layout} {batch}x{side}": convolution(batch, side, memory)
        for layout, memory in LAYOUTS.items()
        for batch, side in MAPS
    }
    networks = {name: training_pass(model, views) for name, (model, views) in NETWORKS.items()}
    sides = {**convolutions, **networks}
    work = {name: flops(side) for name, side in sides.items()}
    times = measure.interleaved(sides, warmups=2)
    pace = {name: [work[name] / seconds for seconds in values] for name, values in times.items()}
    peak = [max(pace[name][i] for name in convolutions) for i in range(measure.REPEATS)]
    best = max(convolutions, key=lambda name: measure.Spread.of(pace[name]).median)
    return [
        measure.row(
            name,
            [100 * reached / top for reached, top in zip(pace[name], peak, strict=True)],
            conditions=f"1 thread, {model}, {views} views, {giga(pace[name])} of {giga(peak)} GFLOP/s {best}",
        )
        for name, (model, views) in NETWORKS.items()
    ]


def giga(values: list[float]) -> str:
    """The median in units of 10^9."""
    return f"{measure.Spread.of(values).median / 1e9:.3g}"


def convolution(batch: int, side: int, memory: torch.memory_format) -> Callable[[], Tensor]:
    """One forward convolution."""
    layer = torch.nn.Conv2d(CHANNELS, CHANNELS, 3, padding=1, bias=False).to(memory_format=memory)
    images = torch.rand(batch, CHANNELS, side, side).to(memory_format=memory)

    def forward() -> Tensor:
        with torch.no_grad():
            return layer(images)

    return forward


def training_pass(model: str, views: int) -> Callable[[], None]:
    """Forward and backward of a network of ours from images to the gradients of all weights."""
    network = ours.run(model=model, batch=1).method.model.train()
    images = torch.rand(views, 3, 32, 32).to(memory_format=torch.channels_last)
    gradient = torch.rand(views, ours.CLASSES)

    def both() -> None:
        network.zero_grad(set_to_none=True)
        network(images).backward(gradient)

    return both


def flops(work: Callable[[], Any]) -> int:
    """What torch counts."""
    with FlopCounterMode(display=False) as counter:
        work()
    return int(counter.get_total_flops())


if __name__ == "__main__":
    measure.main(rows)
