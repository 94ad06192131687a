"""Class by class: labels, predictions for the unlabeled images, mix-ups, how far to trust the confidence."""

from typing import Any, NamedTuple

from interlude.report.charts import bar, reliability_panel
from interlude.report.content import Content
from interlude.report.markup import Html, tag
from interlude.report.words import capital, count, percent, plural, shown

MOST_CELLS = 20  # classes of which a confusion matrix can still be read
MOST_ROWS = 24  # classes that a table shows at once; the others are folded away
MOST_PAIRS, SOME_PAIRS = 15, 5


class MixUp(NamedTuple):
    """A class, what it was taken for, how often, and of how many."""

    true: str
    taken: str
    times: float
    total: float


def classes_part(content: Content) -> Html:
    """Labels and pseudo-labels of each class."""
    labeled = content.counts.get("labeled") or {}
    predicted = (content.fit.get("unlabeled") or {}).get("predicted") or {}
    names = sorted(content.classes, key=lambda name: (-predicted.get(name, 0), content.classes.index(name)))
    rows = [_class_row(name, labeled, predicted) for name in names]
    intro = (
        f"What the saved model calls the {plural(sum(predicted.values()), 'unlabeled image')}, beside the "
        f"labels it learned from. Shares far from what you expect are worth a look."
        if predicted
        else "There are no predictions for unlabeled images, so only the labels are counted."
    )
    body = _table(rows[:MOST_ROWS], labeled, predicted)
    if len(rows) > MOST_ROWS:
        rest = tag("summary", f"the other {plural(len(rows) - MOST_ROWS, 'class')}")
        body = tag("div", body, tag("details", rest, _table(rows[MOST_ROWS:], labeled, predicted)))
    return tag("section", tag("h2", "Class by class"), tag("p", intro), body, id="classes")


def _table(rows: list[Html], labeled: dict[str, int], predicted: dict[str, int]) -> Html:
    titles = ["class", "labels", *(["predicted", "share"] if predicted else [])]
    head = tag("tr", *[tag("th", title, scope="col") for title in titles])
    return tag("table", tag("thead", head), tag("tbody", *rows), class_="counts")


def _class_row(name: str, labeled: dict[str, int], predicted: dict[str, int]) -> Html:
    cells = [tag("th", shown(name), scope="row"), tag("td", count(labeled.get(name, 0)))]
    if predicted:
        share = predicted.get(name, 0) / max(1, sum(predicted.values()))
        largest = max(predicted.values()) / max(1, sum(predicted.values()))
        drawn = bar(share / largest if largest else 0)
        figure = tag("span", percent(100 * share))
        cells += [tag("td", count(predicted.get(name, 0))), tag("td", drawn, figure, class_="share")]
    return tag("tr", *cells)


def mistakes_part(content: Content) -> Html:
    """Which classes are mixed up, and how far the confidence can be trusted."""
    return tag(
        "section",
        tag("h2", "Where it errs"),
        tag("h3", "Classes that are mixed up"),
        *_confusion(content),
        tag("h3", "How far to trust its confidence"),
        *_reliability(content),
        id="mistakes",
    )


def _confusion(content: Content) -> list[Html]:
    confusion = content.fit.get("confusion")
    if not confusion:
        return [tag("p", "No image was held out, so mix-ups are not known.")]
    matrix, names = confusion["matrix"], content.classes
    source = "the sealed test set" if confusion.get("from") == "test" else "held-out labeled images"
    pairs = mix_ups(matrix, names)
    if not pairs:
        return [tag("p", f"None: the {source} were all named correctly.")]
    times = int((content.fit.get("cross_validation") or {}).get("repetitions") or 1)
    often = f", each {times} times" if times > 1 and confusion.get("from") != "test" else ""
    told = tag("p", f"Counted on {source}{often}. The commonest:")
    if len(names) > MOST_CELLS:
        return [told, _pairs(pairs[:MOST_PAIRS])]
    return [tag("div", _matrix(matrix, names), tag("div", told, _pairs(pairs[:SOME_PAIRS])), class_="beside")]


def mix_ups(matrix: list[list[float]], names: list[str]) -> list[MixUp]:
    """All mix-ups that occurred, the commonest first."""
    pairs = [
        MixUp(true, taken, times, sum(row))
        for true, row in zip(names, matrix, strict=True)
        for taken, times in zip(names, row, strict=True)
        if taken != true and times
    ]
    return sorted(pairs, key=lambda pair: (-pair.times, -pair.times / pair.total))


def _matrix(matrix: list[list[float]], names: list[str]) -> Html:
    corner = tag("td", "true class ↓, named →", class_="corner")
    columns = [tag("th", tag("span", shown(name)), scope="col") for name in names]
    rows = [
        tag(
            "tr",
            tag("th", shown(name), scope="row"),
            *[_cell(value, sum(row), right=i == j) for j, value in enumerate(row)],
        )
        for i, (name, row) in enumerate(zip(names, matrix, strict=True))
    ]
    table = tag(
        "table",
        tag("caption", "Confusion matrix: rows are the true classes, columns what the model said."),
        tag("thead", tag("tr", corner, *columns)),
        tag("tbody", *rows),
        class_="confusion",
    )
    return _scrolling(table, "confusion matrix")


def _cell(value: float, total: float, *, right: bool) -> Html:
    shade = value / total if total else 0.0
    return tag(
        "td",
        count(value) if value else "·",
        class_="right" if right else "wrong" if value else "none",
        style=f"--shade:{shade:.2f}" if value else None,
    )


def _pairs(pairs: list[MixUp]) -> Html:
    titles = ("in truth", "named", "times")
    head = tag("tr", *[tag("th", title, scope="col") for title in titles])
    rows = [
        tag(
            "tr",
            tag("th", shown(pair.true), scope="row"),
            tag("td", shown(pair.taken)),
            tag("td", f"{count(pair.times)} of {count(pair.total)}"),
        )
        for pair in pairs
    ]
    return tag("table", tag("thead", head), tag("tbody", *rows), class_="pairs")


def _reliability(content: Content) -> list[Html]:
    reliability, calibration = content.fit.get("reliability") or {}, content.fit.get("calibration") or {}
    bins, before = _bins(reliability), _bins(reliability.get("uncalibrated") or {})
    if not bins:
        nothing = tag("p", "No image was held out, so the confidence could not be checked.")
        return [nothing, *_sets(calibration)]
    told = (
        f"On held-out labeled images, confidence and truth differ by {percent(reliability['error'])} on "
        f"average (expected calibration error). Dots on the diagonal are honest; below it the model is too "
        f"sure of itself, above it too modest. A large dot stands for many images."
    )
    words = tag("div", tag("p", told), *_corrected(reliability, calibration), *_sets(calibration))
    return [tag("div", tag("div", reliability_panel(bins, before)), words, class_="beside")]


def _bins(reliability: dict[str, Any]) -> list[dict[str, Any]]:
    return [one for one in reliability.get("bins") or [] if one.get("count")]


def _corrected(reliability: dict[str, Any], calibration: dict[str, Any]) -> list[Html]:
    """What the temperature did."""
    before = reliability.get("uncalibrated")
    if not before or not calibration.get("images"):
        return []
    return [
        tag(
            "p",
            f"The dots are the probabilities that the saved model gives, after a temperature (here "
            f"{calibration['temperature']:.2f}) that was found on other images than those it is checked on. "
            f"The rings are the network's own, which differ by {percent(before['error'])}.",
        )
    ]


def _sets(calibration: dict[str, Any]) -> list[Html]:
    """What the prediction sets promise."""
    promise = shown(calibration.get("promise") or "")
    said = capital(f"prediction {promise}" if promise.startswith("sets") else promise)
    return [tag("p", said, class_="quiet")] if said else []


def _scrolling(table: Html, name: str) -> Html:
    """A table that may be wider than a phone, and scrolls by itself there."""
    return tag("div", table, class_="scroll", tabindex=0, role="region", aria_label=name)
