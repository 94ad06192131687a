"""A quick run, and what tests ask of its folder: how far it has come, and the bits that it ended with."""

import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from interlude import checkpoint

QUICK = "data: digits\nlabels: 20\nbatch: 4\nmu: 2\nsteps: 2\naugment: digits\nthreads: 1\n"
PATIENCE = 300  # seconds, for machines that do other things too


def final_bits(folder: Path) -> dict[str, Any]:
    """Hashes of all weights and state that a run ends with, and of the exported model."""
    state = checkpoint.read(folder / "checkpoints/last.pt")
    parts = {part: checkpoint.digest(state[part]) for part in ("step", "method", "ema", "optimizer")}
    return parts | {"model": (folder / "model.safetensors").read_bytes()}


def saved_step(folder: Path) -> int:
    """The step of the last checkpoint, 0 if there is none."""
    path = folder / "checkpoints/last.pt"
    return int(checkpoint.read(path)["step"]) if path.exists() else 0


def wait_for(condition: Callable[[], bool], process: "subprocess.Popen[str]") -> None:
    """Until `condition()` holds while the process runs."""
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline, "the run does not move"
        time.sleep(0.02)


def wait_for_step(folder: Path, step: int, process: "subprocess.Popen[str]") -> None:
    """Until the run in `folder` has saved this step or a later one."""
    wait_for(lambda: saved_step(folder) >= step, process)
