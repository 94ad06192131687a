"""What a run writes down as it goes: `metrics.jsonl`, TensorBoard events on request."""

import json
from math import isfinite
from pathlib import Path
from statistics import fmean
from typing import Any

import torch
from torch import Tensor

from interlude import distributed
from interlude.errors import NotFinite, UserError
from interlude.method import Objective


class Meter:
    """Collects the terms of each step on the device; they become numbers only when drained."""

    def __init__(self) -> None:
        self.values: dict[str, list[tuple[int, Tensor]]] = {}

    def add(self, step: int, objective: Objective) -> None:
        """Take in one objective of `step`."""
        terms = {f"train/{name}": term.detach() for name, term in objective.terms.items()}
        for name, value in {"train/loss": objective.loss.detach(), **terms, **objective.logged}.items():
            self.values.setdefault(name, []).append((step, value))

    def drain(self) -> dict[str, float]:
        """Means since the last drain; `NotFinite` names the first step and term that is no number."""
        if not self.values:
            return {}
        every = [value for values in self.values.values() for _, value in values]
        numbers = iter(distributed.mean(torch.stack(every)).double().tolist())  # from a GPU all at once
        columns = {name: [next(numbers) for _ in values] for name, values in self.values.items()}
        bad = [
            (step, name.removeprefix("train/"), number)
            for name, column in columns.items()
            if name.startswith("train/") and name != "train/loss"
            for (step, _), number in zip(self.values[name], column, strict=True)
            if not isfinite(number)
        ]
        if bad:
            step, term, value = min(bad, key=lambda first: first[0])
            raise NotFinite(f"the loss term '{term}' became {value} at step {step}")
        self.values = {}
        return {name: fmean(column) for name, column in columns.items()}


class Journal:
    """Appends to `metrics.jsonl` (and TensorBoard); a resumed run takes back what it had not saved."""

    def __init__(self, folder: Path, *, step: int, tensorboard: bool = False) -> None:
        self.path = folder / "metrics.jsonl"
        self._forget_after(step)
        self.events = _event_writer(folder, step) if tensorboard else None

    def write(self, step: int, values: dict[str, Any]) -> None:
        """One line: the step and its values."""
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps({"step": step, **values}) + "\n")
        if self.events:
            for name, value in values.items():
                if isinstance(value, int | float):
                    self.events.add_scalar(name, value, step)

    def close(self) -> None:
        """Finish the event file."""
        if self.events:
            self.events.close()

    def _forget_after(self, step: int) -> None:
        """Drop lines of steps that will be taken again, and a last line that was cut short."""
        if not self.path.exists():
            return
        lines = self.path.read_text(encoding="utf-8", errors="replace").splitlines()
        kept = [line for line in lines if _step_of(line) <= step]
        fresh = self.path.with_suffix(".tmp")
        fresh.write_text("".join(line + "\n" for line in kept), encoding="utf-8")
        fresh.replace(self.path)


class NoJournal:
    """Of a process that does not write."""

    def write(self, step: int, values: dict[str, Any]) -> None:
        """Nothing."""

    def close(self) -> None:
        """Nothing."""


def _step_of(line: str) -> float:
    """The step of a journal line; a torn line is of no step that was saved."""
    try:
        return float(json.loads(line)["step"])
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
        return float("inf")


def _event_writer(folder: Path, step: int) -> Any:
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError as error:
        raise UserError("TensorBoard is not installed: pip install 'interlude-ssl[tensorboard]'") from error
    return SummaryWriter(str(folder), purge_step=step or None)
