"""Image files as users have them, good and bad, written when a test needs them."""

import io
import struct
import zlib
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image


def noise(height: int, width: int, channels: int = 3, seed: int = 0) -> Image.Image:
    """A picture that no two seeds share."""
    shape = (height, width) if channels == 1 else (height, width, channels)
    return Image.fromarray(np.random.default_rng(seed).integers(0, 256, shape, dtype=np.uint8))


def write(path: Path, image: Image.Image | None = None, **options: Any) -> Path:
    """Save an image, by default 8x8 colours that its path decides, in the format of its name."""
    path.parent.mkdir(parents=True, exist_ok=True)
    image = image or noise(8, 8, seed=sum(str(path).encode()))
    image.save(path, **options)
    return path


def encoded(image: Image.Image, kind: str, **options: Any) -> bytes:
    """The bytes of an image file."""
    file = io.BytesIO()
    image.save(file, kind, **options)
    return file.getvalue()


def bomb(side: int) -> bytes:
    """A small PNG that says it has side x side pixels."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", side, side, 8, 0, 0, 0, 0)
    data = zlib.compress(bytes(1 << 20))
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", data) + chunk(b"IEND", b"")


def class_folders(root: Path, *, per_class: int = 4, unlabeled: int = 6, names=("cat", "dog")) -> Path:
    """A folder of classes, with images that have none."""
    for name in names:
        for number in range(per_class):
            write(root / name / f"{number}.png")
    for number in range(unlabeled):
        write(root / "unlabeled" / f"{number}.png")
    return root
