"""From the start of a process to the end of its first training step, on digits, by the clock on the wall."""

import os
import subprocess
import sys
import tempfile
import time
from typing import Any, NoReturn

import measure

COMMAND = ("train", "--config", "digits", "--method", "interlude")


def rows() -> list[dict[str, Any]]:
    """Seconds to the first step."""
    before = children_seconds()
    times = measure.interleaved({"first-step": seconds}, warmups=1)
    cpu = (children_seconds() - before) / (1 + measure.REPEATS)
    conditions = f"wall clock, 1 thread, `interlude {' '.join(COMMAND)}`, of it {cpu:.3g} s of CPU time"
    return [measure.row("first-step", times["first-step"], conditions=conditions)]


def seconds() -> float:
    """Wall time until the child says that it has taken a step."""
    with tempfile.TemporaryDirectory() as folder:
        began = time.perf_counter()
        command = [sys.executable, __file__, f"{folder}/run"]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        return time.perf_counter() - began


def children_seconds() -> float:
    """CPU time of all processes that have ended below this one."""
    spent = os.times()
    return spent.children_user + spent.children_system


def until_first_step(folder: str) -> None:
    """The command line's own way to its first step, which ends the process."""
    from interlude import cli
    from interlude.session import Session

    def stop(session: Session) -> NoReturn:
        os._exit(0)

    Session.after_step = stop  # type: ignore[method-assign]
    cli.main([*COMMAND, "--out", folder])


if __name__ == "__main__":
    if len(sys.argv) > 1:
        until_first_step(sys.argv[1])
    else:
        measure.main(rows)
