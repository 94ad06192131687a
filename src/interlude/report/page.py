"""The page as a whole: one file that needs nothing else, and asks the network for nothing."""

from base64 import b64encode
from hashlib import sha256
from importlib.resources import files
from pathlib import Path

from interlude.files import write_whole
from interlude.report.background import choices_part, doctor_part, origin_part
from interlude.report.classes import classes_part, mistakes_part
from interlude.report.content import Content, read_content
from interlude.report.curves import training_part
from interlude.report.markup import Html, tag
from interlude.report.pictures import pictures_part
from interlude.report.verdict import headline, number_part, verdict_part
from interlude.report.words import shown

NAME = "report.html"
LINKS = {
    "number": "How good",
    "classes": "Classes",
    "mistakes": "Mistakes",
    "pictures": "Images",
    "training": "Training",
    "doctor": "Doctor",
    "choices": "Choices",
    "origin": "Do it again",
}


def write_report(folder: Path, images: Path | None = None, *, thumbnails: bool = True) -> Path:
    """Make RUN/report.html from the files of a run folder.

    `images` is the folder that the names of image files start from; by default the one in the run's settings.
    Without `thumbnails` the page holds no image of the data, and can be shown where these may not.
    """
    content = read_content(folder, images, thumbnails=thumbnails)
    path = folder / NAME
    write_whole(path, f"<!doctype html>\n{page(content)}\n".encode(errors="backslashreplace"))
    return path


def page(content: Content) -> Html:
    """The whole page."""
    return tag("html", _head(content), _body(content), lang="en")


def _head(content: Content) -> Html:
    script, style = _part("script.js"), _part("style.css")
    return tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", name_="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", http_equiv="Content-Security-Policy", content=_policy(script)),
        tag("meta", name_="color-scheme", content="light dark"),
        tag("title", f"{_name(content)}: {headline(content)[0]}"),
        tag("link", rel="icon", href="data:,"),
        tag("style", Html(style)),
        tag("script", Html(script)),
    )


def _body(content: Content) -> Html:
    links = [tag("a", words, href=f"#{place}") for place, words in LINKS.items()]
    made = str(content.fit.get("created", ""))[:10]
    button = tag("button", "dark", type="button", id="theme", hidden=True)
    return tag(
        "body",
        tag("header", tag("p", tag("b", _name(content)), " ", tag("span", made)), button),
        tag(
            "main",
            verdict_part(content),
            tag("nav", *links, aria_label="Parts of this report"),
            number_part(content),
            classes_part(content),
            mistakes_part(content),
            pictures_part(content),
            training_part(content),
            doctor_part(content),
            choices_part(content),
            origin_part(content),
        ),
        tag("footer", tag("p", f"Made by interlude {content.fit.get('version', '')}. {FOOTNOTE}")),
    )


FOOTNOTE = "This page is one file: it loads nothing and sends nothing."


def _name(content: Content) -> str:
    return shown(str(content.fit.get("folder") or "a folder of images"))


def _part(name: str) -> str:
    return files(__package__).joinpath(name).read_text(encoding="utf-8")


def _policy(script: str) -> str:
    """What a browser may load for this page: what is in it; and which script it may run: ours alone."""
    digest = b64encode(sha256(script.encode()).digest()).decode()
    return f"default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src 'sha256-{digest}'"
