"""Figures and names as a reader likes to see them."""

from collections.abc import Mapping
from typing import Any

from interlude.data.problem import shown

SPACE = "\u00a0"  # keeps a figure and its unit on one line
MINUS = "\u2212"

__all__ = [
    "amount",
    "capital",
    "count",
    "duration",
    "percent",
    "plural",
    "points",
    "shown",
    "span",
    "sureness",
    "to",
]


def percent(value: float, digits: int = 1) -> str:
    """91.2 becomes "91.2 %"."""
    return f"{value:.{digits}f}{SPACE}%"


def sureness(probability: float) -> str:
    """A probability in percent that never claims certainty."""
    return f">{SPACE}99{SPACE}%" if probability >= 0.995 else percent(100 * probability, 0)


def points(value: float) -> str:
    """A difference with its sign."""
    return f"{value:+.1f}".replace("-", MINUS)


def to(low: float, high: float) -> str:
    """The two ends of an interval."""
    return f"{low:.1f} to {high:.1f}".replace("-", MINUS)


def span(estimate: Mapping[str, Any]) -> str:
    """An estimate with its interval: "91.2 % (86.0 to 95.1)"."""
    return f"{percent(estimate['mean'])} ({to(estimate['low'], estimate['high'])})"


def count(value: float) -> str:
    """A number of things, which may be an average."""
    return f"{value:,.0f}" if float(value).is_integer() else f"{value:,.1f}"


def plural(number: int, noun: str) -> str:
    """1 image, 2 images, 2 classes."""
    ending = "" if number == 1 else "es" if noun.endswith("s") else "s"
    return f"{number:,} {noun}{ending}"


def amount(value: float, digits: int = 4) -> str:
    """A number of any size in few signs, for axes and legends."""
    if value and not 0.001 <= abs(value) < 1e6:
        return f"{value:.1e}".replace("e-0", "e-").replace("e+0", "e").replace("-", MINUS)
    return f"{value:,.{digits}g}".replace("-", MINUS) if abs(value) < 1000 else f"{value:,.0f}"


def duration(seconds: float) -> str:
    """75 becomes "1 min 15 s"."""
    if seconds < 10:
        return f"{seconds:.1f}{SPACE}s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours}{SPACE}h {minutes}{SPACE}min"
    return f"{minutes}{SPACE}min {rest}{SPACE}s" if minutes else f"{rest}{SPACE}s"


def capital(sentence: str) -> str:
    """A sentence with a capital and a full stop, as it stands in a text."""
    whole = sentence[:1].upper() + sentence[1:]
    return whole if not whole or whole[-1] in ".!?" else f"{whole}."
