"""Every kind of image file and table of labels that people have by mistake."""

import io
import os
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from image_files import bomb, encoded


def random_pixels(*shape: int, dtype: Any = np.uint8) -> NDArray[Any]:
    """Noise of this shape, the same each time."""
    return np.random.default_rng(5).integers(0, np.iinfo(dtype).max, shape, dtype)


UNREADABLE = {
    "empty.png": b"",
    "text.jpg": b"this is a letter",
    "truncated.png": encoded(Image.fromarray(random_pixels(48, 48, 3)), "PNG")[:900],
    "header.png": b"\x89PNG\r\n\x1a\n",
    "bomb.png": bomb(60_000),
    "page.webp": b"<html></html>",
}

# pictures in an unusual form, which are used, and what is said of them
ODD = {
    "cmyk.jpg": (Image.fromarray(random_pixels(48, 48, 4), "CMYK"), "CMYK"),
    "deep.png": (Image.fromarray(random_pixels(48, 48, dtype=np.uint16)), "more than 8 bits"),
    "float.tif": (Image.fromarray(random_pixels(48, 48).astype(np.float32)), "more than 8 bits"),
    "clear.png": (Image.fromarray(random_pixels(48, 48, 4)), "on white"),
}

NAMES = ["new\nline.png", "ключ.png", "a b;c,d.png", "[red]x[/red].png", "\x1b[31m.png"]

# tables of labels that cannot be used, and what is said of them
UNUSABLE = [
    ("name,label\na.png,x\n", "no column for the file: .* file_name,label; its first line has name, label"),
    (
        "image,colour\na.png,x\n",
        "no column for the label: name it label or .*; its first line has image, colour",
    ),
    ("", "is empty"),
    ("image,label\n", "names no image file"),
    (b"image,label\n\xff\xfea.png,x\n", "is not UTF-8"),
    (b"\x89PNG\0\0", "is not UTF-8|is no text"),
    (b"image,label\na\0b,c\n", "is no text"),
    ("image,label\n" + "x" * 200_000 + ",y\n", "cannot be read"),
]


def spoil(folder: Path) -> tuple[list[bytes], list[bytes]]:
    """Put one file of each kind into a folder; the names of those that are images, and of the others."""
    good, bad = [], []
    for name, content in UNREADABLE.items():
        (folder / name).write_bytes(content)
        bad.append(os.fsencode(name))
    for number, name in enumerate(NAMES):
        path = folder / name
        path.parent.mkdir(exist_ok=True)  # there is a slash in one of them
        path.write_bytes(b"" if number % 2 else picture(number))
        (bad if number % 2 else good).append(os.fsencode(path.name))
    for name, (image, _) in ODD.items():
        image.save(folder / name)
        good.append(os.fsencode(name))
    undecodable = os.fsencode(folder) + b"/\xff\xfe.png"
    with open(undecodable, "wb") as file:  # noqa: PTH123
        file.write(picture(9))
    good.append(b"\xff\xfe.png")
    return good, bad


def spoil_more(folder: Path) -> None:
    """Put what is no file, but is called like an image, into a folder."""
    os.mkfifo(folder / "pipe.png")
    (folder / "folder.png").mkdir()
    (folder / "nowhere.png").symlink_to("nothing.png")
    (folder / "loop.png").symlink_to("loop.png")
    (folder / "outside.png").symlink_to("/etc/hostname")
    (folder / "up").symlink_to(folder, target_is_directory=True)


def picture(number: int) -> bytes:
    """A small picture as a file, another one for each number."""
    pixels = np.random.default_rng(number).integers(0, 256, (24, 24), dtype=np.uint8)
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "PNG")
    return file.getvalue()
