"""Images judged over images trained a second (the network's forward and backward alone), WRN-28-2."""

from typing import Any

import flops
import measure
import ours
import torch

IMAGES, VIEWS = 128, 128


def rows() -> list[dict[str, Any]]:
    """The ratio of the two paces."""
    run = ours.run(model="wrn-28-2", batch=1)
    images = run.split.unlabeled.subset(torch.arange(IMAGES))
    sides = {"judge": lambda: run.predict(images), "train": flops.training_pass("wrn-28-2", VIEWS)}
    times = measure.interleaved(sides)
    paces = [seconds / VIEWS * IMAGES for seconds in times["train"]]
    conditions = f"1 thread, {IMAGES} images, {VIEWS} views, {measure.milliseconds(times)}"
    return [measure.row("evaluation", measure.ratios(paces, times["judge"]), conditions=conditions)]


if __name__ == "__main__":
    measure.main(rows)
