"""Whole training steps: ours, the authors' and USB's, each in a process of its own, one step of each in turn.

Ours is `interlude.train` on a file of random pictures, with its journal, its checkpoints and its settings for
memory; the reference processes have the allocator as it is.
"""

import sys
from typing import Any, NamedTuple

import measure
import ours
import reference_steps
from turns import Turns, Worker

MU = 7


class Setting(NamedTuple):
    """A network, its depth and width factor, and how often it is measured."""

    name: str
    net: tuple[int, int]
    groups: int
    repeats: int


SMALL = Setting("small", (10, 1), 64, 9)
LARGE = Setting("large", (28, 2), 32, 7)
WARMUPS = 4  # steps until the heap has its size, for those who keep it
SETTINGS = {setting.name: setting for setting in (SMALL, LARGE)}
OURS = ("interlude", "fixmatch")  # our methods; "usb" runs FixMatch too, on the same number of views
THEIRS = ("authors", "usb")
ROWS = {"authors": ("authors", "interlude"), "usb": ("usb", "interlude"), "usb-alike": ("usb", "fixmatch")}


def rows() -> list[dict[str, Any]]:
    """The rows of both networks."""
    return [row for setting in SETTINGS.values() for row in rows_of(setting)]


def rows_of(setting: Setting) -> list[dict[str, Any]]:
    """How many times longer the steps of the others take."""
    workers = {side: Worker(__file__, side, setting.name) for side in (*OURS, *THEIRS)}
    try:
        times = measure.interleaved(workers, repeats=setting.repeats, warmups=WARMUPS)
    finally:
        for worker in workers.values():
            worker.close()
    conditions = f"1 thread, separate processes, B {setting.groups}, mu {MU}, {measure.milliseconds(times)}"
    return [
        measure.row(
            f"step-{setting.name}-{name}", measure.ratios(times[theirs], times[mine]), conditions=conditions
        )
        for name, (theirs, mine) in ROWS.items()
    ]


def work(side: str, setting: Setting) -> None:
    """Inside the process of a side: steps without end, one at each turn."""
    turns = Turns()
    if side in OURS:
        ours.single_steps()
        net = f"wrn-{setting.net[0]}-{setting.net[1]}"
        ours.train(turns.done, method=side, model=net, batch=setting.groups, mu=MU)
    make = {"authors": reference_steps.AuthorsStep, "usb": reference_steps.UsbStep}[side]
    data = ours.pictures(ours.LABELED, 32), ours.pictures(ours.UNLABELED, 32)
    step = make(*data, batch=setting.groups, mu=MU, net=setting.net)
    while True:
        step()
        turns.done()


if __name__ == "__main__":
    if len(sys.argv) > 1:
        measure.one_thread()
        work(sys.argv[1], SETTINGS[sys.argv[2]])
    else:
        measure.main(rows)
