"""One look at every image file: can it be read, what size and colours has it, what are its fingerprints."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from interlude.data.decode import Unreadable, decode, full_size, read_bytes, remarks
from interlude.data.parallel import in_order
from interlude.doctor.alike import SIDE, Thumbnails
from interlude.machine import threads
from interlude.progress import Progress

SEEN = 128  # pixels a side that are enough to look at; a large JPEG is read five times as fast
FLAT = 8  # grey levels between darkest and brightest pixel that compression alone can make


class Look(NamedTuple):
    """What is seen of one readable file."""

    size: tuple[int, int]  # width, height
    channels: int
    flat: bool  # of a single colour
    pixels: int  # fingerprint of the picture as it was read
    thumbnail: Thumbnails
    remarks: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class Scan:
    """What is seen of all files, in columns; about 160 bytes for each. Unreadable ones have size 0."""

    sizes: NDArray[np.int32]  # (n, 2) width, height
    channels: NDArray[np.uint8]
    flat: NDArray[np.bool_]
    pixels: NDArray[np.uint64]
    thumbnails: Thumbnails  # (n, SIDE * SIDE)
    unreadable: dict[int, str] = field(default_factory=dict)  # row: reason
    remarks: dict[int, tuple[str, ...]] = field(default_factory=dict)

    @property
    def readable(self) -> NDArray[np.bool_]:
        """Which rows hold a picture."""
        return np.asarray(self.channels > 0)

    def note(self, row: int, look: Look | str) -> None:
        """Enter what was seen of a file, or why it cannot be read."""
        if isinstance(look, str):
            self.unreadable[row] = look
            return
        self.sizes[row], self.channels[row], self.flat[row] = look.size, look.channels, look.flat
        self.pixels[row], self.thumbnails[row] = look.pixels, look.thumbnail
        if look.remarks:
            self.remarks[row] = look.remarks


def scan(root: Path, paths: Sequence[str], *, quiet: bool = False) -> Scan:
    """Look at all files once, on all cores; only figures and thumbnails stay in memory."""
    count = len(paths)
    seen = Scan(
        np.zeros((count, 2), np.int32),
        np.zeros(count, np.uint8),
        np.zeros(count, np.bool_),
        np.zeros(count, np.uint64),
        np.zeros((count, SIDE * SIDE), np.uint8),
    )
    files = (root / path for path in paths)
    with Progress("looking at images", count, unit="image", quiet=quiet) as progress:
        for row, found in enumerate(in_order(look, files, threads=threads().number)):
            seen.note(row, found)
            progress.show(row + 1, {"unreadable": len(seen.unreadable)})
    return seen


def look(path: Path) -> Look | str:
    """What is seen of a file, or why it cannot be read."""
    try:
        picture = decode(read_bytes(path), str(path), side=SEEN)
    except Unreadable as error:
        return error.reason
    return Look(
        full_size(picture),
        len(picture.getbands()),
        is_flat(picture),
        fingerprint(picture),
        thumbnail(picture),
        remarks(picture),
    )


def fingerprint(picture: Image.Image) -> int:
    """64 bits that differ where any pixel does; files of the same bytes have the same."""
    digest = blake2b(repr((picture.mode, picture.size, full_size(picture))).encode(), digest_size=8)
    digest.update(picture.tobytes())
    return int.from_bytes(digest.digest())


def is_flat(picture: Image.Image) -> bool:
    """Whether a picture shows a single colour."""
    bands = picture.split() if picture.mode != "L" else (picture,)
    ranges = [band.getextrema() for band in bands]
    return all(high - low <= FLAT for low, high in ranges)  # type: ignore[operator]


def thumbnail(picture: Image.Image) -> Thumbnails:
    """A picture in grey, scaled to SIDE x SIDE whatever its proportions, in one row."""
    small = picture.resize((SIDE, SIDE), Image.Resampling.BILINEAR, reducing_gap=2.0)
    return np.asarray(small.convert("L")).reshape(-1)
