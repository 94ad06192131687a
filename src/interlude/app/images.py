"""The images of a folder, known by their place in a sorted list, and small versions of them."""

import io
import os
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path
from typing import NamedTuple

from PIL import Image

from interlude.app.labels import Missing
from interlude.data.decode import Unreadable, decode, read_bytes
from interlude.data.walk import SUFFIXES, find_images
from interlude.errors import UserError
from interlude.files import write_whole

SIZES = (160, 320, 640)  # pixels of the longer side
TINY = 96  # pixels up to which a picture is sent as it is, without loss
QUALITY = 82

BROKEN = """<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 160 160" role="img">
<title>This file cannot be read</title><rect width="160" height="160" fill="#8883"/>
<path d="M50 50 110 110M110 50 50 110" stroke="#888" stroke-width="10" stroke-linecap="round"/></svg>
"""


class Thumbnail(NamedTuple):
    """A small version of a picture, ready to be sent; `broken` if it stands for one that cannot be read."""

    content: bytes
    kind: str
    broken: bool = False


class Album:
    """The images below a folder; small versions are kept in `cache`, unless that cannot be written."""

    def __init__(self, root: Path, cache: Path) -> None:
        self.root, self.cache = Path(os.path.realpath(root)), cache
        found, _ = find_images(self.root)
        self.paths = [path for path in found if _can_be_written_down(path)]
        self.num_left_out = len(found) - len(self.paths)
        if not self.paths:
            raise UserError(f"there is no image in {root}; its names must end in {', '.join(SUFFIXES)}")

    def __len__(self) -> int:
        return len(self.paths)

    def digest(self) -> str:
        """A fingerprint of the names."""
        return blake2b("\0".join(self.paths).encode(), digest_size=8).hexdigest()

    def file(self, row: int) -> Path:
        """Where an image is, links followed; refused if that is not below the folder."""
        if not 0 <= row < len(self.paths):
            raise Missing("there is no such image; load the page again")
        place = Path(os.path.realpath(self.root / self.paths[row]))
        if not place.is_relative_to(self.root):
            raise Missing("this file leads out of the folder")
        return place

    def picture(self, row: int, side: int) -> Image.Image:
        """A picture, upright, read in at least this size if it is that large."""
        place = self.file(row)
        return decode(read_bytes(place), place.name, side=side)

    def thumbnail(self, row: int, size: int) -> Thumbnail:
        """A picture of at most `size` pixels a side."""
        place = self.file(row)
        kept = self._kept(row, place, size)
        with suppress(OSError):
            return Thumbnail(kept.read_bytes(), "image/jpeg")
        try:
            picture = self.picture(row, size)
        except Unreadable:
            return Thumbnail(BROKEN.encode(), "image/svg+xml", broken=True)
        was_larger = max(picture.size) > size
        picture.thumbnail((size, size), Image.Resampling.BILINEAR, reducing_gap=2.0)
        small = _encoded(picture)
        if was_larger and small.kind == "image/jpeg":
            with suppress(OSError):  # it will be made again
                _keep(kept, small.content)
        return small

    def _kept(self, row: int, place: Path, size: int) -> Path:
        """Where the small version of a file of this age is kept."""
        try:
            status = place.stat()
            age = f"{status.st_mtime_ns}-{status.st_size}"
        except OSError:
            age = "gone"
        name = blake2b(f"{self.paths[row]}\0{age}".encode(), digest_size=12).hexdigest()
        return self.cache / str(size) / name[:2] / f"{name}.jpg"


def _can_be_written_down(path: str) -> bool:
    """Whether a table of labels can name this file: it is text, and no cell begins or ends with a space."""
    try:
        path.encode()
    except UnicodeEncodeError:
        return False
    return path == path.strip()


def _encoded(picture: Image.Image) -> Thumbnail:
    content = io.BytesIO()
    if max(picture.size) <= TINY:
        picture.save(content, "PNG")
        return Thumbnail(content.getvalue(), "image/png")
    picture.save(content, "JPEG", quality=QUALITY)
    return Thumbnail(content.getvalue(), "image/jpeg")


def _keep(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, content)
