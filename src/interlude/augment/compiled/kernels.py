"""Compiled loops that take one image after the other from bytes to what a network reads.

From crop to cutout an image stays in the processor's first cache as planes (C, (H + 2) * W): the pixels of
each channel between two rows of zeros. A row can thus be read from any offset, and the pixel behind a plane
is black. This module is imported when numba is wanted, and never before.
"""

from typing import NamedTuple

import numpy as np

from interlude.loops import Array, Number, at, kept, kernel

# Kinds of operations
LEAVE, WARP, SHARPNESS, AUTOCONTRAST, EQUALIZE, BRIGHTNESS, CONTRAST, COLOR, POSTERIZE, SOLARIZE = range(10)
FRACTION_BITS = 16  # of the numbers of a map

byte: Number = np.uint8
real: Number = np.float32
RED, GREEN, BLUE = real(19595 / 65536), real(38470 / 65536), real(7471 / 65536)
ZERO, HALF, FIVE, THIRTEEN, WHITE = real(0), real(0.5), real(5), real(13), real(255)


class Numbers(NamedTuple):
    """What becomes of images under an augmentation and its draw; a row for each row of the draw."""

    crops: Array  # int64 (N, 3): where the cut begins, down and across; whether it is mirrored
    reflect: bool  # at the edges, or black
    kinds: Array  # int64 (N, count): the operations, one after the other
    magnitudes: Array  # float64 (N, count)
    maps: Array  # int32 (N, count, 6): of the warps, in 1/65536; zeros for other kinds
    boxes: Array  # int64 (N, 4): top, left, bottom, right of what is painted, the last two outside
    fill: Array  # uint8 (C,)
    scale: Array  # float32 (C,): what bytes are multiplied by
    offset: Array  # float32 (C,): and what is added then


@kept
@kernel
def render(
    images: Array, width: int, numbers: Numbers, planes: Array, index: Array, lines: Array, views: Array
) -> None:
    """Write the view of each uint8 image (N, C, H * W) into its line of `views`, float32 (M, H * W * C).

    As many neighbours share a row of the numbers as there are images for each. `planes` (2, C, (H + 2) * W)
    are zeros to work in, `index` (count, H * W) is room for an index per slot.
    """
    view, spare = planes[0], planes[1]
    run = len(images) // max(1, len(numbers.crops))
    for i in range(len(images)):
        row = i // run
        top, left, mirrored = numbers.crops[row]
        if mirrored:
            turn(images[i], width, spare)
            cut(spare[:, width:-width], view, width, top, left, numbers.reflect)
        else:
            cut(images[i], view, width, top, left, numbers.reflect)
        for slot in range(len(index)):
            kind, fixed = numbers.kinds[row, slot], numbers.maps[row, slot]
            if kind == WARP and translates(fixed):
                top, left = fixed[5] >> FRACTION_BITS, fixed[2] >> FRACTION_BITS
                cut(view[:, width:-width], spare, width, top, left, False)
            elif kind == WARP:
                if i == row * run:
                    trace(index[slot], width, fixed)
                gather(view, spare, width, index[slot])
            elif kind == SHARPNESS:
                sharpen(view, spare, width, real(numbers.magnitudes[row, slot]))
            elif kind != LEAVE:
                recolor(view[:, width:-width], kind, numbers.magnitudes[row, slot])
            if kind in (WARP, SHARPNESS):
                view, spare = spare, view
        paint(view, width, numbers.boxes[row], numbers.fill)
        write(view, width, numbers.scale, numbers.offset, views[lines[i]])


@kernel
def turn(image: Array, width: int, planes: Array) -> None:
    """An image as planes, mirrored left and right."""
    for c in range(len(image)):
        for start in range(0, image.shape[1], width):
            for x in range(width):
                planes[c, at(width + start + x)] = image[c, at(start + width - 1 - x)]


@kernel
def cut(pixels: Array, planes: Array, width: int, top: int, left: int, reflect: bool) -> None:
    """Planes that begin at (top, left) of an image; what lies outside is reflected or black."""
    size = pixels.shape[1]
    height, shift = size // width, top * width + left
    rows, columns = outside(top, height), outside(left, width)
    for c in range(len(pixels)):
        source, target = pixels[c], planes[c, width:-width]
        # The image as a whole, as if its lines were one; then what lies outside, out of what lies inside.
        for p in range(max(0, -shift), min(size, size - shift)):
            target[at(p)] = source[at(p + shift)]
        for y in range(rows[0], rows[1]):
            to, inside = y * width, (mirror(y + top, height) - top) * width
            for x in range(width):
                target[at(to + x)] = target[at(inside + x)] if reflect else 0
        for x in range(columns[0], columns[1]):
            inside = mirror(x + left, width) - left
            for line in range(0, size, width):
                target[at(line + x)] = target[at(line + inside)] if reflect else 0


@kernel
def outside(start: int, size: int) -> tuple[int, int]:
    """The first position of a cut that lies outside an axis, and the one behind the last."""
    return (0, min(-start, size)) if start < 0 else (max(size - start, 0), size)


@kernel
def mirror(position: int, size: int) -> int:
    """A position outside 0..size-1 mirrored at the first or the last pixel."""
    return (size - 1) - abs(size - 1 - abs(position))


@kernel
def translates(fixed: Array) -> bool:
    """Whether a map moves the image as a whole."""
    one = 1 << FRACTION_BITS
    return bool(fixed[0] == one and fixed[1] == 0 and fixed[3] == 0 and fixed[4] == one)


@kernel
def trace(index: Array, width: int, fixed: Array) -> None:
    """Where on a plane a map finds each pixel; outside the image that is the pixel behind the plane."""
    height = len(index) // width
    for y in range(height):
        for x in range(width):
            column = (fixed[0] * x + fixed[1] * y + fixed[2]) >> FRACTION_BITS
            row = (fixed[3] * x + fixed[4] * y + fixed[5]) >> FRACTION_BITS
            inside = (column >= 0) & (column < width) & (row >= 0) & (row < height)
            index[at(y * width + x)] = width + (row * width + column if inside else height * width)


@kernel
def gather(source: Array, target: Array, width: int, index: Array) -> None:
    """Each pixel from where the index says."""
    for c in range(len(source)):
        for p in range(len(index)):
            target[c, at(width + p)] = source[c, at(index[p])]


@kernel
def recolor(pixels: Array, kind: int, magnitude: float) -> None:
    """Carry out an operation that looks at nothing but a pixel and figures of the whole image."""
    if kind == BRIGHTNESS:
        fade(pixels, ZERO, real(magnitude))
    elif kind == CONTRAST:
        fade(pixels, mean_grey(pixels), real(magnitude))
    elif kind == COLOR:
        bleach(pixels, real(magnitude))
    elif kind == POSTERIZE:
        keep_bits(pixels, min(max(int(magnitude), 1), 8))
    elif kind == SOLARIZE:
        invert_from(pixels, np.ceil(magnitude))
    else:
        table = np.empty(256, np.uint8)
        for plane in pixels:
            if kind == AUTOCONTRAST:
                stretch(plane, table)
            else:
                spread(plane, table)
            for p in range(len(plane)):
                plane[p] = table[plane[p]]


@kernel
def stretch(plane: Array, table: Array) -> None:
    """The table that stretches a plane to the full range; a constant one stays."""
    low, high = byte(255), byte(0)
    for value in plane:
        low, high = min(low, value), max(high, value)
    scale = 255.0 / (high - low) if high > low else 1.0
    begin = -float(low) * scale if high > low else 0.0
    for value in range(256):
        table[value] = byte(min(max(value * scale + begin, 0.0), 255.0))


@kernel
def spread(plane: Array, table: Array) -> None:
    """The table that spreads the values of a plane evenly; one with too little to spread stays."""
    count = np.empty(256, np.int64)
    for value in range(256):
        count[value] = 0
    for value in plane:
        count[value] += 1
    brightest = 255
    while count[brightest] == 0:
        brightest -= 1
    step = (len(plane) - count[brightest]) // 255
    below = 0
    for value in range(256):
        table[value] = min(int((step // 2 + below) / step), 255) if step > 0 else value
        below += count[value]


@kernel
def blend(start: Number, end: Number, factor: Number) -> Number:
    """Pillow's blend: float32, two roundings, then cut."""
    return byte(min(max((end - start) * factor + start, ZERO), WHITE))


@kernel
def luma(red: Number, green: Number, blue: Number) -> Number:
    """Pillow's grey. The sum is exact: a whole number of 1/65536 below 256."""
    return np.floor(real(red) * RED + real(green) * GREEN + real(blue) * BLUE + HALF)


@kernel
def mean_grey(pixels: Array) -> Number:
    """The mean of Pillow's grey, rounded."""
    red, green, blue = pixels[0], pixels[len(pixels) // 2], pixels[-1]
    total = 0
    for p in range(len(red)):
        total += int(luma(red[p], green[p], blue[p]))
    return real(np.floor(total / len(red) + 0.5))


@kernel
def fade(pixels: Array, grey: Number, factor: Number) -> None:
    """Blend every pixel with one grey."""
    for c in range(len(pixels)):
        for p in range(pixels.shape[1]):
            pixels[c, p] = blend(grey, real(pixels[c, p]), factor)


@kernel
def bleach(pixels: Array, factor: Number) -> None:
    """Blend every pixel with its own grey."""
    red, green, blue = pixels[0], pixels[len(pixels) // 2], pixels[-1]
    for p in range(len(red)):
        grey = luma(red[p], green[p], blue[p])
        red[p] = blend(grey, real(red[p]), factor)
        green[p] = blend(grey, real(green[p]), factor)
        blue[p] = blend(grey, real(blue[p]), factor)


@kernel
def keep_bits(pixels: Array, bits: int) -> None:
    """Clear all bits of every value but the highest ones."""
    kept = byte(255 >> (8 - bits) << (8 - bits))
    for c in range(len(pixels)):
        for p in range(pixels.shape[1]):
            pixels[c, p] &= kept


@kernel
def invert_from(pixels: Array, first: float) -> None:
    """Invert the values from the first on."""
    for c in range(len(pixels)):
        for p in range(pixels.shape[1]):
            value = pixels[c, p]
            pixels[c, p] = 255 - value if value >= real(first) else value


@kernel
def sharpen(source: Array, target: Array, width: int, factor: Number) -> None:
    """Blend with a smoothed version, whose outermost pixels are the image's own."""
    end = source.shape[1] - width
    for c in range(len(source)):
        for p in range(2 * width, end - width):
            above, below, centre = p - width, p + width, real(source[c, at(p)])
            total = (
                real(source[c, at(above - 1)]) + real(source[c, at(above)]) + real(source[c, at(above + 1)])
            )
            total += real(source[c, at(p - 1)]) + FIVE * centre + real(source[c, at(p + 1)])
            total += (
                real(source[c, at(below - 1)]) + real(source[c, at(below)]) + real(source[c, at(below + 1)])
            )
            target[c, at(p)] = blend(np.floor(total / THIRTEEN + HALF), centre, factor)
        for x in range(width):
            target[c, at(width + x)] = source[c, at(width + x)]
            target[c, at(end - width + x)] = source[c, at(end - width + x)]
        for p in range(width, end, width):
            target[c, at(p)] = source[c, at(p)]
            target[c, at(p + width - 1)] = source[c, at(p + width - 1)]


@kernel
def paint(planes: Array, width: int, box: Array, fill: Array) -> None:
    """A rectangle of one colour from (top, left) to (bottom, right), those two not included."""
    top, left, bottom, right = box
    for c in range(len(planes)):
        for y in range(top, bottom):
            start = width + y * width
            for p in range(start + left, start + right):
                planes[c, at(p)] = fill[c]


@kernel
def write(planes: Array, width: int, scale: Array, offset: Array, view: Array) -> None:
    """The planes as pixels of floats, scaled and moved for the network."""
    size = planes.shape[1] - 2 * width
    if len(planes) == 1:
        for p in range(size):
            view[p] = real(planes[0, at(width + p)]) * scale[0] + offset[0]
        return
    for p in range(size):
        view[at(3 * p)] = real(planes[0, at(width + p)]) * scale[0] + offset[0]
        view[at(3 * p + 1)] = real(planes[1, at(width + p)]) * scale[1] + offset[1]
        view[at(3 * p + 2)] = real(planes[2, at(width + p)]) * scale[2] + offset[2]
