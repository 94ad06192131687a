"""DICOM files as grey or colour pictures, with the extra interlude-ssl[dicom]."""

from importlib.util import find_spec
from io import BytesIO
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from interlude.data.unreadable import Unreadable

SUFFIXES = (".dcm", ".dicom")
MISSING = "it is DICOM, which needs: pip install 'interlude-ssl[dicom]'"


def is_dicom(content: bytes, name: str) -> bool:
    """Whether the bytes are DICOM by their mark, or by their name where old files have no mark."""
    return content[128:132] == b"DICM" or (name.lower().endswith(SUFFIXES) and not _is_common(content))


def _is_common(content: bytes) -> bool:
    """Whether the bytes begin like one of the common kinds of image."""
    return content.startswith((b"\xff\xd8\xff", b"\x89PNG", b"BM", b"RIFF", b"II*\0", b"MM\0*", b"GIF8"))


def can_read_dicom() -> bool:
    """Whether the package that reads DICOM is installed."""
    return find_spec("pydicom") is not None


def open_dicom(content: bytes, *, max_pixels: int) -> tuple[Image.Image, bool]:
    """The first frame as the file's window shows it, and whether there are more."""
    if not can_read_dicom():
        raise Unreadable(MISSING)
    import pydicom
    from pydicom.pixels.processing import apply_rescale
    from pydicom.pixels.utils import pixel_array

    file: Any = pydicom.dcmread(BytesIO(content), force=True)
    if "PixelData" not in file:
        raise Unreadable("it is DICOM without an image")
    if file.Rows * file.Columns > max_pixels:
        raise Unreadable(f"it has {file.Rows * file.Columns:,} pixels, more than the {max_pixels:,} allowed")
    several = int(file.get("NumberOfFrames") or 1) > 1
    values = pixel_array(file, index=0)
    if file.SamplesPerPixel == 3:
        return Image.fromarray(_bytes(values, 0, 2**file.BitsStored - 1)), several
    grey = _window(apply_rescale(values, file), file)
    return Image.fromarray(255 - grey if file.PhotometricInterpretation == "MONOCHROME1" else grey), several


def _window(values: NDArray[Any], file: Any) -> NDArray[np.uint8]:
    """Levels inside the file's first window; from the darkest to the brightest where it has none."""
    centre, width = (_first(file.get(name)) for name in ("WindowCenter", "WindowWidth"))
    if centre is None or width is None or width < 1:
        return _bytes(values, float(values.min()), float(values.max()))
    half = (width - 1) / 2  # PS3.3 C.11.2.1.2
    return _bytes(values, centre - 0.5 - half, centre - 0.5 + half)


def _first(value: Any) -> float | None:
    """A number, or the first of several."""
    if value is None or value == "":
        return None
    return float(value[0]) if hasattr(value, "__len__") and not isinstance(value, str) else float(value)


def _bytes(values: NDArray[Any], low: float, high: float) -> NDArray[np.uint8]:
    """Values between two levels as 0..255; those outside are cut."""
    share = (values.astype(np.float64) - low) / max(high - low, 1e-300)
    levels: NDArray[np.uint8] = np.rint(np.clip(share, 0, 1) * 255).astype(np.uint8)
    return levels
