"""The state of a run on disk: written whole or not at all, checked when read, plain values only."""

import contextlib
import hashlib
import os
import pickle
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

LAST, PREVIOUS = "last.pt", "previous.pt"


class Damaged(Exception):
    """A checkpoint file that cannot be read or does not hold what was written."""


def save(folder: Path, state: Mapping[str, Any]) -> None:
    """Write `last.pt`, keeping the one before as `previous.pt`; at no moment is there no good file."""
    folder.mkdir(parents=True, exist_ok=True)
    fresh = folder / "fresh.tmp"
    try:
        with fresh.open("wb") as file:
            torch.save({**state, "checksum": digest(state)}, file)
            file.flush()
            os.fsync(file.fileno())
    except OSError:
        with contextlib.suppress(OSError):
            fresh.unlink(missing_ok=True)
        raise
    if (folder / LAST).exists():
        link = folder / "previous.tmp"
        link.unlink(missing_ok=True)
        os.link(folder / LAST, link)
        link.replace(folder / PREVIOUS)
    fresh.replace(folder / LAST)


def load(folder: Path) -> tuple[dict[str, Any] | None, list[str]]:
    """The newest good state, or None where nothing was saved yet; and what had to be passed over."""
    warnings: list[str] = []
    for name in (LAST, PREVIOUS):
        if not (folder / name).exists():
            continue
        try:
            return read(folder / name), warnings
        except Damaged as damage:
            warnings.append(str(damage))
    if warnings:
        raise Damaged("; ".join(warnings))
    return None, warnings


def read(path: Path) -> dict[str, Any]:
    """The state in one file; `Damaged` unless its checksum holds."""
    try:
        state = torch.load(path, map_location="cpu", weights_only=True)
        checksum = state.pop("checksum")
    except (
        OSError,
        RuntimeError,
        EOFError,
        KeyError,
        ValueError,
        AttributeError,
        TypeError,
        pickle.UnpicklingError,
    ) as error:
        raise Damaged(f"{path} is damaged ({type(error).__name__})") from error
    if digest(state) != checksum:
        raise Damaged(f"{path} is damaged (its checksum does not match)")
    return dict(state)


def digest(state: Any) -> str:
    """A hash of nested dicts and lists of tensors, numbers and strings."""
    hasher = hashlib.blake2b(digest_size=16)
    _feed(hasher, state)
    return hasher.hexdigest()


def _feed(hasher: hashlib.blake2b, value: Any) -> None:
    if isinstance(value, Tensor):
        data = value.detach().cpu().contiguous()
        hasher.update(f"{data.dtype}{tuple(data.shape)}".encode())
        hasher.update(data.reshape(-1).view(torch.uint8).numpy().data)
    elif isinstance(value, Mapping):
        hasher.update(f"dict{len(value)}".encode())
        for key, item in value.items():
            hasher.update(f"{key!r}:".encode())
            _feed(hasher, item)
    elif isinstance(value, list | tuple):
        hasher.update(f"list{len(value)}".encode())
        for item in value:
            _feed(hasher, item)
    else:
        hasher.update(f"{value!r};".encode())
