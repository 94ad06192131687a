"""What a data set holds before labels are chosen, and the register of data sets."""

import importlib
import pkgutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from hashlib import blake2b
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

from interlude.data.images import Images
from interlude.data.options import DataConfig
from interlude.errors import UserError, unknown


class FixedRows(NamedTuple):
    """Training rows whose use a data set prescribes, instead of leaving them to be drawn."""

    labeled: Tensor
    validation: Tensor


@dataclass(frozen=True, eq=False)
class Source:
    """All images of a data set. Training images that have no label carry the label -1."""

    train: Images
    tests: dict[str, Images]
    num_classes: int
    class_names: tuple[str, ...]
    mean: tuple[float, ...]
    std: tuple[float, ...]
    class_weights: tuple[float, ...] | None = None
    fixed: FixedRows | None = None
    known_classes: tuple[int, ...] | None = None  # those an open-set study labels, where there is a custom
    notes: tuple[str, ...] = ()  # sentences a user should read
    validation: Tensor | None = None  # training rows that the data set itself sets aside for validation
    groups: Tensor | None = (
        None  # of each training row, the number of what it belongs to; -1: it stands alone
    )

    def content_hash(self) -> str:
        """A fingerprint of all training and test images and labels."""
        digest = blake2b(self.train.content_hash().encode(), digest_size=16)
        for name, images in self.tests.items():
            digest.update(f"{name}:{images.content_hash()}".encode())
        return digest.hexdigest()

    def sizes(self) -> dict[str, int]:
        """How many images each part has."""
        return {"train": len(self.train)} | {name: len(images) for name, images in self.tests.items()}


Reader = Callable[[DataConfig], Source]
FoldReader = Callable[[DataConfig, int], Source]


class Entry(NamedTuple):
    """A registered data set."""

    read: FoldReader
    about: str


_entries: dict[str, Entry] = {}


def dataset(name: str) -> Callable[[Reader], Reader]:
    """Register a function that reads a data set; the first line of its docstring is what lists show."""

    def register(reader: Reader) -> Reader:
        _add(name, lambda cfg, fold: reader(cfg), reader.__doc__)
        return reader

    return register


def dataset_in_folds(name: str) -> Callable[[FoldReader], FoldReader]:
    """Register a function that reads one fold of a data set that comes with its own division."""

    def register(reader: FoldReader) -> FoldReader:
        _add(name, reader, reader.__doc__)
        return reader

    return register


def _add(name: str, read: FoldReader, doc: str | None) -> None:
    assert name not in _entries, f"two data sets are called {name!r}"
    _entries[name] = Entry(read, (doc or "").strip().partition("\n")[0])


def dataset_names() -> tuple[str, ...]:
    """The names of all data sets."""
    return tuple(sorted(_all_entries()))


def describe(name: str) -> str:
    """What a data set is, in one line."""
    return _all_entries()[name].about


def open_source(cfg: DataConfig, fold: int = 0) -> Source:
    """Read the data set called `cfg.name`; what follows a colon in the name is the reader's business.

    The path of a folder is short for `folder:PATH`.
    The fold matters to a data set that comes with its own division.
    """
    kind = cfg.name.partition(":")[0]
    if kind not in _all_entries() and Path(cfg.name).expanduser().is_dir():
        kind, cfg = "folder", replace(cfg, name=f"folder:{cfg.name}")
    if kind not in _all_entries():
        if cfg.name.endswith(".npz"):
            raise UserError(f"unknown data set {cfg.name!r}; did you mean 'npz:{cfg.name}'?")
        if "/" in cfg.name and ":" not in cfg.name:
            raise UserError(f"there is no folder {cfg.name}, nor a data set of this name")
        raise unknown("data set", kind, _all_entries())
    return _all_entries()[kind].read(cfg, fold)


def channel_statistics(images: Images) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Mean and standard deviation of each channel, of pixels scaled to 0..1."""
    # counting the 256 values keeps every sum an integer: the result does not depend on order or threads
    counts = torch.zeros(images.channels, 256, dtype=torch.int64)
    for chunk in images.chunks():
        for channel in range(images.channels):
            counts[channel] += torch.bincount(chunk[:, channel].flatten(), minlength=256)
    share = counts.double() / counts.sum(1, keepdim=True)
    value = torch.arange(256, dtype=torch.float64) / 255
    mean = share @ value
    variance = (share * (value - mean[:, None]).square()).sum(1)
    # a constant channel would divide by zero
    return tuple(mean.tolist()), tuple(variance.sqrt().clamp_min(1 / 255).tolist())


def _all_entries() -> dict[str, Entry]:
    from interlude.data import sources  # here, because the readers import this module

    for module in pkgutil.iter_modules(sources.__path__, f"{sources.__name__}."):
        importlib.import_module(module.name)
    return _entries
