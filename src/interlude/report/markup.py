"""HTML and SVG as Python calls. Text is escaped unless it is markup already, so no name can break a page."""

import html
from collections.abc import Iterable
from dataclasses import dataclass

VOID = {"meta", "link", "img", "br"}


@dataclass(frozen=True)
class Html:
    """Markup that is safe as it stands."""

    text: str

    def __str__(self) -> str:
        return self.text


Child = Html | str | int | None
Attribute = str | int | float | bool | None


def tag(name: str, *children: Child, **attributes: Attribute) -> Html:
    """An element; attributes that are None or False are left out.

    `class_` stands for class, `stroke_width` for stroke-width.
    """
    opening = name + "".join(_attribute(key, value) for key, value in attributes.items())
    if name in VOID:
        return Html(f"<{opening}>")
    return Html(f"<{opening}>{join(children)}</{name}>")


def join(children: Iterable[Child]) -> Html:
    """Markup and text one after the other."""
    return Html("".join(_inside(child) for child in children))


def _inside(child: Child) -> str:
    if child is None:
        return ""
    return child.text if isinstance(child, Html) else html.escape(str(child), quote=False)


def _attribute(key: str, value: Attribute) -> str:
    name = key.rstrip("_").replace("_", "-")
    if value is None or value is False:
        return ""
    if value is True:
        return f" {name}"
    text = f"{value:.5g}" if isinstance(value, float) else str(value)
    return f' {name}="{html.escape(text)}"'
