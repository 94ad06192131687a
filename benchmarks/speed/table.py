"""The table of speed: what each row means, what a prototype reached, what is aimed at, how it is shown."""

import json
from pathlib import Path
from typing import Any, NamedTuple

RESULTS = Path(__file__).parents[1] / "results" / "speed.json"
HEAD = "| what | prototype | target | here | quartiles | target met |\n" + "|---" * 6 + "|"
OTHERS = "| without a target | prototype | here | quartiles |\n" + "|---" * 4 + "|"


class Row(NamedTuple):
    """One row of the table; `higher` says whether more is better."""

    what: str
    unit: str = "x"
    prototype: str = ""
    target: float | None = None
    higher: bool = True

    @property
    def reached(self) -> str:
        """What the prototype reached, with its unit."""
        return f"{self.prototype} {self.unit}".strip() if self.prototype else "-"


AUGMENT = "augmentation, 512 images to 1024 views of {0}x{0}, groups share draws, over the authors' Pillow"
OTHER = "{1}, {0}x{0}, over the authors' Pillow"
COMPARED = (
    ("usb", "USB's Pillow pipeline", "0.85", "0.82"),
    ("torchvision-image", "torchvision v2, image by image", "0.86", "0.77"),
    ("torchvision-group", "torchvision v2, group by group", "5.9", "1.8"),
    ("kornia", "kornia, batch", "8.2", "0.40"),
    ("albumentations", "albumentations, image by image", "1.85", "1.03"),
)
STEP = "{} whole step over our InterLUDE step, {}"
ALIKE = "USB FixMatch's whole step over our FixMatch step, {}"

ROWS = {
    "augment-32-torch": Row(f"{AUGMENT.format(32)}: torch", "x", "34", 30),
    "augment-32-numba": Row(f"{AUGMENT.format(32)}: numba", "x", "80", 70),
    "augment-96-torch": Row(f"{AUGMENT.format(96)}: torch", "x", "6.2", 6),
    "augment-96-numba": Row(f"{AUGMENT.format(96)}: numba", "x", "13", 13),
    "exact-torch": Row("values that differ from Pillow's for given parameters: torch", "", "0", 0, False),
    "exact-numba": Row("values that differ from Pillow's for given parameters: numba", "", "0", 0, False),
    "step-small-authors": Row(STEP.format("authors'", "WRN-10-1, 1024 views"), "x", "2.9-3.5", 3),
    "step-small-usb": Row(STEP.format("USB FixMatch's", "WRN-10-1, 960 views over 1024"), "x", "", 3),
    "step-large-authors": Row(STEP.format("authors'", "WRN-28-2, 512 views"), "x", "1.75", 1.75),
    "step-large-usb": Row(STEP.format("USB FixMatch's", "WRN-28-2, 480 views over 512"), "x", "", 1.75),
    "rest-small": Row("all but the network, share of a step, WRN-10-1", "%", "0.7", 2, False),
    "rest-large": Row("all but the network, share of a step, WRN-28-2", "%", "", 2, False),
    "rest-cnn": Row("all but the network, share of a step, cnn", "%", "", 2, False),
    "flops-large": Row("FLOP/s of forward and backward over a 3x3 convolution's, WRN-28-2", "%", "65", 65),
    "flops-cnn": Row("FLOP/s of forward and backward over a 3x3 convolution's, cnn", "%", "69-72", 72),
    "price": Row("InterLUDE's step over our FixMatch step (joint pass)", "x", "1.15", 1.15, False),
    "price-own": Row("fusion and delta loss, share of InterLUDE's step", "%", "", 2, False),
    "frozen-weak": Row("FixMatch step, weak views without gradient, over the joint pass", "x", "0.6"),
    "ema-authors": Row("EMA update against the authors' loop over tensors, WRN-28-2", "x", "14", 14),
    "ema-usb": Row("EMA update against USB's loop over tensors, WRN-28-2", "x", "35", 14),
    "pool": Row("step time at 10^6 over 10^4 unlabeled images", "x", "1.0", 1.1, False),
    "start-help": Row("`interlude --help`", "s", "", 0.5, False),
    "start-import": Row("`import interlude`", "s", "", 0.3, False),
    "start-torch": Row("modules of torch that both import", "", "", 0, False),
    "first-step": Row("start to end of the first training step, digits", "s", "", 5, False),
    "evaluation": Row("evaluated images/s over trained images/s, WRN-28-2", "x", "4", 4),
    "ema-bound": Row("the authors' EMA loop over one `lerp` of all weights in one piece"),
    "evaluation-flops": Row("FLOPs of a trained over those of an evaluated image, WRN-28-2"),
    "evaluation-bound": Row("evaluated images/s, if only for convolutions, over trained images/s, WRN-28-2"),
    "step-small-usb-alike": Row(ALIKE.format("WRN-10-1, 960 views")),
    "step-large-usb-alike": Row(ALIKE.format("WRN-28-2, 480 views")),
    **{f"augment-32-{name}": Row(OTHER.format(32, what), "x", at_32) for name, what, at_32, _ in COMPARED},
    **{f"augment-96-{name}": Row(OTHER.format(96, what), "x", at_96) for name, what, _, at_96 in COMPARED},
}


def read() -> dict[str, Any]:
    """The last results; without rows if there are none."""
    if not RESULTS.exists():
        return {"rows": []}
    content: dict[str, Any] = json.loads(RESULTS.read_text(encoding="utf-8"))
    return content


def merged(before: list[dict[str, Any]], fresh: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Earlier rows with the fresh ones in their places, in the order of the table."""
    by_name = {row["row"]: row for row in [*before, *fresh]}
    return [by_name[name] for name in ROWS if name in by_name]


def render(rows: list[dict[str, Any]]) -> str:
    """Measured rows as a table in Markdown, and those without a target as a second one."""
    if not rows:
        return "(nothing is measured yet)"
    aimed = [line(row) for row in rows if row["target"] is not None]
    others = [comparison(row) for row in rows if row["target"] is None]
    tables = [[HEAD, *aimed] if aimed else [], [OTHERS, *others] if others else []]
    return "\n\n".join("\n".join(lines) for lines in tables if lines)


def line(row: dict[str, Any]) -> str:
    """One row with its target."""
    known = ROWS[row["row"]]
    met = row["median"] >= row["target"] if known.higher else row["median"] <= row["target"]
    bound = f"{'>=' if known.higher else '<='} {shown(row['target'], row['unit'])}"
    cells = [known.what, known.reached, bound, row["ours"], spread(row), "yes" if met else "no"]
    return "| " + " | ".join(cells) + " |"


def comparison(row: dict[str, Any]) -> str:
    """One row that only stands beside ours."""
    known = ROWS[row["row"]]
    return f"| {known.what} | {known.reached} | {row['ours']} | {spread(row)} |"


def spread(row: dict[str, Any]) -> str:
    """The quartiles and how many figures they are of."""
    return f"{shown(row['low'], '')} to {shown(row['high'], '')} ({row['repeats']})"


def shown(value: float, unit: str) -> str:
    """A figure with three digits and its unit."""
    return f"{value:.3g} {unit}".strip()
