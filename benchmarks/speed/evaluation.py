"""Images judged over images trained a second (the network's forward and backward alone), WRN-28-2.

Beside it the ratio of the FLOPs: what it would be if both ran equally well; and the pace of the convolutions
alone, one after the other, in evaluation: what it could be at most with them.
"""

from collections.abc import Callable
from typing import Any

import flops
import measure
import ours
import torch
from torch import Tensor, nn

from interlude.evaluate import BATCH
from interlude.run import Run

IMAGES, VIEWS = 256, 128


def rows() -> list[dict[str, Any]]:
    """The ratio of the two paces, and of the work."""
    run = ours.run(model="wrn-28-2", batch=1)
    images = run.split.unlabeled.subset(torch.arange(IMAGES))
    sides = {
        "judge": lambda: run.predict(images),
        "convolve": convolutions(run),
        "train": flops.training_pass("wrn-28-2", VIEWS),
    }
    times = measure.interleaved(sides)
    paces = [seconds / VIEWS * IMAGES for seconds in times["train"]]
    conditions = f"1 thread, {IMAGES} images, {VIEWS} views, {measure.milliseconds(times)}"
    work = {name: flops.flops(sides[name]) for name in ("judge", "train")}
    more = work["train"] / VIEWS / (work["judge"] / IMAGES)
    return [
        measure.row("evaluation", measure.ratios(paces, times["judge"]), conditions=conditions),
        measure.row("evaluation-flops", [more], conditions=conditions),
        measure.row("evaluation-bound", measure.ratios(paces, times["convolve"]), conditions=conditions),
    ]


def convolutions(run: Run) -> Callable[[], None]:
    """All convolutions of the network that judges, on the maps that enter them, for as many images."""
    layers = [part for part in run.ema.model.modules() if isinstance(part, nn.Conv2d)]
    entered: dict[nn.Module, Tensor] = {}

    def note(layer: nn.Module, inputs: tuple[Tensor, ...], _: Tensor) -> None:
        entered[layer] = inputs[0].clone(memory_format=torch.channels_last)

    hooks = [layer.register_forward_hook(note) for layer in layers]
    run.predict(run.split.unlabeled.subset(torch.arange(BATCH)))
    for hook in hooks:
        hook.remove()

    @torch.inference_mode()
    def convolve() -> None:
        for _ in range(IMAGES // BATCH):
            for layer, maps in entered.items():
                layer(maps)

    return convolve


if __name__ == "__main__":
    measure.main(rows)
