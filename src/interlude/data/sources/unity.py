"""Unity Imaging (UK): echocardiogram frames of many scanners, a test set of the Heart2Heart benchmark."""

import re
from pathlib import Path

import numpy as np
from PIL import Image

from interlude.data.echo import GUIDE, VIEWS, open_picture, read_table, squares, stretch, to_images
from interlude.data.images import Images
from interlude.errors import UserError

NUM_IMAGES = 7231
KEPT = ("PLAX", "A4C", "A2C")  # the other views have no counterpart in TMED-2
PREFIX = re.compile(r"^\d\d-")  # of the image class, which some releases put before the name and some do not


def unity(folder: Path) -> Images:
    """The frames of the three views that `view_index.csv` names."""
    table = folder / "view_index.csv"
    rows = [row for row in read_table(table, ("file", "view")) if row["view"].upper() in KEPT]
    files = {_key(path.name): path for path in sorted((folder / "png-cache").rglob("*.png"))}
    missing = [row["file"] for row in rows if _key(row["file"]) not in files]
    if not rows:
        raise UserError(f"{table} names no picture of the views {', '.join(KEPT)}; {GUIDE}")
    if missing:
        raise UserError(
            f"{len(missing):,} of {len(rows):,} pictures named in {table} are not in png-cache, the first is "
            f"{missing[0]}; unpack all of png-cache.zip there, {GUIDE}"
        )
    pictures = (_stretched(open_picture(files[_key(row["file"])])) for row in rows)
    labels = [VIEWS.index(row["view"].upper()) for row in rows]
    return to_images(squares(pictures, len(rows)), labels)


def _key(file: str) -> str:
    return PREFIX.sub("", file)


def _stretched(picture: Image.Image) -> Image.Image:
    """A grey picture over all levels; one in colours as it is."""
    return Image.fromarray(stretch(np.asarray(picture))) if picture.mode == "L" else picture
