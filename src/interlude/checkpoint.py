"""The state of a run on disk: written whole or not at all, checked when read, plain values only."""

import contextlib
import errno
import hashlib
import math
import os
import warnings
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import Any

import torch
from torch import Tensor

from interlude.errors import NotFinite

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
    except (OSError, RuntimeError) as error:
        with contextlib.suppress(OSError):
            fresh.unlink(missing_ok=True)
        raise _of_the_disk(error) from error
    if (folder / LAST).exists():
        _keep(folder)
    fresh.replace(folder / LAST)


def _of_the_disk(error: BaseException) -> OSError:
    """The error of writing behind another one: torch's writer may stumble over what is missing then."""
    behind: BaseException | None = error
    while behind is not None:
        if isinstance(behind, OSError):
            return behind
        behind = behind.__context__
    return OSError(errno.EIO, " ".join(str(error).split()))


def _keep(folder: Path) -> None:
    """Give the last state its second name; where files can have but one, it loses the first."""
    link = folder / "previous.tmp"
    link.unlink(missing_ok=True)
    try:
        os.link(folder / LAST, link)
    except OSError:
        (folder / LAST).replace(link)
    link.replace(folder / PREVIOUS)


class Writer:
    """Writes checkpoints while training goes on, one at a time; after the `with` block all are on disk.

    An error of writing is raised by the next call, or by the end of a block that ends well.
    """

    def __init__(self, folder: Path, *, saved: int) -> None:
        self.folder = folder
        self.saved = saved  # the last step whose file is known to be complete
        self._thread = ThreadPoolExecutor(1, "checkpoint")
        self._pending: Future[int] | None = None

    def save(self, state: Mapping[str, Any]) -> None:
        """Take a copy of `state` and have it written; waits for the one before."""
        self.wait()
        self._pending = self._thread.submit(self._write, snapshot(state))

    def _write(self, state: dict[str, Any]) -> int:
        save(self.folder, state)
        return int(state["step"])

    def check(self) -> None:
        """Take note of a write that has ended, without waiting for one."""
        if self._pending is not None and self._pending.done():
            self.wait()

    def wait(self) -> None:
        """Until all that was given is on disk."""
        pending, self._pending = self._pending, None
        if pending is not None:
            self.saved = pending.result()

    def __enter__(self) -> "Writer":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        at_once = kind is KeyboardInterrupt  # by a second Ctrl-C, perhaps because the write hangs
        self._thread.shutdown(wait=not at_once)
        with contextlib.suppress(OSError) if error else contextlib.nullcontext():
            self.check() if at_once else self.wait()


def snapshot(state: Mapping[str, Any]) -> dict[str, Any]:
    """A copy of a nested state in the memory of the CPU; tensors that were one stay one."""
    copies: dict[Any, Tensor] = {}

    def copy(value: Any) -> Any:
        if isinstance(value, Tensor):
            key = value.data_ptr(), value.dtype, value.shape, value.stride()
            if key not in copies:
                copies[key] = value.detach().to("cpu", copy=True)
            return copies[key]
        if isinstance(value, Mapping):
            return {name: copy(item) for name, item in value.items()}
        if isinstance(value, list | tuple):
            return type(value)(copy(item) for item in value)
        return value

    return {name: copy(item) for name, item in state.items()}


def load(folder: Path) -> tuple[dict[str, Any] | None, list[str]]:
    """The newest good state, or None where nothing was saved yet; and what had to be passed over."""
    passed_over: list[str] = []
    for name in (LAST, PREVIOUS):
        if not (folder / name).exists():
            continue
        try:
            return read(folder / name), passed_over
        except Damaged as damage:
            passed_over.append(str(damage))
    if passed_over:
        raise Damaged("; ".join(passed_over))
    return None, passed_over


def read(path: Path) -> dict[str, Any]:
    """The state in one file; `Damaged` unless its checksum holds."""
    try:
        with warnings.catch_warnings(action="ignore"):
            state = torch.load(path, map_location="cpu", weights_only=True)
        checksum = str(state.pop("checksum"))
        found = digest(state)
    except Exception as error:  # whatever torch makes of bytes that may be any
        raise Damaged(f"{path} is damaged ({type(error).__name__})") from error
    if found != checksum:
        raise Damaged(f"{path} is damaged (its checksum does not match)")
    return dict(state)


def check_finite(weights: Mapping[str, Tensor], step: int) -> None:
    """Raise `NotFinite` if a weight is no number after so many steps."""
    largest = {
        name: value.detach().abs().amax().float()  # NaN if one of them is
        for name, value in weights.items()
        if value.is_floating_point() and value.numel()
    }
    for name, size in zip(largest, torch.stack([*largest.values()]).tolist(), strict=True):
        if not math.isfinite(size):
            raise NotFinite(f"the weight '{name}' became {size} by step {step}")


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
