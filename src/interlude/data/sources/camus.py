"""CAMUS (Leclerc et al., 2019): apical views of 500 patients, a test set of the Heart2Heart benchmark."""

import re
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from torch.nn.functional import interpolate

from interlude.data.echo import GUIDE, VIEWS, Grey, squares, stretch, to_images
from interlude.data.images import Images
from interlude.data.metaimage import Picture, read_metaimage
from interlude.errors import UserError

NUM_IMAGES = 2000
VIEW_OF = {"2CH": "A2C", "4CH": "A4C"}
FRAME = re.compile(r"patient\d+_(2CH|4CH)_E[DS]\.mhd")


def camus(folder: Path) -> Images:
    """The end-diastolic and end-systolic frame of both views of each patient below the folder."""
    found = [(path, FRAME.fullmatch(path.name)) for path in sorted(folder.rglob("patient*.mhd"))]
    frames = [(path, VIEW_OF[match[1]]) for path, match in found if match]
    if not frames:
        raise UserError(
            f"{folder} holds no patientNNNN_2CH_ED.mhd or the like; unpack the .mhd/.raw release of CAMUS "
            f"there (NIfTI files are not read), {GUIDE}"
        )
    pictures = (Image.fromarray(stretch(with_square_pixels(read_metaimage(path)))) for path, _ in frames)
    return to_images(squares(pictures, len(frames)), [VIEWS.index(view) for _, view in frames])


def with_square_pixels(picture: Picture) -> Grey:
    """The pixels with the height scaled so that one is as high as wide; each from its two nearest lines."""
    height, width = picture.pixels.shape
    new_height = max(1, round(height * picture.pixel_height / picture.pixel_width))
    lines = torch.tensor(picture.pixels, dtype=torch.float32)[None, None]
    scaled: Grey = interpolate(lines, (new_height, width), mode="bilinear")[0, 0].round().numpy()
    return scaled.astype(np.uint8)
