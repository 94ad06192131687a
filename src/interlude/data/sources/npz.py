"""Images in a numpy file: x_train, y_train, x_test, y_test, and perhaps x_unlabeled and classes."""

import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np
import torch
from numpy.typing import NDArray

from interlude.data.images import UNKNOWN, Images
from interlude.data.options import DataConfig
from interlude.data.pixels import to_pixels
from interlude.data.source import Source, channel_statistics, dataset
from interlude.errors import UserError

Array = NDArray[Any]

REQUIRED = ("x_train", "y_train", "x_test", "y_test")
OPTIONAL = ("x_unlabeled", "classes")


@dataset("npz")
def npz(cfg: DataConfig) -> Source:
    """your own arrays: npz:FILE with x_train, y_train, x_test, y_test, optional x_unlabeled, classes"""
    file = cfg.name.partition(":")[2]
    if not file:
        raise UserError("say which file: npz:FILE")
    arrays = _read(Path(file).expanduser())
    names = _class_names(arrays, file)
    train = _images(arrays, ["x_train", "x_unlabeled"], "y_train", file)
    test = _images(arrays, ["x_test"], "y_test", file)
    if train.pixels.shape[1:] != test.pixels.shape[1:]:
        sizes = " and ".join("x".join(map(str, part.pixels.shape[1:])) for part in (train, test))
        raise UserError(
            f"{file}: x_train and x_test have images of different sizes (channels x height x width: {sizes})"
        )
    mean, std = channel_statistics(train)
    return Source(train, {"test": test}, num_classes=len(names), class_names=names, mean=mean, std=std)


def _read(path: Path) -> dict[str, Array]:
    """All arrays that we use; nothing in the file is ever unpickled."""
    with _reading(str(path), "the file"):
        file = np.load(path, allow_pickle=False)
    if not isinstance(file, np.lib.npyio.NpzFile):
        raise UserError(
            f"{path} holds a single array; save all arrays with numpy.savez(FILE, x_train=..., ...)"
        )
    with file:
        _check_keys(path, list(file.files))
        arrays = {}
        for key in (*REQUIRED, *OPTIONAL):
            if key in file.files:
                with _reading(str(path), key):
                    arrays[key] = file[key]
    return arrays


@contextmanager
def _reading(path: str, what: str) -> Iterator[None]:
    """Turn what numpy raises on files it cannot read into one line."""
    try:
        yield
    except FileNotFoundError:
        raise UserError(f"{path}: no such file") from None
    except ValueError as error:
        reason = "holds Python objects" if "pickle" in str(error) and what != "the file" else "cannot be read"
        raise UserError(f"{path}: {what} {reason}; save plain arrays with numpy.savez") from None
    except (OSError, EOFError, BadZipFile, zlib.error) as error:
        raise UserError(
            f"{path}: {what} cannot be read, it is damaged or not an npz file ({error})"
        ) from None


def _check_keys(path: Path, keys: list[str]) -> None:
    missing = [key for key in REQUIRED if key not in keys]
    if missing:
        raise UserError(f"{path}: {', '.join(missing)} missing; it has {', '.join(keys) or 'no arrays'}")
    for key in set(keys) - {*REQUIRED, *OPTIONAL}:
        if near := get_close_matches(key, [name for name in OPTIONAL if name not in keys], cutoff=0.8):
            raise UserError(f"{path}: unknown array {key!r}; did you mean {near[0]!r}?")


def _class_names(arrays: dict[str, Array], file: str) -> tuple[str, ...]:
    """The names of the classes; their numbers, where the file has no names."""
    for key in ("y_train", "y_test"):
        if not np.issubdtype(arrays[key].dtype, np.integer):
            raise UserError(f"{file}: {key} must hold integers 0, 1, 2, ..., not {arrays[key].dtype}")
    top = max(int(arrays[key].max(initial=0)) for key in ("y_train", "y_test"))
    if "classes" in arrays:
        if arrays["classes"].ndim != 1:
            raise UserError(f"{file}: classes must be a list of names, got shape {arrays['classes'].shape}")
        names = tuple(map(str, arrays["classes"].tolist()))
    else:
        names = tuple(map(str, range(top + 1)))
    if len(names) < 2:
        raise UserError(f"{file}: at least two classes are needed, found {len(names)}")
    for key, least in (("y_train", UNKNOWN), ("y_test", 0)):
        _check_range(arrays[key], f"{file}: {key}", least, len(names) - 1)
    return names


def _check_range(labels: Array, where: str, least: int, most: int) -> None:
    outside = labels[(labels < least) | (labels > most)]
    if outside.size:
        also = " (-1: no label)" if least == UNKNOWN else ""
        raise UserError(f"{where} has the label {outside.flat[0]}, but labels run from 0 to {most}{also}")


def _images(arrays: dict[str, Array], keys: list[str], label_key: str, file: str) -> Images:
    """One set of images out of one or two arrays; the images of the second have no labels."""
    parts = [to_pixels(arrays[key], name=f"{file}: {key}") for key in keys if key in arrays]
    first, labels = parts[0], arrays[label_key]
    if labels.shape not in ((len(first),), (len(first), 1)):
        raise UserError(
            f"{file}: {label_key} has shape {labels.shape}, but {keys[0]} has {len(first)} images"
        )
    if any(part.shape[1:] != first.shape[1:] for part in parts):
        raise UserError(f"{file}: {' and '.join(keys)} have images of different sizes")
    if (labels == UNKNOWN).all():
        raise UserError(f"{file}: {label_key} has no label at all, every entry is -1")
    pixels = torch.empty(sum(map(len, parts)), *first.shape[1:], dtype=torch.uint8)
    known = torch.full((len(pixels),), UNKNOWN)
    known[: len(first)] = torch.from_numpy(labels.reshape(-1).astype(np.int64))
    return Images(torch.cat(parts, out=pixels), known)
