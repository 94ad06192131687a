"""How training went, from what was logged at its steps."""

from interlude.report.charts import line_panel
from interlude.report.content import Content, Curve
from interlude.report.markup import Html, tag
from interlude.report.words import amount, percent

USED = {"mask": "unlabeled images used", "weight": "mean weight of an unlabeled image"}
THRESHOLDS = ("tau", "threshold", "rho")
PREFIX = "train/"
MOST_LINES = 6


def training_part(content: Content) -> Html:
    """Losses, pseudo-labels used, thresholds, validation; everything else folded away."""
    heading = tag("h2", "How training went")
    if not content.curves:
        return tag("section", heading, tag("p", "Nothing was logged during training."), id="training")
    panels, rest = _panels(content.curves)
    others = [line_panel(_plain(name), {_plain(name): curve}) for name, curve in rest.items()]
    more = tag("details", tag("summary", "everything else that was logged"), _grid(others))
    return tag(
        "section",
        heading,
        tag("p", _words(content)),
        _grid(panels),
        more if others else None,
        id="training",
    )


def _grid(panels: list[Html]) -> Html:
    return tag("div", *panels, class_="panels")


def _panels(curves: dict[str, Curve]) -> tuple[list[Html], dict[str, Curve]]:
    """The panels everybody wants to see, and the curves that are left."""
    rest = dict(curves)

    def taken(*names: str) -> dict[str, Curve]:
        return {name: rest.pop(name) for name in names if name in rest}

    losses = taken(*[name for name in curves if name.startswith(PREFIX)][:MOST_LINES])
    used = taken(*USED)
    thresholds = taken(*THRESHOLDS)
    judged = taken(*[name for name in curves if name.endswith("/balanced_accuracy")])
    panels = []
    if losses:
        panels.append(line_panel("Loss and its terms", {_plain(name): c for name, c in losses.items()}))
    if used:
        shares = {USED[name]: _in_percent(curve) for name, curve in used.items()}
        panels.append(line_panel("Pseudo-labels used", shares, bounds=(0, 100), unit=" %"))
    if thresholds:
        panels.append(line_panel("Confidence asked for", thresholds, bounds=_bounds(thresholds)))
    if judged:
        named = {name.partition("/")[0]: curve for name, curve in judged.items()}
        panels.append(line_panel("Balanced accuracy while training", named, bounds=(0, 100), unit=" %"))
    return panels, rest


def _words(content: Content) -> str:
    """What there is to see, and what there is not, in plain words."""
    curves = content.curves
    last = max(curve[-1][0] for curve in curves.values())
    words = [f"{amount(last)} steps."]
    if "mask" in curves:
        share = percent(100 * curves["mask"][-1][1], 0)
        words.append(f"At the end the model was sure enough to learn from {share} of the unlabeled images.")
    elif "weight" in curves:
        weight = percent(100 * curves["weight"][-1][1], 0)
        words.append(f"At the end an unlabeled image counted {weight} of its full weight on average.")
    else:
        words.append("This model did not choose among pseudo-labels, so there is no rate of their use.")
    fixed = (content.settings.get("method") or {}).get("threshold")
    if "mask" in curves and isinstance(fixed, int | float) and not set(THRESHOLDS) & set(curves):
        words.append(f"Sure enough was a confidence of {fixed:g} throughout.")
    return " ".join(words)


def _bounds(curves: dict[str, Curve]) -> tuple[float, float] | None:
    """From 0 to 1 for probabilities; whatever fits for other thresholds."""
    values = [value for curve in curves.values() for _, value in curve]
    return (0.0, 1.0) if min(values) >= 0 and max(values) <= 1 else None


def _in_percent(curve: Curve) -> Curve:
    return [(step, 100 * value) for step, value in curve]


def _plain(name: str) -> str:
    """A name of the journal as a reader sees it."""
    text = name.removeprefix(PREFIX).replace("_", " ").replace("/", ": ")
    return "total" if text == "loss" else text
