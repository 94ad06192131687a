"""The images of a folder, decoded once at the training size into one file that is mapped into memory.

Beside the pixels lies an index: which file each row came from, its size and time of change, and a fingerprint
of its content. A file of the same size and time is taken as unchanged; another one is read, and decoded again
if its content is new. Rows are only ever added, so that a run in progress keeps what it trains on, and a row
enters the index after its pixels are on the disk, so that a killed run loses a second of work. Where the disk
is short of room, no pixels are kept, and files are decoded whenever they are needed.
"""

import os
import shutil
import sqlite3
import time
from collections.abc import Sequence
from contextlib import ExitStack, closing
from hashlib import blake2b
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from interlude import machine
from interlude.data.decode import Bytes, Fit, Unreadable, decode, read_bytes, read_pixels, to_pixels_of
from interlude.data.images import Pixels
from interlude.data.index import NO_ROW, Index, Known
from interlude.data.names import Names
from interlude.data.parallel import chunks, in_order
from interlude.data.problem import Problem, shown
from interlude.errors import RunError, UserError
from interlude.lock import held
from interlude.progress import Progress, note

VERSION = 1  # of how files become pixels; another one makes another store
CHUNK = 16  # files that a thread takes at once
FLUSH_SECONDS = 1.0  # how much work a kill may cost
SHOW_AFTER = 2.0  # seconds; quicker work needs no bar
DIGEST_BYTES = 16
ROOM = 0.9  # of the free disk that images may take; runs write to it too
WASTE = 2  # rows in the file for each that is in use, before it is made anew


class Shape(NamedTuple):
    """How images are stored."""

    channels: int
    side: int
    fit: Fit

    @property
    def num_bytes(self) -> int:
        """Of one image."""
        return self.channels * self.side * self.side


class Stored(NamedTuple):
    """The images of some files: which row of the pixels is each file's, -1 if it cannot be read."""

    pixels: Pixels
    rows: NDArray[np.int64]
    digests: NDArray[np.uint8]  # (files, 16)
    problems: list[Problem]


class InColour(Exception):
    """A colour image where all were taken for grey."""


class Outcome(NamedTuple):
    """What became of one file: an entry for the index, pixels unless they are stored already, or a reason."""

    file: int
    entry: Known | None
    pixels: Bytes | None = None
    reason: str = ""


def cache_folder() -> Path:
    """Where stores are kept."""
    return Path(os.environ.get("INTERLUDE_CACHE") or "~/.cache/interlude").expanduser() / "store"


def open_store(root: Path, paths: Sequence[str], shape: Shape, *, keep: bool = True) -> Stored:
    """The images of these files below `root`; what is not stored yet is decoded now, in parallel.

    With `keep=False` nothing but the index is stored: every file is decoded once to see that it can be, and
    again whenever its pixels are asked for. `InColour` is raised where one channel is not enough.
    """
    folder = cache_folder() / _name(root, shape)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with held(folder / "lock", waiting=_tell), closing(Index(folder / "index.sqlite")) as index:
            return _Opening(root, paths, shape, index, folder / "pixels" if keep else None).bring_up_to_date()
    except (OSError, sqlite3.OperationalError) as error:
        if not keep and not (folder / "index.sqlite").exists():
            with closing(Index(None)) as index:
                return _Opening(root, paths, shape, index, None).bring_up_to_date()
        reason = getattr(error, "strerror", None) or str(error)
        raise UserError(
            f"cannot keep decoded images in {folder} ({reason.lower()}): set INTERLUDE_CACHE to another "
            "folder, or decode at every step with --data.no-store"
        ) from None


def _tell(who: str) -> None:
    note(f"{who} is decoding these images; waiting for it")


def _name(root: Path, shape: Shape) -> str:
    """The folder of a store: that of the images, and a hash of its whole path."""
    place = blake2b(os.fsencode(root.resolve()), digest_size=6).hexdigest()
    return f"{root.resolve().name[:40]}-{place}-{shape.side}x{shape.channels}-{shape.fit}-v{VERSION}"


class _Opening:
    """One opening of a store; `file` is that of the pixels, None if they are not to be kept."""

    def __init__(
        self, root: Path, paths: Sequence[str], shape: Shape, index: Index, file: Path | None
    ) -> None:
        self.root, self.paths, self.shape, self.index, self.file = root, paths, shape, index, file
        self.rows = np.full(len(paths), NO_ROW, np.int64)
        self.digests = np.zeros((len(paths), DIGEST_BYTES), np.uint8)
        self.before: dict[int, Known] = {}  # what the index has on files that have changed since
        self.problems: list[Problem] = []
        self.threads = machine.threads().number

    def bring_up_to_date(self) -> Stored:
        """Decode what is missing, and map the pixels."""
        self._clear_waste()
        missing = self._compare()
        if missing and self.file is not None and not self._has_room(len(missing)):
            self.file = None
        if missing and self.file is not None:
            with closing(_Pixels(self.file, self.shape)) as pixels:
                self._decode(missing, pixels)
        elif missing:
            self._decode(missing, None)
        readable = self.digests.any(1)
        if self.file is None:
            self.rows[readable] = np.flatnonzero(readable)
            streamed = Streamed(self.root, Names(self.paths), self.shape, threads=self.threads)
            return Stored(streamed, self.rows, self.digests, self.problems)
        mapped = _map(self.file, self.shape, int(self.rows.max(initial=NO_ROW)) + 1)
        return Stored(mapped, self.rows, self.digests, self.problems)

    def _has_room(self, count: int) -> bool:
        """Whether the disk has room for so many more images; tells what is done if it has not."""
        assert self.file is not None
        needed, free = count * self.shape.num_bytes, shutil.disk_usage(self.file.parent).free
        if needed <= ROOM * free:
            return True
        note(
            f"warning: {count:,} images of {self.shape.side} pixels a side need {needed / 1e9:.1f} GB in "
            f"{self.file.parent}, where {free / 1e9:.1f} GB are free: they are decoded at every step "
            "instead, which is slower; INTERLUDE_CACHE may name a folder with room"
        )
        return False

    def _clear_waste(self) -> None:
        """Start anew where most rows are of files that have changed since."""
        if self.file is not None and _num_rows(self.file, self.shape) > WASTE * self.index.num_rows():
            self.index.clear()
            self.file.unlink()  # a run that has it mapped keeps it

    def _compare(self) -> list[int]:
        """Take what the index has on unchanged files; returns the others."""
        number = {os.fsencode(path): file for file, path in enumerate(self.paths)}
        num_rows = 0 if self.file is None else _num_rows(self.file, self.shape)
        unchanged = np.zeros(len(self.paths), bool)
        for entry in self.index:
            file = number.get(entry.path)
            if file is None or (self.file is not None and not 0 <= entry.row < num_rows):
                continue
            unchanged[file] = _key(f"{self.root}/{self.paths[file]}") == (entry.size, entry.changed)
            if unchanged[file]:
                self._take(file, entry)
            else:
                self.before[file] = entry
        missing: list[int] = np.flatnonzero(~unchanged).tolist()
        return missing

    def _decode(self, files: list[int], pixels: "_Pixels | None") -> None:
        """Read these files; what is new of them goes to the end of the pixels, and then into the index."""
        fresh: list[Known] = []
        due = time.monotonic() + FLUSH_SECONDS
        title = f"{'checking' if pixels is None else 'decoding'} {self.root.resolve().name}"
        with _Bar(title, len(files)) as bar:
            for outcomes in in_order(self._read, chunks(files, CHUNK), threads=self.threads):
                for file, entry, image, reason in outcomes:
                    if entry is None:
                        self.problems.append(Problem("unreadable", self.paths[file], reason))
                        continue
                    if image is not None and pixels is not None:
                        entry = entry._replace(row=pixels.add(image))
                    self._take(file, entry)
                    fresh.append(entry)
                bar.advance(len(outcomes))
                if time.monotonic() >= due:
                    self._save(fresh, pixels)
                    due = time.monotonic() + FLUSH_SECONDS
            self._save(fresh, pixels)

    def _save(self, fresh: list[Known], pixels: "_Pixels | None") -> None:
        if pixels is not None:
            pixels.flush()
        self.index.add(fresh)
        fresh.clear()

    def _take(self, file: int, entry: Known) -> None:
        self.rows[file] = entry.row
        self.digests[file] = np.frombuffer(entry.digest, np.uint8)

    def _read(self, files: Sequence[int]) -> list[Outcome]:
        return [self._read_one(file) for file in files]

    def _read_one(self, file: int) -> Outcome:
        """Read a file, and decode it if its content is new."""
        path = f"{self.root}/{self.paths[file]}"
        try:
            key = _key(path)
            content = read_bytes(path)
            assert key is not None, "a file that can be read has a size"
            digest = blake2b(content, digest_size=DIGEST_BYTES, person=self.shape.fit.encode()).digest()
            before = self.before.get(file)
            if before is not None and before.digest == digest:
                return Outcome(file, before._replace(size=key[0], changed=key[1]))
            picture = decode(content, path, side=self.shape.side)
        except Unreadable as error:
            return Outcome(file, None, reason=error.reason)
        if self.shape.channels == 1 and picture.mode != "L":
            raise InColour
        entry = Known(os.fsencode(self.paths[file]), *key, digest, NO_ROW)
        return Outcome(file, entry, to_pixels_of(picture, *self.shape))


class _Pixels:
    """The file of pixels, to which rows are added."""

    def __init__(self, path: Path, shape: Shape) -> None:
        self.file = path.open("ab")
        self.row = -(-self.file.tell() // shape.num_bytes)  # after a row that a kill cut short
        self.file.truncate(self.row * shape.num_bytes)

    def add(self, image: Bytes) -> int:
        """Write one image; returns its row."""
        self.file.write(image.data)
        self.row += 1
        return self.row - 1

    def flush(self) -> None:
        """Have all that was added on the disk."""
        self.file.flush()
        os.fsync(self.file.fileno())

    def close(self) -> None:
        self.file.close()


class Streamed:
    """Pixels that are decoded whenever they are taken: no disk, but the time of decoding at every step."""

    dtype = torch.uint8

    def __init__(self, root: Path, paths: Names, shape: Shape, *, threads: int) -> None:
        self.root, self.paths, self.form, self.threads = root, paths, shape, threads

    @property
    def shape(self) -> torch.Size:
        """(M, C, H, W), as that of a tensor."""
        return torch.Size((len(self.paths), self.form.channels, self.form.side, self.form.side))

    def __getitem__(self, rows: slice) -> Tensor:
        return self.index_select(0, torch.arange(len(self.paths))[rows])

    def index_select(self, dim: int, index: Tensor) -> Tensor:
        """The images of these rows."""
        assert dim == 0, dim
        images = in_order(self._image, index.tolist(), threads=self.threads)
        pixels = torch.empty(len(index), *self.shape[1:], dtype=torch.uint8)
        for row, image in enumerate(images):
            pixels[row] = torch.from_numpy(image)
        return pixels

    def _image(self, row: int) -> Bytes:
        try:
            return read_pixels(self.root / self.paths[row], *self.form)
        except Unreadable as error:
            raise RunError(
                f"{shown(self.paths[row])} was an image when the run began, and cannot be read now: "
                f"{error.reason}; put it back and go on with --resume"
            ) from None


class _Bar:
    """A progress bar for work that takes longer than a moment."""

    def __init__(self, title: str, total: int) -> None:
        self.title, self.total, self.done = title, total, 0
        self.began = time.monotonic()
        self.stack = ExitStack()
        self.progress: Progress | None = None

    def __enter__(self) -> "_Bar":
        return self

    def __exit__(self, *exception: object) -> None:
        self.stack.close()

    def advance(self, count: int) -> None:
        """Some more are done."""
        self.done += count
        seconds = time.monotonic() - self.began
        if self.progress is None and seconds > SHOW_AFTER:
            self.progress = self.stack.enter_context(Progress(self.title, self.total, unit="image"))
        if self.progress is not None:
            self.progress.show(self.done, {"images/s": self.done / seconds})


def _map(file: Path, shape: Shape, count: int) -> Tensor:
    """The first `count` images of the file, mapped: what is written to them stays in this process."""
    size = (count, shape.channels, shape.side, shape.side)
    if not count:
        return torch.empty(size, dtype=torch.uint8)
    return torch.from_numpy(np.memmap(file, np.uint8, "c", shape=size))


def _num_rows(file: Path, shape: Shape) -> int:
    return file.stat().st_size // shape.num_bytes if file.exists() else 0


def _key(path: str) -> tuple[int, int] | None:
    """Size and time of change of a file or of what is known of it; None where there is none."""
    try:
        status = os.stat(path)  # noqa: PTH116, as a million Path objects take longer than the question
    except (OSError, ValueError):
        return None
    # whoever writes into a file can set its own time back, but not that of its entry
    return status.st_size, max(status.st_mtime_ns, status.st_ctime_ns)
