"""Small copies of image files, inside the page."""

from base64 import b64encode
from io import BytesIO
from pathlib import Path

from PIL import Image

from interlude.data.decode import Unreadable, decode, read_bytes
from interlude.report.markup import Html, tag

SIDE = 160  # pixels; shown at about 120, so that they stay sharp on fine screens
SMALL = 64  # an image of at most this many is kept pixel by pixel


def thumbnail(path: Path, about: str) -> Html | None:
    """The image in a file, `about` it in words for those who cannot see it; None if it cannot be read."""
    try:
        picture = decode(read_bytes(path), str(path), side=SIDE)
    except Unreadable:
        return None
    tiny = max(picture.size) <= SMALL
    if not tiny:
        picture.thumbnail((SIDE, SIDE), Image.Resampling.LANCZOS)
    return tag(
        "img",
        src=_address(picture, "PNG" if tiny else "JPEG"),
        alt=about,
        width=picture.width,
        height=picture.height,
        class_="tiny" if tiny else None,
    )


def _address(picture: Image.Image, kind: str) -> str:
    """The picture as an address that holds all of it."""
    file = BytesIO()
    picture.save(file, kind, quality=80, optimize=True)
    return f"data:image/{kind.lower()};base64,{b64encode(file.getvalue()).decode()}"
