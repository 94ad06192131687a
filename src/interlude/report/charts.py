"""Charts as plain SVG, whose colours follow the page's.

Strips, which hold only lines, dots and words, are placed in percent and so keep the size of their letters at
any width. Panels are drawn 320 wide, about the width they are shown at, on a phone and on a desk alike.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import ceil, floor, log10
from typing import Any

from interlude.report.markup import Html, join, tag
from interlude.report.words import amount, count, percent, points, to

WIDTH, HEIGHT = 320, 190
LEFT, RIGHT, TOP, BOTTOM = 44, 14, 12, 30
MOST_POINTS = 240  # of a line; more cannot be seen
Estimate = Mapping[str, Any]
Bins = Sequence[Mapping[str, Any]]  # of confidence; none of them empty


@dataclass(frozen=True)
class Scale:
    """Takes values between two bounds to places between two others."""

    low: float
    high: float
    start: float
    end: float

    def __call__(self, value: float) -> float:
        share = (value - self.low) / ((self.high - self.low) or 1)
        return self.start + share * (self.end - self.start)

    def ticks(self, number: int = 4) -> list[float]:
        """About `number` round values within the bounds."""
        rough = ((self.high - self.low) or 1) / number
        power = 10.0 ** floor(log10(rough))
        step = next(power * factor for factor in (1, 2, 2.5, 5, 10) if power * factor >= rough * 0.999)
        first, last = ceil(self.low / step - 1e-9), floor(self.high / step + 1e-9)
        return [round(index * step, 12) for index in range(first, last + 1)]


def drawing(title: str, about: str, *children: Html, **attributes: Any) -> Html:
    """An SVG image with its name and a description for those who cannot see it."""
    return tag("svg", tag("title", title), tag("desc", about), *children, role="img", **attributes)


def difference_strip(estimate: Estimate) -> Html:
    """The paired difference in points with its interval, beside the line of no difference."""
    low, high = min(estimate["low"], 0), max(estimate["high"], 0)
    room = 0.12 * (high - low) or 1
    place = Scale(low - room, high + room, 0, 100)
    zero, dot = place(0), place(estimate["mean"])
    return drawing(
        "Difference to the best labeled-only model",
        f"{points(estimate['mean'])} points, 95 % interval {to(estimate['low'], estimate['high'])}",
        *_ticks(place, top=34, bottom=72, label=lambda value: f"{'+' * (value > 0)}{amount(value)}"),
        tag("line", x1=_at(zero), x2=_at(zero), y1=34, y2=72, class_="zero"),
        _whisker(place, estimate, y=52, class_="loud"),
        tag("circle", cx=_at(dot), cy=52, r=7, class_="dot loud"),
        _word(dot, 26, points(estimate["mean"]), class_="figure"),
        class_="strip difference",
        height=104,
    )


def accuracy_scale(estimates: Sequence[Estimate]) -> Scale:
    """One scale in percent for all candidates, with room at the ends."""
    low, high = min(one["low"] for one in estimates), max(one["high"] for one in estimates)
    room = max(0.08 * (high - low), 1.0)
    return Scale(max(0.0, low - room), min(100.0, high + room), 1, 99)


def candidate_strip(name: str, estimate: Estimate, place: Scale, *, kept: bool) -> Html:
    """The balanced accuracy of one candidate with its interval."""
    look = "loud" if kept else "quiet"
    return drawing(
        f"Balanced accuracy of {name}",
        f"{percent(estimate['mean'])}, 95 % interval {to(estimate['low'], estimate['high'])}",
        *_ticks(place, top=2, bottom=26, label=None),
        _whisker(place, estimate, y=14, class_=look),
        tag("circle", cx=_at(place(estimate["mean"])), cy=14, r=5, class_=f"dot {look}"),
        class_="strip",
        height=28,
    )


def axis_strip(place: Scale) -> Html:
    """The figures below the strips of the candidates."""
    labels = [_word(place(value), 14, f"{amount(value)} %") for value in place.ticks()]
    return tag("svg", *labels, class_="strip", height=20, aria_hidden="true")


def bar(share: float) -> Html:
    """A bar of this share of the width; its figure stands beside it."""
    return tag(
        "svg",
        tag("rect", width="100%", height=10, rx=2, class_="track"),
        tag("rect", width=_at(100 * share), height=10, rx=2, class_="fill"),
        class_="strip bar",
        height=10,
        aria_hidden="true",
    )


def line_panel(
    title: str,
    curves: Mapping[str, Sequence[tuple[float, float]]],
    *,
    bounds: tuple[float, float] | None = None,
    unit: str = "",
) -> Html:
    """Curves over the steps of training, with their names and last values below."""
    values = [value for curve in curves.values() for _, value in curve]
    low, high = bounds or (min(0.0, *values), max(*values, 0.0))
    y = Scale(low, high if high > low else low + 1, HEIGHT - BOTTOM, TOP)
    last = max(curve[-1][0] for curve in curves.values())
    x = Scale(min(curve[0][0] for curve in curves.values()), last, LEFT, WIDTH - RIGHT)
    ends = {name: amount(curve[-1][1], 3) + unit for name, curve in curves.items()}
    lines = [_line(curve, x, y, index) for index, curve in enumerate(curves.values())]
    chart = drawing(
        title,
        "; ".join(f"{name} ends at {end}" for name, end in ends.items()),
        *_frame(x, y, unit),
        *lines,
        viewBox=f"0 0 {WIDTH} {HEIGHT}",
        class_="panel",
    )
    keys = [_key(index, name, end) for index, (name, end) in enumerate(ends.items())]
    return tag("figure", tag("figcaption", title), chart, tag("ul", *keys, class_="keys"))


def reliability_panel(bins: Bins, before: Bins = ()) -> Html:
    """How often the model is right, against how sure it says it is; a dot's area is its number of images.

    Rings show the same `before` calibration.
    """
    x, y = Scale(0, 100, LEFT, WIDTH - RIGHT), Scale(0, 100, 282, 28)
    most = max(one["count"] for one in [*bins, *before])
    return drawing(
        "Reliability",
        "; ".join(_bin_words(one) for one in bins),
        *_frame(x, y, " %"),
        tag("line", x1=x(0), y1=y(0), x2=x(100), y2=y(100), class_="diagonal"),
        *[_bubble(one, x, y, most, "ring") for one in before],
        *[_bubble(one, x, y, most, "bubble") for one in bins],
        tag("text", "how sure it says it is →", x=(LEFT + WIDTH - RIGHT) / 2, y=314, text_anchor="middle"),
        tag("text", "how often it is right ↑", x=4, y=12),
        viewBox=f"0 0 {WIDTH} 322",
        class_="panel",
    )


def _bubble(one: Mapping[str, Any], x: Scale, y: Scale, most: int, look: str) -> Html:
    sure, right = 100 * one["confidence"], 100 * one["accuracy"]
    size = 3 + 8 * (one["count"] / most) ** 0.5
    return tag(
        "g",
        tag("title", _bin_words(one)),
        tag("line", x1=x(sure), x2=x(sure), y1=y(sure), y2=y(right), class_="gap")
        if look == "bubble"
        else None,
        tag("circle", cx=x(sure), cy=y(right), r=size, class_=look),
    )


def _bin_words(one: Mapping[str, Any]) -> str:
    said, true = percent(100 * one["confidence"], 0), percent(100 * one["accuracy"], 0)
    return f"{count(one['count'])} images it is {said} sure of: {true} right"


def _frame(x: Scale, y: Scale, unit: str) -> list[Html]:
    """Gridlines and the figures at the axes; steps have no unit."""
    across = [
        join(
            [
                tag("line", x1=x.start, x2=x.end, y1=y(value), y2=y(value), class_="grid"),
                tag("text", amount(value) + unit, x=x.start - 6, y=y(value) + 4, text_anchor="end"),
            ]
        )
        for value in y.ticks()
    ]
    same = (x.low, x.high) == (y.low, y.high)
    below = [
        tag("text", amount(value) + unit * same, x=x(value), y=y.start + 17, text_anchor="middle")
        for value in x.ticks()
        if x(value) > x.start + 8 or same
    ]
    return across + below


def _line(curve: Sequence[tuple[float, float]], x: Scale, y: Scale, index: int) -> Html:
    places = " ".join(f"{x(step):.1f},{y(value):.1f}" for step, value in thinned(curve))
    if len(curve) == 1:
        return tag("circle", cx=x(curve[0][0]), cy=y(curve[0][1]), r=3, class_=f"bubble hue{index % 6}")
    return tag("polyline", points=places, class_=f"curve hue{index % 6}")


def thinned(curve: Sequence[tuple[float, float]], most: int = MOST_POINTS) -> list[tuple[float, float]]:
    """At most so many points, each the mean of its neighbours; the last is kept as it is."""
    size = ceil(len(curve) / most)
    if size == 1:
        return list(curve)
    parts = [curve[start : start + size] for start in range(0, len(curve), size)]
    means = [(sum(s for s, _ in part) / len(part), sum(v for _, v in part) / len(part)) for part in parts]
    return [*means[:-1], curve[-1]]


def _key(index: int, name: str, end: str) -> Html:
    swatch = tag(
        "svg",
        tag("line", x1=0, x2=22, y1=5, y2=5, class_=f"curve hue{index % 6}"),
        width=22,
        height=10,
        aria_hidden="true",
    )
    return tag("li", swatch, tag("span", f" {name} "), tag("b", end))


def _ticks(place: Scale, *, top: int, bottom: int, label: Callable[[float], str] | None) -> list[Html]:
    """Thin upright lines at round values, with their figures if wanted."""
    return [
        join(
            [
                tag("line", x1=_at(place(value)), x2=_at(place(value)), y1=top, y2=bottom, class_="grid"),
                _word(place(value), bottom + 18, label(value)) if label else None,
            ]
        )
        for value in place.ticks()
    ]


def _whisker(place: Scale, estimate: Estimate, *, y: int, class_: str) -> Html:
    ends = {"x1": _at(place(estimate["low"])), "x2": _at(place(estimate["high"]))}
    return tag("line", y1=y, y2=y, class_=f"whisker {class_}", **ends)


def _word(place: float, y: int, text: str, class_: str | None = None) -> Html:
    """A word at a place in percent, turned inwards near the edges."""
    anchor = "start" if place < 8 else "end" if place > 92 else "middle"
    return tag("text", text, x=_at(place), y=y, text_anchor=anchor, class_=class_)


def _at(place: float) -> str:
    return f"{place:.2f}%"
