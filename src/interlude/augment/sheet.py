"""A contact sheet: images and their views, group by group, in one PNG a person can look at."""

import io
from collections.abc import Mapping, Sequence
from pathlib import Path

from PIL import Image, ImageDraw, ImageFont
from torch import Tensor

from interlude.files import write_whole

TILE = 64  # images are enlarged by a whole factor to at least about this many pixels
GAP, MARGIN, TEXT = 4, 16, 13
PAPER, INK, FAINT = (255, 255, 255), (30, 30, 30), (120, 120, 120)


def sheet(
    groups: Sequence[Mapping[str, Tensor]],
    path: Path,
    *,
    titles: Sequence[str] = (),
    columns: Sequence[str] = (),
) -> None:
    """Write one PNG: per group a title and, for each row title, a strip of uint8 images (n, C, H, W).

    `titles` names the groups (else "group 0" and so on); `columns` names the columns above every group.
    """
    titles = titles or [f"group {i}" for i in range(len(groups))]
    blocks = [_block(group, title, columns) for group, title in zip(groups, titles, strict=True)]
    width = max(block.width for block in blocks) + 2 * MARGIN
    page = Image.new("RGB", (width, sum(block.height + MARGIN for block in blocks) + MARGIN), PAPER)
    top = MARGIN
    for block in blocks:
        page.paste(block, (MARGIN, top))
        top += block.height + MARGIN
    file = io.BytesIO()
    page.save(file, "PNG")
    write_whole(path, file.getvalue())


def _block(group: Mapping[str, Tensor], title: str, columns: Sequence[str]) -> Image.Image:
    """One group: its title, the names of the columns, and one strip per row title."""
    font = ImageFont.load_default(TEXT)
    strips = {name: [_tile(image) for image in images] for name, images in group.items()}
    tile_width, tile_height = next(tile.size for strip in strips.values() for tile in strip)
    left = max(int(font.getlength(name)) for name in strips) + 2 * GAP
    top = TEXT + 2 * GAP + (TEXT + GAP if columns else 0)
    across = max(len(strip) for strip in strips.values())
    size = (
        max(left + across * (tile_width + GAP) - GAP, int(font.getlength(title))),
        top + len(strips) * (tile_height + GAP) - GAP,
    )
    block = Image.new("RGB", size, PAPER)
    pen = ImageDraw.Draw(block)
    pen.text((0, 0), title, INK, font)
    for i, name in enumerate(columns):
        pen.text((left + i * (tile_width + GAP), TEXT + 2 * GAP), name, FAINT, font)
    for j, (name, strip) in enumerate(strips.items()):
        y = top + j * (tile_height + GAP)
        pen.text((0, y + tile_height // 2), name, FAINT, font, anchor="lm")
        for i, tile in enumerate(strip):
            block.paste(tile, (left + i * (tile_width + GAP), y))
    return block


def _tile(image: Tensor) -> Image.Image:
    """An image enlarged without smoothing, so that every pixel stays visible."""
    pixels = image.expand(3, -1, -1).permute(1, 2, 0).cpu().numpy()
    height, width = pixels.shape[:2]
    factor = max(1, round(TILE / max(height, width)))
    return Image.fromarray(pixels.copy()).resize((width * factor, height * factor), Image.Resampling.NEAREST)
