"""Runs of every method in one process and in several, made to be compared to the last bits.

In double precision what is left of a difference is the order of sums. `python tests/many.py` prints the table
of `docs/processes.md`.
"""

import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
import torch.nn.functional as F
from torch import nn

from interlude import distributed, testing
from interlude.loop import fit
from interlude.method import find_method, method_names
from interlude.models import Backbone, Classifier
from interlude.run import Run

BATCH = 5  # groups: neither two nor three processes have equal shares
PATIENCE = timedelta(seconds=300)  # of a collective; a deadlock fails the test


@dataclass(frozen=True)
class Case:
    """One run to compare: a method with some options, settings of the run, a network, a problem."""

    method: str
    options: dict[str, Any] = field(default_factory=dict)
    settings: dict[str, Any] = field(default_factory=dict)
    batch_norm: bool = False
    dropout: float = 0.0
    class_weights: bool = False

    @property
    def name(self) -> str:
        words = {**self.options, **self.settings}
        flags = [name for name in ("batch_norm", "dropout", "class_weights") if getattr(self, name)]
        return " ".join([self.method, *(f"{name}={value}" for name, value in words.items()), *flags])


SYNC = {"sync_batch_norm": True}
EVERY = [Case(name) for name in method_names()]
VARIANTS = [
    Case("interlude", {"layout": "low-i"}),
    Case("interlude", {"layout": "high-i1", "neighbour": "previous"}, {"batch": 4}),
    Case("interlude", {"layout": "high-i2", "neighbour": "previous", "fusion_point": "stage"}),
    Case("interlude", {"shared_draws": False, "delta_groups": "class-matched"}, {"labels_first": 2}),
    Case("adamatch", {"full": True}),
    Case("fix-a-step", {"base": "interlude"}),
    Case("instant", {"transition": "instance"}),
    Case("mixmatch", {"share": "batch"}, class_weights=True),
    Case("mpl", {"label": "sample", "baseline": "ema"}),
    Case("simmatch", {"teacher": True}),
    Case("uda", {"tsa": "linear"}, class_weights=True),
    Case("fixmatch", class_weights=True, dropout=0.3),
    Case("interlude", dropout=0.3),
]
SYNCHRONIZED = [Case(name, {}, SYNC, batch_norm=True) for name in ("fixmatch", "interlude", "vat")]
CASES = EVERY + VARIANTS + SYNCHRONIZED


class Tiny(Backbone):
    """Two convolutions; rows do not depend on each other unless it has BatchNorm."""

    num_features = 12

    def __init__(self, case: Case) -> None:
        super().__init__()
        self.first, self.second = nn.Conv2d(1, 8, 3, stride=2), nn.Conv2d(8, 12, 3)
        self.norm = nn.BatchNorm2d(8) if case.batch_norm else nn.GroupNorm(2, 8)
        self.dropout = nn.Dropout(case.dropout)

    def forward(self, images, midway=None):
        z = self.norm(self.first(images)).relu()
        return self.dropout(F.relu(self.second(z if midway is None else midway(z))).mean((2, 3)))


class InDouble(Run):
    """A run of a case in double precision."""

    def __init__(self, case: Case) -> None:
        self.case = case
        method = find_method(case.method)
        cfg = replace(testing.toy_config(method, **case.options), batch=BATCH)
        split = testing.toy_split()
        if case.class_weights:
            split = replace(split, class_weights=torch.tensor([0.2, 0.5, 0.3]).double())
        super().__init__(replace(cfg, **case.settings), split, method)
        self.method.double()
        self.ema.double()
        self.optimizer.fill_momentum()
        sweep = self.task.sweep
        self.task.sweep = lambda images, kind: (view.double() for view in sweep(images, kind))

    def make_model(self, split):
        return Classifier(Tiny(self.case), split.num_classes).double()

    def batch(self, step):
        views = super().batch(step)
        return views._replace(x=tuple(x.double() for x in views.x), u=tuple(u.double() for u in views.u))


def results(cases: list[Case]) -> dict[str, dict[str, Any]]:
    """What each case ends with: state, averaged weights, optimiser, and the means of what it logged."""
    found = {}
    for case in cases:
        run = testing.sharpened(InDouble(case), by=8.0)  # so that some rows pass thresholds
        fit(run)
        state = run.state()
        found[case.name] = {part: state[part] for part in ("method", "ema", "optimizer")}
        found[case.name]["logged"] = run.meter.drain()
    return found


def legs(counts: list[int | None], folder: Path) -> list[dict[str, Any]]:
    """The states after each part of a run, each part in so many processes, or in this one."""
    folder.mkdir()
    states: list[dict[str, Any]] = []
    for number, count in enumerate(counts, 1):
        last, file = testing.STEPS * number // len(counts), folder / "last.pt"
        done = together(count, folder / str(number), leg, last, file) if count else [leg(last, file)]
        torch.save(done[0], file)
        states.append(torch.load(file, weights_only=True))
    return states


def leg(last: int, file: Path) -> dict[str, Any]:
    """Go on from the state in a file, or begin if there is none, and stop after the step `last`."""
    run = InDouble(Case("interlude-plus", {"decay": 0.5}))
    if file.exists():
        run.load(torch.load(file, weights_only=True))
    testing.stop_after(run, last)
    return run.state()


def difference(first: Any, second: Any) -> float:
    """The largest difference of two nested states, relative to the largest number of each tensor."""
    if isinstance(first, dict):
        assert first.keys() == second.keys(), first.keys() ^ second.keys()
        return max((difference(first[key], second[key]) for key in first), default=0.0)
    if isinstance(first, list | tuple):
        return max((difference(a, b) for a, b in zip(first, second, strict=True)), default=0.0)
    if first is None or second is None:
        return 0.0 if first is second else float("inf")
    a, b = (torch.as_tensor(x, dtype=torch.float64) for x in (first, second))
    return float((a - b).abs().max() / a.abs().max().clamp_min(1)) if a.numel() else 0.0


def together(count: int, folder: Path, work: Callable[..., Any], *arguments: Any) -> list[Any]:
    """`work(*arguments)` in so many processes that know each other; what it returned in each."""
    folder.mkdir(parents=True, exist_ok=True)
    mp.start_processes(_one, (count, str(folder), work, arguments), nprocs=count, start_method="spawn")
    return [torch.load(folder / f"{rank}.pt", weights_only=False) for rank in range(count)]


def _one(rank: int, count: int, folder: str, work: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
    torch.set_num_threads(1)
    distributed.BUCKET = 512  # bytes: some gradients are sent while others are not there yet
    store = f"file://{folder}/store"
    distributed.connect("cpu", init_method=store, rank=rank, world_size=count, timeout=PATIENCE)
    torch.save(work(*arguments), Path(folder) / f"{rank}.pt")
    dist.destroy_process_group()
    left = [name for name in map(Path.read_text, Path("/proc/self/task").glob("*/comm")) if "gloo" in name]
    assert not left, "threads that outlive their group abort a process which ends before they do"


def main() -> None:
    """Print how far many processes are from one, case by case."""
    torch.set_num_threads(1)
    alone = results(CASES)
    with tempfile.TemporaryDirectory() as folder:
        many = {count: together(count, Path(folder, str(count)), results, CASES)[0] for count in (2, 3)}
    parts = ("method", "ema", "optimizer")
    print("| run | 2 processes | 3 processes |\n|---|---|---|")
    for case in CASES:
        figures = [
            max(difference(alone[case.name][part], found[case.name][part]) for part in parts)
            for found in many.values()
        ]
        print(f"| {case.name} | " + " | ".join(f"{figure:.0e}" for figure in figures) + " |")


if __name__ == "__main__":
    main()
