"""The top of the page: did the unlabeled images help, and how good is the model?"""

from typing import Any

from interlude.report.charts import accuracy_scale, axis_strip, candidate_strip, difference_strip
from interlude.report.content import Content
from interlude.report.markup import Html, tag
from interlude.report.words import capital, count, duration, percent, plural, shown, span, to

SHORT = "The budget bought only short runs. With a longer one, this may turn out otherwise."


def headline(content: Content) -> tuple[str, str]:
    """The verdict in large words, up to its colon, and what follows that."""
    sentence = shown((content.fit.get("verdict") or {}).get("sentence") or "no verdict was recorded")
    large, _, rest = sentence.partition(": ")
    return capital(large), capital(rest)


def verdict_part(content: Content) -> Html:
    """The verdict in large words, the difference drawn, the candidates below it."""
    verdict = content.fit.get("verdict") or {}
    outcome = str(verdict.get("outcome", "no estimate")).replace(" ", "-")
    large, rest = headline(content)
    return tag(
        "section",
        tag("h1", large),
        tag("p", rest, class_="lede") if rest else None,
        tag("p", SHORT, class_="quiet") if (content.fit.get("cross_validation") or {}).get("short") else None,
        _difference(verdict),
        _candidates(content),
        class_=f"verdict {outcome}",
        id="verdict",
    )


def _difference(verdict: dict[str, Any]) -> Html | None:
    estimate = verdict.get("difference")
    if not estimate:
        return None
    sides = tag(
        "p",
        tag("span", "← labels alone are better"),
        tag("span", "the unlabeled images help →"),
        class_="sides",
    )
    caption = (
        f"Points of balanced accuracy gained over {shown(verdict.get('control') or 'the best control')}. "
    )
    wide = "The bar is the 95 % interval: where it crosses 0, chance alone could explain the difference."
    return tag("figure", difference_strip(estimate), sides, tag("figcaption", caption, wide), class_="card")


def _candidates(content: Content) -> Html:
    candidates = content.fit.get("candidates") or []
    judged = [one["balanced_accuracy"] for one in candidates if one.get("balanced_accuracy")]
    if not candidates:
        return tag("p", "No candidates were compared.")
    place = accuracy_scale(judged) if judged else None
    kept = content.kept.get("name")
    rows = [_candidate(one, place, kept=one.get("name") == kept) for one in candidates]
    note = "Balanced accuracy on held-out labeled images, the same for all, with 95 % intervals."
    return tag(
        "figure",
        tag("figcaption", "The candidates. ", note if judged else "None of them could be judged."),
        tag("ul", *rows, class_="candidates"),
        tag("div", axis_strip(place), class_="axis") if place else None,
        class_="card",
    )


def _candidate(one: dict[str, Any], place: Any, *, kept: bool) -> Html:
    name, estimate = shown(str(one.get("name"))), one.get("balanced_accuracy")
    kind = "uses the unlabeled images" if one.get("kind") == "method" else "labels only"
    return tag(
        "li",
        tag(
            "div",
            tag("b", name),
            " ",
            tag("span", "saved", class_="badge") if kept else None,
            tag("small", shown(one.get("about") or kind)),
        ),
        candidate_strip(name, estimate, place, kept=kept) if estimate else None,
        tag("span", span(estimate) if estimate else "not judged", class_="value"),
        class_="kept" if kept else None,
    )


def number_part(content: Content) -> Html:
    """The one number to quote, how it was found, and what it means."""
    test = content.fit.get("test")
    estimate = test["balanced_accuracy"] if test else content.kept.get("balanced_accuracy")
    body = _number(content, estimate) if estimate else [tag("p", _why_not(content))]
    held_out = content.kept.get("balanced_accuracy")
    if test and held_out:
        told = f"Before the test set was opened, cross-validation had said {span(held_out)}."
        body.append(tag("p", told, class_="quiet"))
    return tag("section", tag("h2", "How good is it?"), *body, _facts(content), id="number")


def _number(content: Content, estimate: dict[str, Any]) -> list[Html]:
    num_classes = len(content.classes)
    guess = (
        f" Guessing would get {percent(100 / num_classes, 0 if num_classes <= 50 else 1)}."
        if num_classes
        else ""
    )
    low, high = f"{estimate['low']:.0f}", f"{estimate['high']:.0f}"
    meaning = (
        f"Of 100 new images, as many of each class, expect about {estimate['mean']:.0f} to be named "
        f"correctly; anything from {low} to {high} fits what was seen.{guess} "
        f"This holds for images like the labeled ones."
    )
    interval = tag("span", f"95 % interval {to(estimate['low'], estimate['high'])}")
    figure = tag("p", tag("b", percent(estimate["mean"])), tag("span", "balanced accuracy"), interval)
    return [
        tag("div", figure, class_="number"),
        tag("p", meaning),
        tag("p", _how(content), class_="quiet"),
    ]


def _how(content: Content) -> str:
    """How the number was found, in plain words."""
    test = content.fit.get("test")
    if test:
        plain = f" Plain accuracy on it was {percent(test['accuracy'])}." if "accuracy" in test else ""
        when = str(test.get("opened", "")).replace("T", " ")[:16]
        return (
            f"Measured on a sealed test set of {plural(test['images'], 'image')} that was opened once, "
            f"after every choice had been made ({when}).{plain}"
        )
    crossed = content.fit.get("cross_validation") or {}
    times = int(crossed.get("repetitions", 1))
    repeated = f", repeated {times} times with other folds" if times > 1 else ""
    basis = f" It was {shown(crossed['basis'])}." if crossed.get("basis") else ""
    note = f" {capital(shown(crossed['note']))}" if crossed.get("note") else ""
    return (
        f"Estimated by {crossed.get('folds')}-fold cross-validation inside the "
        f"{plural(int(crossed.get('images', 0)), 'labeled image')}{repeated}: each of them was judged by "
        f"models that had not learned from it. Those models had fewer labels to learn from than the saved "
        f"one, which makes the number a little low; that the best candidate was chosen on the same images "
        f"makes it a little high.{basis}{note}"
    )


def _why_not(content: Content) -> str:
    crossed = content.fit.get("cross_validation") or {}
    why = shown(crossed.get("why_not") or "no labeled image was held out")
    why = why.removeprefix("no estimate possible: ")
    if crossed.get("sampled") is not None:
        return f"No estimate is possible: {why}, or give a test folder."
    return (
        f"No estimate is possible: {why}. A few more labels for each class, or a test folder, would give one."
    )


def _facts(content: Content) -> Html:
    counts, seconds = content.counts, (content.fit.get("seconds") or {}).get("total")
    facts = {
        "classes": str(len(content.classes)),
        "labeled images": count(content.num_labels),
        "unlabeled images": count(counts.get("unlabeled") or 0),
        "validation images": count(counts["validation"]) if counts.get("validation") else None,
        "test images": count(counts["test"]) if counts.get("test") else None,
        "time taken": duration(seconds) if seconds else None,
    }
    entries = [
        tag("div", tag("dt", name), tag("dd", value)) for name, value in facts.items() if value is not None
    ]
    return tag("dl", *entries, class_="facts")
