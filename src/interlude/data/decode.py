"""An image file of a user as an upright 8-bit picture, whatever it is, or the reason why it cannot be one.

The content decides what a file is, not its name. Choices made here, for training and prediction alike:
transparent places are shown on white; 16-bit and float images are stretched from their darkest to their
brightest pixel; of several frames or pages the first is taken; DICOM is shown through its own window.
"""

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path, PurePath
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageOps, UnidentifiedImageError

from interlude.data.dicom import is_dicom, open_dicom
from interlude.data.hushed import hushed
from interlude.data.unreadable import Unreadable

Fit = Literal["crop", "pad", "squash"]
Bytes = NDArray[np.uint8]

MAX_PIXELS = 178_956_970  # where Pillow too takes an image for an attack
MAX_BYTES = 1 << 30
# none of these runs another program, as EPS does
FORMATS = ("JPEG", "PNG", "BMP", "WEBP", "TIFF", "GIF", "PPM", "JPEG2000")
NAMES = {
    ".jpg": "JPEG",
    ".jpeg": "JPEG",
    ".png": "PNG",
    ".bmp": "BMP",
    ".webp": "WEBP",
    ".tif": "TIFF",
    ".tiff": "TIFF",
    ".dcm": "DICOM",
    ".dicom": "DICOM",
}
DEEP = ("I", "F")  # modes of more than 8 bits start with one of these
GREY = ("1", "L", "LA", "La")
MARGIN = 2  # a JPEG may be read at a fraction of its size, as long as it stays so many times what is needed

__all__ = [
    "NAMES",
    "Fit",
    "Look",
    "Unreadable",
    "decode",
    "full_size",
    "look",
    "open_image",
    "read_bytes",
    "read_pixels",
    "remarks",
    "to_pixels_of",
]


def open_image(path: Path | str) -> Image.Image:
    """The picture in a file, upright, in mode "L" or "RGB"; `Unreadable` if there is none."""
    return decode(read_bytes(path), str(path))


def read_pixels(path: Path | str, channels: int, side: int, fit: Fit = "crop") -> Bytes:
    """The picture in a file as a network takes it, uint8 (C, side, side)."""
    return to_pixels_of(decode(read_bytes(path), str(path), side=side), channels, side, fit)


class Look(NamedTuple):
    """What the first bytes of a file say of its picture."""

    width: int
    height: int
    grey: bool


def look(path: Path | str) -> Look:
    """The size of a picture and whether it is grey, without decoding it where that is possible."""
    content = read_bytes(path)
    if not content:
        raise Unreadable("the file is empty")
    if is_dicom(content, str(path)):
        picture = decode(content, str(path))
        return Look(*picture.size, picture.mode == "L")
    with _plain_words(), Image.open(BytesIO(content), formats=FORMATS) as file:
        return Look(*file.size, file.mode in GREY or file.mode.startswith(DEEP))


def remarks(image: Image.Image) -> tuple[str, ...]:
    """What is odd about the file that a picture was decoded from, in a few words each."""
    notes: tuple[str, ...] = image.info.get("remarks", ())
    return notes


def full_size(image: Image.Image) -> tuple[int, int]:
    """Width and height of the picture in the file, of which `decode` may have given a smaller version."""
    size: tuple[int, int] = image.info.get("full_size", image.size)
    return size


def _oriented(size: tuple[int, int], picture: Image.Image) -> tuple[int, int]:
    """A size, its longer side where that of the picture is."""
    short, long = sorted(size)
    return (long, short) if picture.width > picture.height else (short, long)


def read_bytes(path: Path | str) -> bytes:
    """The content of an ordinary file of a size that an image can have."""
    try:
        with open(path, "rb", opener=_without_waiting) as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode):
                raise Unreadable("it is no ordinary file")
            if status.st_size > MAX_BYTES:
                raise Unreadable(f"it has {status.st_size:,} bytes, more than the {MAX_BYTES:,} allowed")
            return file.read()
    except IsADirectoryError:
        raise Unreadable("it is a folder, not an image") from None
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path
        raise Unreadable((getattr(error, "strerror", None) or str(error)).lower()) from None


def _without_waiting(path: str, flags: int) -> int:
    """Open a file as `open` does; a pipe called a.png must not hold us up."""
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))


def decode(content: bytes, name: str, *, side: int | None = None) -> Image.Image:
    """The picture that these bytes are, upright, in mode "L" or "RGB".

    Where only `side` pixels a side are wanted in the end, a large JPEG is read at a fraction of its size.
    """
    if not content:
        raise Unreadable("the file is empty")
    with _plain_words():
        if is_dicom(content, name):
            picture, several = open_dicom(content, max_pixels=MAX_PIXELS)
            found, full = "DICOM", picture.size
        else:
            with Image.open(BytesIO(content), formats=FORMATS) as file:
                _check_size(file)
                full = file.size
                if side is not None:
                    file.draft(None, (MARGIN * side, MARGIN * side))
                file.load()
                found, several = file.format or "", getattr(file, "is_animated", False)
                picture = _upright(file)
        changes = _changes(picture)
        picture = _eight_bits(picture)
    notes = (*_remarks(name, found, several=several), *changes)
    picture.info = {"remarks": notes, "full_size": _oriented(full, picture)}
    return picture


@contextmanager
def _plain_words() -> Iterator[None]:
    """Turn whatever a decoder raises or warns of into `Unreadable`, or silence."""
    try:
        with hushed():
            yield
    except Unreadable:
        raise
    except UnidentifiedImageError:
        raise Unreadable("it is not an image, or of a kind that is not known here") from None
    except Image.DecompressionBombError as error:
        raise Unreadable(f"it is too large: {error}") from None
    except MemoryError:
        raise Unreadable("there is not enough memory to decode it") from None
    except Exception as error:  # decoders fail in every way there is when a file is damaged
        reason = " ".join(str(error).split()) or type(error).__name__
        raise Unreadable(f"it is cut short or damaged ({reason})") from None


def _check_size(picture: Image.Image) -> None:
    pixels = picture.width * picture.height
    if pixels > MAX_PIXELS:
        raise Unreadable(f"it has {pixels:,} pixels, more than the {MAX_PIXELS:,} allowed; scale it down")


def _upright(picture: Image.Image) -> Image.Image:
    """The picture as its EXIF data says it is to be held; damaged EXIF data say nothing."""
    try:
        return ImageOps.exif_transpose(picture)
    except Exception:  # as above: the pixels are whole, what is damaged is beside them
        return picture.copy()


def _eight_bits(picture: Image.Image) -> Image.Image:
    """The picture in mode "L" or "RGB"."""
    if picture.mode.startswith(DEEP):
        return Image.fromarray(stretch(np.asarray(picture)))
    if picture.mode in ("L", "RGB") and "transparency" not in picture.info:
        return picture
    if picture.has_transparency_data:
        grey = picture.mode in GREY
        layer = picture.convert("RGBA")
        white = Image.new("RGBA", layer.size, "white")
        return Image.alpha_composite(white, layer).convert("L" if grey else "RGB")
    return picture.convert("L" if picture.mode in GREY else "RGB")


def _changes(picture: Image.Image) -> tuple[str, ...]:
    """What `_eight_bits` does to a picture that can be seen, in a few words."""
    if picture.mode.startswith(DEEP):
        return ("of more than 8 bits, stretched from its darkest to its brightest pixel",)
    if picture.has_transparency_data:
        return ("its transparent places, if there are any, are shown on white",)
    if picture.mode not in (*GREY, "RGB", "P"):
        return (f"its colours are turned from {picture.mode} into RGB",)
    return ()


def stretch(values: NDArray[np.generic]) -> Bytes:
    """Values of any range spread over 0..255, their finite minimum and maximum at the ends."""
    numbers = values.astype(np.float64)
    finite = np.isfinite(numbers)
    if not finite.any():
        raise Unreadable("none of its pixels is a number")
    low, high = numbers[finite].min(), numbers[finite].max()
    share = (np.clip(np.where(finite, numbers, low), low, high) - low) / max(high - low, 1e-300)
    spread: Bytes = np.rint(share * 255).astype(np.uint8)
    return spread


def _remarks(name: str, found: str, *, several: bool) -> tuple[str, ...]:
    """What is odd about a file."""
    notes = []
    found = "JPEG" if found == "MPO" else found
    suffix = PurePath(name).suffix.lower()
    if NAMES.get(suffix, found) != found:
        notes.append(f"named {suffix}, but it is {found}")
    if several:
        notes.append("the first of several frames is taken")
    return tuple(notes)


def to_pixels_of(image: Image.Image, channels: int, side: int, fit: Fit = "crop") -> Bytes:
    """A picture as uint8 (channels, side, side).

    `crop` scales the shorter side and keeps the centre, as torchvision and timm do; `pad` keeps all of the
    picture between black bars; `squash` changes its proportions. Bilinear, antialiased.
    """
    image = image.convert("L" if channels == 1 else "RGB")
    if fit == "pad":
        image = ImageOps.pad(image, (side, side), Image.Resampling.BILINEAR)
    elif image.size != (side, side):
        box = _centre(*image.size) if fit == "crop" else None
        image = image.resize((side, side), Image.Resampling.BILINEAR, box=box)
    pixels = np.asarray(image)
    return pixels[None].copy() if channels == 1 else np.ascontiguousarray(pixels.transpose(2, 0, 1))


def _centre(width: int, height: int) -> tuple[float, float, float, float]:
    """The largest square in the middle."""
    short = min(width, height)
    left, top = (width - short) / 2, (height - short) / 2
    return left, top, left + short, top + short
