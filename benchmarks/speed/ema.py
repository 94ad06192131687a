"""The update of the averaged weights, against the loops over tensors of the authors and of USB; WRN-28-2.

Each side makes many updates in a row, so that the weights are in the cache; the least one could cost torch is
a `lerp_` over as many numbers in one piece.
"""

import copy
from typing import Any

import measure
import ours
import reference_network
import reference_steps
import torch

from interlude.parts.ema import Ema

CALLS = 400  # in a row; the first of them fetches the weights


def rows() -> list[dict[str, Any]]:
    """How many times faster than each loop ours is."""
    model = ours.run(model="wrn-28-2", batch=1).method.model
    theirs = reference_network.WideResNet(28, 2, ours.CLASSES)
    ema, average, usb = Ema(model, 0.999), copy.deepcopy(theirs), reference_steps.UsbEma(theirs)
    numbers = sum(weight.numel() for weight in model.parameters())
    old, new = torch.rand(numbers), torch.rand(numbers)
    sides = {
        "ours": lambda: ema.update(model),
        "authors": lambda: reference_steps.authors_ema(average, theirs),
        "usb": lambda: usb.update(theirs),
        "bound": lambda: old.lerp_(new, 0.001),
    }
    times = measure.interleaved(sides, repeats=7, calls=CALLS)
    conditions = f"1 thread, {measure.milliseconds(times)}"
    pairs = {"authors": ("authors", "ours"), "usb": ("usb", "ours"), "bound": ("authors", "bound")}
    return [
        measure.row(f"ema-{name}", measure.ratios(times[slow], times[fast]), conditions=conditions)
        for name, (slow, fast) in pairs.items()
    ]


if __name__ == "__main__":
    measure.main(rows)
