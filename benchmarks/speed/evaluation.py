"""Images judged over images trained a second (the network's forward and backward alone), WRN-28-2.

Beside it the ratio of the FLOPs: what it would be if both ran equally well.
"""

from typing import Any

import flops
import measure
import ours
import torch

IMAGES, VIEWS = 128, 128


def rows() -> list[dict[str, Any]]:
    """The ratio of the two paces, and of the work."""
    run = ours.run(model="wrn-28-2", batch=1)
    images = run.split.unlabeled.subset(torch.arange(IMAGES))
    sides = {"judge": lambda: run.predict(images), "train": flops.training_pass("wrn-28-2", VIEWS)}
    times = measure.interleaved(sides)
    paces = [seconds / VIEWS * IMAGES for seconds in times["train"]]
    conditions = f"1 thread, {IMAGES} images, {VIEWS} views, {measure.milliseconds(times)}"
    work = {name: flops.flops(side) for name, side in sides.items()}
    more = work["train"] / VIEWS / (work["judge"] / IMAGES)
    return [
        measure.row("evaluation", measure.ratios(paces, times["judge"]), conditions=conditions),
        measure.row("evaluation-flops", [more], conditions=conditions),
    ]


if __name__ == "__main__":
    measure.main(rows)
