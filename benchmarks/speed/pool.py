"""The time of a step with 10^6 unlabeled images over that with 10^4: memory maps, a small network."""

import tempfile
from pathlib import Path
from typing import Any

import measure
import numpy as np
import ours
import torch

from interlude.run import Run

SIZES = {"10^4": 10**4, "10^6": 10**6}
STEPS = 8  # in each turn, whose batches are made together


def rows() -> list[dict[str, Any]]:
    """The ratio of the two pools."""
    with tempfile.TemporaryDirectory() as folder:
        runs = {name: run_with(Path(folder) / f"{size}.bin", size) for name, size in SIZES.items()}
        sides = {name: lambda run=run: ours.advance(run, STEPS) for name, run in runs.items()}  # type: ignore[misc]
        times = measure.interleaved(sides, repeats=15)
    times = {name: [seconds / STEPS for seconds in values] for name, values in times.items()}
    conditions = f"1 thread, cnn, B 16, mu 7, {measure.milliseconds(times)}"
    return [measure.row("pool", measure.ratios(times["10^6"], times["10^4"]), conditions=conditions)]


def run_with(path: Path, size: int) -> Run:
    """A run whose pool is a memory map; its file holds zeros and takes no room on the disk."""
    pixels = np.memmap(path, dtype=np.uint8, mode="w+", shape=(size, 3, 32, 32))
    return ours.run(ours.split(torch.from_numpy(pixels)), method="interlude", model="cnn", batch=16, mu=7)


if __name__ == "__main__":
    measure.main(rows)
