"""The update of the averaged weights, against the loops over tensors of the authors and of USB; WRN-28-2."""

import copy
from typing import Any

import measure
import ours
import reference_network
import reference_steps

from interlude.parts.ema import Ema

CALLS = 20


def rows() -> list[dict[str, Any]]:
    """How many times faster than each loop ours is."""
    model = ours.run(model="wrn-28-2", batch=1).method.model
    theirs = reference_network.WideResNet(28, 2, ours.CLASSES)
    ema, average, usb = Ema(model, 0.999), copy.deepcopy(theirs), reference_steps.UsbEma(theirs)
    sides = {
        "ours": lambda: ema.update(model),
        "authors": lambda: reference_steps.authors_ema(average, theirs),
        "usb": lambda: usb.update(theirs),
    }
    times = measure.interleaved(sides, repeats=15, calls=CALLS)
    conditions = f"1 thread, {measure.milliseconds(times)}"
    return [
        measure.row(f"ema-{name}", measure.ratios(times[name], times["ours"]), conditions=conditions)
        for name in ("authors", "usb")
    ]


if __name__ == "__main__":
    measure.main(rows)
