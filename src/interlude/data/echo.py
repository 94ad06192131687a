"""Ultrasound pictures as the Heart2Heart benchmark takes them: grey squares of 112 pixels, in four views."""

import csv
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image, UnidentifiedImageError

from interlude.data.images import Images
from interlude.errors import UserError

VIEWS = ("PLAX", "PSAX", "A4C", "A2C")
SIDE = 112
GUIDE = "see docs/heart2heart.md"

Grey = NDArray[np.uint8]


def to_square(picture: Image.Image) -> Grey:
    """The picture in grey, its longest side scaled to 112 pixels, black to the right and below."""
    grey = picture.convert("L")
    width, height = grey.size
    if height > width:
        size = (max(1, int(SIDE * (width / height))), SIDE)
    else:
        size = (SIDE, max(1, int(SIDE * (height / width))))
    square = np.zeros((SIDE, SIDE), np.uint8)
    square[: size[1], : size[0]] = np.asarray(grey.resize(size, Image.Resampling.BICUBIC))
    return square


def stretch(grey: Grey) -> Grey:
    """The levels spread over 0..255, as matplotlib saves a grey picture."""
    low, high = grey.min(), grey.max()
    if low == high:
        return np.zeros_like(grey)
    share = (grey.astype(np.float32) - low) / np.float32(high - low)
    stretched: Grey = np.minimum(share * 256, 255).astype(np.uint8)
    return stretched


def open_picture(path: Path) -> Image.Image:
    """The picture in a file, read whole."""
    try:
        with Image.open(path) as picture:
            picture.load()
            return picture
    except (UnidentifiedImageError, OSError, SyntaxError) as error:
        reason = " ".join(str(error).split())
        raise UserError(f"{path} cannot be read as a picture ({reason}); fetch it again") from None


def squares(pictures: Iterable[Image.Image], count: int) -> Grey:
    """All pictures as squares in one array (count, 112, 112)."""
    pixels = np.empty((count, SIDE, SIDE), np.uint8)
    for row, picture in enumerate(pictures):
        pixels[row] = to_square(picture)
    return pixels


def to_images(pixels: Grey, labels: Sequence[int] | NDArray[Any]) -> Images:
    """Three equal channels, held in memory once."""
    grey = torch.from_numpy(pixels)[:, None]
    return Images(grey.expand(-1, 3, -1, -1), torch.as_tensor(np.asarray(labels, np.int64)))


def read_table(path: Path, columns: Sequence[str]) -> list[dict[str, str]]:
    """The rows of a CSV file that must have these columns."""
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            table = csv.DictReader(file)
            found = list(table.fieldnames or ())
            rows = list(table)
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror}; {GUIDE}") from None
    except (UnicodeDecodeError, csv.Error) as error:
        raise UserError(f"{path} is no CSV file ({error}); fetch it again") from None
    missing = [name for name in columns if name not in found]
    if missing:
        raise UserError(
            f"{path}: no column {', '.join(missing)}; it has {', '.join(found) or 'none'}; {GUIDE}"
        )
    if any(row[name] is None for row in rows for name in columns):
        raise UserError(f"{path}: a line is shorter than the first one; fetch the file again")
    return rows


def check_present(paths: Sequence[Path], table: Path) -> None:
    """Refuse a table that names files which are not there."""
    missing = [path for path in paths if not path.is_file()]
    if missing:
        raise UserError(
            f"{len(missing):,} of {len(paths):,} pictures named in {table} are not there, the first is "
            f"{missing[0]}; unpack all of the images, {GUIDE}"
        )


def count_note(what: str, found: int, published: int) -> str:
    """What to tell where there are more or fewer images than the benchmark had; empty if as many."""
    return "" if found == published else f"{what}: {found:,} images here, {published:,} in the benchmark"
