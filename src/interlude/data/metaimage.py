"""Pictures in the MetaImage format: a text header (.mhd) beside a file of plain or packed bytes (.raw)."""

import zlib
from math import prod
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from interlude.errors import UserError


class Picture(NamedTuple):
    """A grey picture and the extent of its pixels."""

    pixels: NDArray[np.uint8]  # (height, width)
    pixel_width: float
    pixel_height: float


def read_metaimage(path: Path) -> Picture:
    """The picture of an .mhd file; of a stack, the first one."""
    header = _read_header(path)
    try:
        size = [int(number) for number in header["DimSize"].split()]
        spacing = [float(number) for number in header.get("ElementSpacing", "1 1").split()]
        kind, file = header["ElementType"], path.with_name(header["ElementDataFile"])
    except KeyError as missing:
        raise UserError(f"{path}: the header has no {missing.args[0]}; fetch the file again") from None
    except ValueError:
        raise UserError(f"{path}: the header has sizes that are no numbers; fetch the file again") from None
    if kind != "MET_UCHAR" or header.get("ElementNumberOfChannels", "1") != "1":
        raise UserError(f"{path}: only pictures of one byte a pixel (MET_UCHAR) can be read, this has {kind}")
    if len(size) not in (2, 3) or min(size) < 1 or len(spacing) < 2 or min(spacing) <= 0:
        raise UserError(f"{path}: DimSize {size} with spacing {spacing} is no picture; fetch the file again")
    content = _read_bytes(file, packed=header.get("CompressedData", "False") == "True")
    if len(content) != prod(size):
        raise UserError(
            f"{file} has {len(content):,} bytes, but {path.name} announces {prod(size):,}; fetch it again"
        )
    pixels: NDArray[Any] = np.frombuffer(content, np.uint8)
    return Picture(pixels.reshape(-1, size[1], size[0])[0], spacing[0], spacing[1])


def _read_header(path: Path) -> dict[str, str]:
    try:
        lines = path.read_text(encoding="ascii").splitlines()
    except (OSError, UnicodeDecodeError):
        raise UserError(f"{path} cannot be read or is no MetaImage header; fetch the file again") from None
    pairs = (line.partition("=") for line in lines)
    return {key.strip(): value.strip() for key, sign, value in pairs if sign}


def _read_bytes(path: Path, *, packed: bool) -> bytes:
    try:
        content = path.read_bytes()
        return zlib.decompress(content) if packed else content
    except OSError as error:
        raise UserError(f"{path} cannot be read ({error.strerror}); it belongs to the .mhd file") from None
    except zlib.error:
        raise UserError(f"{path} is damaged; fetch the file again") from None
