"""Vectors on disk: found by what is in an image, added to and never rewritten.

A folder holds the vectors of one network. Each view has two files that only grow: NAME.f16, a row of float16
numbers for each image, and NAME.idx, the fingerprints of these images in the same order. A row counts once it
is whole in both, so that whatever ends a process leaves a cache that can be added to.
"""

import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from interlude.errors import RunError, UserError
from interlude.files import write_whole
from interlude.lock import held

Vectors = NDArray[np.float16]
ABOUT, LOCK = "about.json", "lock"
VECTORS, INDEX = ".f16", ".idx"
HASH_BYTES = 16


def default_folder(environ: Mapping[str, str] = os.environ) -> Path:
    """Where vectors are kept unless the user says where."""
    return Path(environ.get("INTERLUDE_CACHE") or "~/.cache/interlude/features").expanduser()


class Cache:
    """The vectors of one network, `width` numbers each; `about`, which JSON can hold, says which network."""

    def __init__(self, folder: Path, *, about: dict[str, Any], width: int) -> None:
        self.folder, self.width = folder, width
        self._row_bytes = width * np.dtype(np.float16).itemsize
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._introduce({**about, "width": width})
        except OSError as error:
            raise UserError(
                f"cannot keep vectors in {folder}: {error.strerror}; choose another folder by features.cache"
            ) from error

    def find(self, view: str, hashes: Sequence[bytes]) -> NDArray[np.int64]:
        """The row of each image in `vectors(view)`; -1 where there is none yet."""
        content = self._path(view, INDEX).read_bytes() if self.count(view) else b""
        ends = range(HASH_BYTES, self.count(view) * HASH_BYTES + 1, HASH_BYTES)
        row_of = {content[end - HASH_BYTES : end]: row for row, end in enumerate(ends)}
        return np.array([row_of.get(digest, -1) for digest in hashes], np.int64)

    def vectors(self, view: str) -> Vectors:
        """All rows of a view (n, width), mapped from the disk; what is written into them stays in memory."""
        shape = self.count(view), self.width
        if not shape[0]:
            return np.empty(shape, np.float16)
        return np.memmap(self._path(view, VECTORS), np.float16, "c", shape=shape)

    def count(self, view: str) -> int:
        """How many rows of a view are whole."""
        return min(
            _size(self._path(view, VECTORS)) // self._row_bytes, _size(self._path(view, INDEX)) // HASH_BYTES
        )

    def append(self, view: str, hashes: Sequence[bytes], vectors: Vectors) -> None:
        """Add rows to a view, after what a broken process may have left is cut off; call while `locked`."""
        rows = self.count(view)
        try:
            for ending, begin, content in (
                (VECTORS, rows * self._row_bytes, np.ascontiguousarray(vectors).data),
                (INDEX, rows * HASH_BYTES, b"".join(hashes)),
            ):
                with self._path(view, ending).open("ab") as file:
                    _write(file, begin, content)
        except OSError as error:
            raise RunError(
                f"cannot write vectors to {self.folder}: {error.strerror}; what is there is kept: make room, "
                "or choose another folder by features.cache, and start again"
            ) from error

    @contextmanager
    def locked(self, tell: Callable[[str], None] = lambda message: None) -> Iterator[None]:
        """Inside the block no other process adds to this folder; waits for one that does, and tells so."""
        words = "another process is extracting vectors of this network: waiting for it"
        with held(self.folder / LOCK, waiting=lambda who: tell(words)):
            yield

    def _introduce(self, about: dict[str, Any]) -> None:
        """Write down whose vectors these are, or check that they are those."""
        path = self.folder / ABOUT
        if not path.exists():
            strangers = [other.name for other in self.folder.iterdir() if other.suffix in (VECTORS, INDEX)]
            if strangers:
                raise self._damaged(f"it has vectors but no {ABOUT}")
            write_whole(path, json.dumps(about, indent=2) + "\n")
        try:
            found = json.loads(path.read_text(encoding="utf-8"))
        except ValueError as error:
            raise self._damaged(f"{ABOUT} cannot be read") from error
        if found != json.loads(json.dumps(about)):
            raise self._damaged(f"{ABOUT} speaks of another network")

    def _damaged(self, why: str) -> UserError:
        return UserError(f"the vectors in {self.folder} cannot be used, {why}: delete that folder")

    def _path(self, view: str, ending: str) -> Path:
        return self.folder / f"{view}{ending}"


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


def _write(file: BinaryIO, begin: int, content: bytes | memoryview) -> None:
    """Put content at `begin`, the end of what is whole, and on the disk before anything else is written."""
    file.truncate(begin)
    file.write(content)
    file.flush()
    os.fsync(file.fileno())
