"""Scale all images of a set to one size."""

import torch
from torch.nn.functional import interpolate

from interlude.data.images import Images


def resize(images: Images, side: int) -> Images:
    """The images at `side` x `side` pixels, bilinear, antialiased where they shrink."""
    if images.image_size == (side, side):
        return images
    shrinks = side < max(images.image_size)  # where they grow, plain weights are exact on every machine
    pixels = torch.empty(len(images), images.channels, side, side, dtype=torch.uint8)
    start = 0
    for chunk in images.chunks():
        scaled = interpolate(chunk.float(), (side, side), mode="bilinear", antialias=shrinks)
        pixels[start : start + len(chunk)] = scaled.round_().clamp_(0, 255)
        start += len(chunk)
    return Images(pixels, images.labels_of())
