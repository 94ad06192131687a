"""How plots look: one quiet style, made to be read in a column of a paper."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from interlude.errors import UserError

COLUMN = 3.4  # inches, one column of a paper
PAGE = 6.9
INK, GREY, PALE = "#222222", "#8a8f98", "#d5d8dd"
LOUD = ("#0b6fa4", "#c8553d", "#3d8361", "#8a5a9e")  # rows that a suite is about
SERIES = ("#0b6fa4", "#c8553d", "#3d8361", "#c9971c", "#8a5a9e", "#5b6770")
MARKERS = ("o", "s", "^", "D", "v", "P")
SETTINGS: dict[str, Any] = {
    "font.size": 7.5,
    "font.family": "DejaVu Sans",
    "axes.titlesize": 8,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.labelsize": 7.5,
    "axes.labelcolor": INK,
    "axes.edgecolor": GREY,
    "axes.linewidth": 0.6,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": PALE,
    "grid.linewidth": 0.5,
    "xtick.color": GREY,
    "ytick.color": GREY,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "xtick.major.size": 2.5,
    "ytick.major.size": 2.5,
    "legend.frameon": False,
    "legend.fontsize": 7,
    "lines.linewidth": 1.3,
    "lines.markersize": 4,
    "svg.fonttype": "none",
    "svg.hashsalt": "interlude",  # the same results give the same file
}


def matplotlib() -> Any:
    """The library, which is an extra."""
    try:
        import matplotlib
        import matplotlib.figure
    except ImportError as error:
        raise UserError("matplotlib is not installed: pip install 'interlude-ssl[plots]'") from error
    return matplotlib


@contextmanager
def quiet_style() -> Iterator[None]:
    """Inside the block figures are made in our style."""
    with matplotlib().rc_context(SETTINGS):
        yield


def new_figure(width: float, height: float, layout: str | None = "constrained") -> Any:
    """An empty figure, which lays itself out unless told otherwise."""
    return matplotlib().figure.Figure(figsize=(width, height), layout=layout)


def save(figure: Any, stem: Path) -> list[Path]:
    """The figure as PNG and SVG."""
    stem.parent.mkdir(parents=True, exist_ok=True)
    paths = [stem.with_name(f"{stem.name}.{ending}") for ending in ("png", "svg")]
    figure.savefig(paths[0], dpi=220, facecolor="white", metadata={"Software": None})
    figure.savefig(paths[1], facecolor="white", metadata={"Date": None})
    return paths


def panels(count: int, *, width: float, height: float, most: int = 3, **share: Any) -> tuple[Any, list[Any]]:
    """A figure with `count` axes in rows of at most `most`; the size is that of one of them."""
    across = min(count, most)
    down = -(-count // across)
    figure = new_figure(width * across, height * down)
    axes = figure.subplots(down, across, squeeze=False, **share).flatten().tolist()
    for unused in axes[count:]:
        unused.set_visible(False)
    return figure, axes[:count]


def spread_out(positions: Sequence[float], gap: float) -> list[float]:
    """Positions moved as little as needed to lie `gap` apart, their order kept."""
    order = sorted(range(len(positions)), key=lambda index: positions[index])
    groups: list[tuple[float, list[int]]] = []  # centre and members of runs that touch
    for index in order:
        groups.append((positions[index], [index]))
        while (
            len(groups) > 1
            and groups[-1][0] - groups[-2][0] < gap * (len(groups[-1][1]) + len(groups[-2][1])) / 2
        ):
            members = groups[-2][1] + groups[-1][1]
            groups[-2:] = [(sum(positions[member] for member in members) / len(members), members)]
    placed = [0.0] * len(positions)
    for centre, members in groups:
        for rank, member in enumerate(members):
            placed[member] = centre + gap * (rank - (len(members) - 1) / 2)
    return placed


def within(positions: Sequence[float], low: float, high: float) -> list[float]:
    """Positions moved together into a range; centred on it if they are too many."""
    below, above = low - min(positions), max(positions) - high
    move = (below - above) / 2 if below > 0 and above > 0 else max(below, 0) - max(above, 0)
    return [position + move for position in positions]


def label_at_the_right(axis: Any, labels: Sequence[tuple[float, float, str, str]]) -> None:
    """Names at the right edge, each with a thin line to its point (x, y, name, colour), none on another."""
    if not labels:
        return
    low, high = axis.get_ylim()
    height = axis.get_figure().get_size_inches()[1] * axis.get_position().height
    gap = (high - low) * 0.115 / max(height, 0.5)
    places = within(spread_out([entry[1] for entry in labels], gap), low, high)
    for place, (x, y, name, colour) in zip(places, labels, strict=True):
        axis.annotate(
            name,
            xy=(x, y),
            xytext=(1.04, (place - low) / (high - low)),
            textcoords="axes fraction",
            color=colour,
            fontsize=6.5,
            va="center",
            annotation_clip=False,
            arrowprops={
                "arrowstyle": "-",
                "color": colour,
                "lw": 0.4,
                "alpha": 0.6,
                "shrinkA": 1,
                "shrinkB": 1,
                "relpos": (0, 0.5),
            },
        )
