"""The contract: what a method is given, what it yields to the loop, and what it may keep.

A method is one `nn.Module` with one generator, `step`. It yields an `Objective`; the loop takes one
optimiser step on it and comes back, so the lines after a `yield` see the moved weights. Whatever a method
keeps from one step to the next is a parameter or a buffer: device, checkpoint and resume come free.
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
import pkgutil
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, NamedTuple, TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from interlude import distributed
from interlude.errors import UserError, unknown
from interlude.options import Options, option

if TYPE_CHECKING:
    from interlude.data import Images
    from interlude.models import Classifier


class Batch(NamedTuple):
    """Everything a method sees of the data; the labels of unlabeled images are not in it."""

    x: tuple[Tensor, ...]  # labeled views in declared order, each (B, C, H, W), or (B, D) of a frozen network
    y: Tensor  # labels (B,), or soft (B, K)
    u: tuple[
        Tensor, ...
    ]  # unlabeled views in declared order, each (mu*B, C, H, W); group i is rows i*mu..(i+1)*mu
    rows_x: Tensor  # which labeled images these are
    rows_u: Tensor  # which unlabeled images these are


class Clock(NamedTuple):
    """Where training stands."""

    step: int
    total: int

    @property
    def progress(self) -> float:
        """Share of the steps already taken, 0 at the first."""
        return self.step / self.total

    def ramp(self, fraction: float) -> float:
        """From 0 at the start linearly to 1 after this fraction of the run."""
        return min(1.0, self.progress / fraction) if fraction > 0 else 1.0

    def every(self, n: int) -> bool:
        """Whether a job done each `n` steps is due now."""
        return self.step % n == 0


class Objective:
    """What one optimiser step descends: the sum of named, already weighted terms."""

    def __init__(self, *, rate: float = 1.0, **terms: Tensor) -> None:
        if not terms:
            raise TypeError("an objective needs at least one named term")
        self.rate = rate  # factor on the learning rate of this one step
        self.terms = terms
        first, *others = terms.values()
        self.loss: Tensor = sum(others, start=first)  # the scalar to descend
        self.logged: dict[str, Tensor] = {}

    def log(self, **values: Tensor) -> Objective:
        """Note values for the journal; their mean is taken and stays on the device until the journal asks."""
        self.logged |= {name: value.detach().float().mean() for name, value in values.items()}
        return self


@dataclass
class Task:
    """What a method may know of the problem beyond its batches."""

    num_classes: int
    labels: Tensor  # of the labeled images, by row
    labeled: Images
    unlabeled: Images
    sweep: Callable[
        [Images, str], Iterator[Tensor]
    ]  # sweep(images, kind): all images in order, in batches of one view
    class_weights: Tensor | None = None
    ema: Classifier | None = None  # the loop's averaged model, read only

    @property
    def num_unlabeled(self) -> int:
        """Size of the unlabeled pool."""
        return len(self.unlabeled)


class Method(nn.Module):
    """Base of all methods. A subclass declares its views and its `Config`, and writes `step`."""

    labeled: tuple[str, ...] = ("weak",)
    unlabeled: tuple[str, ...] = ("weak", "strong")
    shared_draws: bool = (
        False  # whether view k of a group's unlabeled images shares the draw of view k of its labeled one
    )
    needs_pixels: str = ""  # why its views must be images, if they cannot be vectors of a frozen network
    alone: str = ""  # why many processes do not end where a single one does, if so
    mu: ClassVar[int] = 7
    needs_all_labels: ClassVar[bool] = False
    name: ClassVar[str] = ""

    @dataclass(frozen=True)
    class Config(Options):
        """The numbers of one method; each method nests its own."""

        name: str = option("", "which method; `interlude list methods` shows them")

    def __init__(self, cfg: Config, model: Classifier, task: Task) -> None:
        super().__init__()
        self.cfg = cfg
        self.model = model
        self.task = task

    def step(self, batch: Batch, clock: Clock) -> Iterator[Objective]:
        """Yield one objective for each optimiser step to take on this batch."""
        raise NotImplementedError(f"{type(self).__name__} must define step")

    def step_on_labels(self, batch: Batch) -> Iterator[Objective]:
        """A step before the unlabeled images come in: cross-entropy on all labeled views."""
        logits = torch.cat(self.model.together(*batch.x))
        yield Objective(supervised=self.supervised(logits, torch.cat([batch.y] * len(batch.x))))

    def supervised(self, logits: Tensor, y: Tensor) -> Tensor:
        """Mean cross-entropy of labeled rows, weighted by class if the task says so; `y` hard or soft."""
        weights = self.task.class_weights
        if weights is None:
            return F.cross_entropy(logits, y)
        total = distributed.total((weights[y] if y.ndim == 1 else y @ weights).sum())
        values = F.cross_entropy(logits, y, weight=weights, reduction="sum")
        return values / (total * distributed.share())

    def lr_scale(self, name: str) -> float:
        """Factor on the learning rate of the parameter `name` of this module."""
        return 1.0


M = TypeVar("M", bound=Method)
_methods: dict[str, type[Method]] = {}


def register(method: type[M]) -> type[M]:
    """Make a method known under the name of its file: `methods/interlude_plus.py` is `interlude-plus`."""
    method.name = method.__module__.rpartition(".")[2].replace("_", "-")
    _methods[method.name] = method
    return method


def method_names() -> list[str]:
    """The registered methods, by name."""
    _import_all()
    return sorted(_methods)


def find_method(name: str) -> type[Method]:
    """The method called `name`, or the one that the Python file `name` registers."""
    if name.endswith(".py"):
        return _from_file(Path(name))
    _import_all()
    if name not in _methods:
        raise unknown("method", name, _methods)
    return _methods[name]


def _import_all() -> None:
    """Import each file of `methods/`; one that fails to import fails here, loudly."""
    package = importlib.import_module("interlude.methods")
    for module in pkgutil.iter_modules(package.__path__):
        importlib.import_module(f"interlude.methods.{module.name}")


@functools.cache
def _from_file(path: Path) -> type[Method]:
    """Run the file as a module; the one class it registers is the method. Built-in names stay as they are."""
    _import_all()
    built_in = dict(_methods)
    name = f"interlude_files.{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None or not path.is_file():
        raise UserError(f"there is no method file {path}")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look their module up there
    try:
        spec.loader.exec_module(module)
    finally:
        _methods.clear()
        _methods.update(built_in)
    classes = [
        value for value in vars(module).values() if isinstance(value, type) and issubclass(value, Method)
    ]
    own = [method for method in classes if method.__module__ == name and "name" in vars(method)]
    if len(own) != 1:
        raise UserError(f"{path} must register one method with @interlude.register, it registers {len(own)}")
    return own[0]
