"""Unlabeled images worth a look: the most certain, the least certain and the most surprising."""

from math import floor, isfinite
from typing import Any

from interlude.report.content import Content
from interlude.report.markup import Html, tag
from interlude.report.thumbnails import thumbnail
from interlude.report.words import percent, shown, sureness

MOST = 12
GALLERIES = {
    "certain": ("The most certain", "If one of these is wrong, look at the labels of its class first."),
    "uncertain": (
        "The least certain",
        "The model cannot decide here. If you can label a few more images, begin with these.",
    ),
    "surprising": (
        "The most surprising",
        "Confident, though they look unlike the labeled images: perhaps of a class that you did not name, "
        "or not meant to be here at all.",
    ),
}


def pictures_part(content: Content) -> Html:
    """Three galleries."""
    unlabeled = content.fit.get("unlabeled") or {}
    galleries = [
        _gallery(title, words, unlabeled[key][:MOST], content, surprising=key == "surprising")
        for key, (title, words) in GALLERIES.items()
        if unlabeled.get(key)
    ]
    if not galleries:
        galleries = [tag("p", "There were no unlabeled images to show.")]
    return tag("section", tag("h2", "Unlabeled images worth a look"), *galleries, id="pictures")


def _gallery(
    title: str, words: str, rows: list[dict[str, Any]], content: Content, *, surprising: bool
) -> Html:
    tiles = [_tile(row, content, surprising=surprising) for row in rows]
    return tag("div", tag("h3", title), tag("p", words, class_="quiet"), tag("ul", *tiles, class_="gallery"))


def _tile(row: dict[str, Any], content: Content, *, surprising: bool) -> Html:
    file, name = shown(str(row["file"])), shown(str(row["class"]))
    sure = sureness(row["probability"])
    picture = None
    if content.images is not None:
        picture = thumbnail(content.images / str(row["file"]), f"{file}, taken for {name} ({sure})")
    second = f"or {shown(str(row['second']))}" if row.get("second") and row["probability"] < 0.9 else None
    return tag(
        "li",
        picture or tag("div", "not shown", class_="missing"),
        tag("span", tag("b", name), " ", sure),
        tag("small", second) if second else None,
        tag("small", _unusual(row)) if surprising else None,
        tag("small", file, class_="file"),
    )


def _unusual(row: dict[str, Any]) -> str | None:
    """The out-of-distribution score in words."""
    score = row.get("ood")
    if score is None or not isfinite(score):
        return None
    return f"more unusual than {percent(floor(100 * score), 0)} of the training images"
