"""The rest of the page: the doctor's findings, the choices that were made, and how to do it again."""

from typing import Any

from interlude.report.content import Content
from interlude.report.markup import Html, tag
from interlude.report.words import capital, count, duration, plural, shown

MOST_FILES = 8
SEVERITIES = {"stop": "serious", "warn": "take care", "note": "to know"}


def doctor_part(content: Content) -> Html:
    """What is odd about the images, and what to do about it."""
    heading = tag("h2", "What the doctor found")
    if content.doctor is None:
        return tag("section", heading, tag("p", "The images were not examined."), id="doctor")
    findings = content.doctor.get("findings") or []
    excluded = len(content.doctor.get("excluded") or {})
    left_out = f" Left out of training: {plural(excluded, 'file')}." if excluded else ""
    if not findings:
        told = f"Nothing odd among {plural(content.doctor.get('images') or 0, 'image')}."
        return tag("section", heading, tag("p", told), id="doctor")
    told = f"{plural(len(findings), 'finding')}, the most serious first.{left_out}"
    rows = [_finding(one) for one in findings]
    return tag("section", heading, tag("p", told), tag("ul", *rows, class_="findings"), id="doctor")


def _finding(one: dict[str, Any]) -> Html:
    severity = str(one.get("severity", "note"))
    return tag(
        "li",
        tag("span", SEVERITIES.get(severity, severity), class_=f"badge {severity}"),
        tag("p", tag("b", capital(shown(str(one.get("says", "")))))),
        tag("p", capital(shown(str(one.get("do", ""))))),
        _files(one),
    )


def _files(one: dict[str, Any]) -> Html | None:
    """The first files of a finding, copies of each other in one line."""
    details = one.get("details") or {}
    sets = one.get("sets") or [[file] for file in one.get("files") or []]
    if not sets:
        return None
    lines = [" = ".join(_file(file, details) for file in group[:MOST_FILES]) for group in sets[:MOST_FILES]]
    more = len(sets) - MOST_FILES
    return tag(
        "details",
        tag("summary", "which files"),
        tag("ul", *[tag("li", line) for line in lines], class_="files"),
        tag("p", f"and {count(more)} more; doctor.json has them all", class_="quiet") if more > 0 else None,
    )


def _file(name: str, details: dict[str, str]) -> str:
    return f"{shown(name)} ({shown(details[name])})" if name in details else shown(name)


def choices_part(content: Content) -> Html:
    """Every choice with its reason."""
    choices = content.fit.get("choices") or []
    if not choices:
        body = tag("p", "No choices were recorded.")
    else:
        head = tag("tr", *[tag("th", title, scope="col") for title in ("what", "chosen", "because")])
        body = tag(
            "table", tag("thead", head), tag("tbody", *[_choice(one) for one in choices]), class_="choices"
        )
    return tag("section", tag("h2", "What was chosen, and why"), body, id="choices")


def _choice(one: dict[str, Any]) -> Html:
    return tag(
        "tr",
        tag("th", shown(str(one.get("name", ""))), scope="row"),
        tag("td", tag("b", shown(str(one.get("value", ""))))),
        tag("td", capital(shown(str(one.get("reason", ""))))),
    )


def origin_part(content: Content) -> Html:
    """The command, what fixes its result, and all settings."""
    fit = content.fit
    facts = {
        "seed": shown(str(content.settings.get("seed", "not recorded"))),
        "interlude": shown(str(fit.get("version", "not recorded"))),
        "split": content.split_hash or None,
        "made": str(fit.get("created", "")).replace("T", " ")[:16] or None,
        "time": _times(fit.get("seconds") or {}) or None,
    }
    entries = [
        tag("div", tag("dt", name), tag("dd", value)) for name, value in facts.items() if value is not None
    ]
    command = shown(str(fit.get("command") or ""))
    words = "The same images, the same version and the same seed give the same division of the labels again."
    settings = tag("details", tag("summary", "all settings (config.yaml)"), tag("pre", content.settings_text))
    return tag(
        "section",
        tag("h2", "Do it again"),
        tag("pre", tag("code", command)) if command else tag("p", "The command was not recorded."),
        tag("p", words, class_="quiet"),
        tag("dl", *entries, class_="origin"),
        settings if content.settings_text else None,
        id="origin",
    )


def _times(seconds: dict[str, float]) -> str:
    parts = {name.replace("_", " "): value for name, value in seconds.items() if value and name != "total"}
    return ", ".join(f"{name} {duration(value)}" for name, value in parts.items())
