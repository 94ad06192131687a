"""Suites: experiments as data. A YAML file names rows, columns and what else distinguishes the cells."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from itertools import product
from pathlib import Path
from typing import Any

import yaml

from interlude.config import read_file
from interlude.errors import UserError, unknown

SCALES = ("mini", "paper")
KINDS = ("train", "walltime")
REPEATS = ("both", "fold")
WORDS = ("published", "against")  # entries of a row that are one word, not a list


@dataclass(frozen=True)
class Row:
    """A line of the table: a method with settings, perhaps once for each of several values."""

    settings: Mapping[str, Any] = field(default_factory=dict)
    config: tuple[str, ...] = ()  # recipes laid over those of the column
    columns: tuple[str, ...] = ("*",)
    each: Mapping[str, list[Any]] = field(default_factory=dict)  # every value is a line of its own
    search: Mapping[str, list[Any]] = field(default_factory=dict)  # the value best on validation counts
    published: str | None = None  # the row of the published table, if it has another name
    against: str | None = None  # the line that it is compared with, if it is not the suite's reference


@dataclass(frozen=True)
class Column:
    """Data and network: the settings that all rows share there."""

    settings: Mapping[str, Any] = field(default_factory=dict)
    config: tuple[str, ...] = ()
    rows: tuple[str, ...] = ("*",)
    # what the table shows of a run: title -> (test set, or "" for the first one; figure)
    reports: Mapping[str, tuple[str, str]] = field(default_factory=dict)


@dataclass(frozen=True)
class Rule:
    """Settings of those cells whose row, method and column fit a pattern."""

    set: Mapping[str, Any]
    rows: tuple[str, ...] = ("*",)
    methods: tuple[str, ...] = ("*",)
    columns: tuple[str, ...] = ("*",)
    seeds: tuple[int, ...] = ()  # the repetitions it is for; none named: all


@dataclass(frozen=True)
class Suite:
    """One experiment at one scale."""

    name: str
    scale: str
    title: str
    rows: Mapping[str, Row]
    columns: Mapping[str, Column]
    kind: str = "train"
    seeds: tuple[int, ...] = (0, 1, 2)
    repeat: str = "both"  # what a repetition changes: the seed and the fold, or the fold alone
    settings: Mapping[str, Any] = field(default_factory=dict)
    rules: tuple[Rule, ...] = ()
    published: str | None = None
    highlight: tuple[str, ...] = ()
    plots: tuple[str, ...] = ("errors",)
    fused: bool = False  # also judge each finished model with its test images fused
    reference: str = ""  # the line that the others are compared with; walltime needs one
    rounds: int = 7  # walltime: how often each row has its turn

    @property
    def title_of_scale(self) -> str:
        """The title with the scale."""
        return f"{self.title} ({self.scale} scale)"


def suites_folder() -> Path:
    """Where the suites are: inside an installed package, at the top of a clone."""
    inside = Path(__file__).parents[1] / "suites"
    return inside if inside.is_dir() else Path(__file__).parents[3] / "suites"


def suite_names() -> list[str]:
    """The suites that come with the package."""
    return sorted(path.stem for path in suites_folder().glob("*.yaml"))


def load_suite(name: str, scale: str) -> Suite:
    """The suite called `name`, or that of a YAML file, at a scale."""
    if scale not in SCALES:
        raise unknown("scale", scale, SCALES)
    path = Path(name) if name.endswith((".yaml", ".yml")) else suites_folder() / f"{name}.yaml"
    if not path.is_file():
        raise unknown("suite", name, suite_names())
    tree = dict(read_file(path).values)
    own = tree.pop("scales", None) or {}
    for key in own.keys() - set(SCALES):
        raise unknown(f"scale in {path}:", key, SCALES)
    if scale != "paper" and own and scale not in own:
        raise UserError(f"the suite {name} has no {scale} scale; it has: paper, {', '.join(own)}")
    if scale != "paper" and not own and "scales" in read_file(path).values:
        raise UserError(f"the suite {name} is for --scale paper only")
    tree = _at_scale(tree, own.get(scale) or {})
    common = common_settings()[scale]
    return _suite(path, scale, tree, common)


def common_settings() -> dict[str, Any]:
    """What each scale adds to every suite."""
    text = Path(__file__).with_name("scales.yaml").read_text(encoding="utf-8")
    tree: dict[str, Any] = yaml.safe_load(text)
    return tree


def _at_scale(tree: dict[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
    """The tree with what the scale says instead; a list of rows or columns picks some of them."""
    merged = {**tree, **own}
    for key in ("rows", "columns"):
        if isinstance(own.get(key), list):
            known = _named(tree.get(key, ()))
            for name in own[key]:
                if name not in known:
                    raise unknown(key[:-1], name, known)
            merged[key] = {name: known[name] for name in own[key]}
    return merged


def _suite(path: Path, scale: str, tree: dict[str, Any], common: Mapping[str, Any]) -> Suite:
    known = {item.name for item in fields(Suite)} - {"name", "scale"}
    for key in tree.keys() - known:
        raise unknown(f"entry in {path}:", key, known)
    for key in {"title", "rows", "columns"} - tree.keys():
        raise UserError(f"{path} has no {key!r}; a suite needs a title, rows and columns")
    rules = [*common.get("rules", ()), *tree.pop("rules", ())]
    settings = {**common.get("settings", {}), **tree.pop("settings", {})}
    rows = {name: _entry(Row, name, value, path) for name, value in _named(tree.pop("rows")).items()}
    columns = {name: _entry(Column, name, value, path) for name, value in _named(tree.pop("columns")).items()}
    others: dict[str, Any] = {
        key: tuple(value) if isinstance(value, list) else value for key, value in tree.items()
    }
    suite = Suite(
        name=path.stem,
        scale=scale,
        rows={name: _with_default(row, "method", name) for name, row in rows.items()},
        columns={name: _with_default(column, "data", name) for name, column in columns.items()},
        settings=settings,
        rules=tuple(_entry(Rule, "rule", rule, path) for rule in rules),
        **others,
    )
    for word, allowed in ((suite.kind, KINDS), (suite.repeat, REPEATS)):
        if word not in allowed:
            raise unknown(f"word in {path}:", word, allowed)
    lines = {line for name, row in suite.rows.items() for line, _ in lines_of(name, row)}
    for other in {suite.reference, *(row.against for row in suite.rows.values())} - {"", None}:
        if other not in lines:
            raise unknown(f"row to compare with in {path}:", str(other), lines)
    return suite


def lines_of(name: str, row: Row) -> Iterator[tuple[str, dict[str, Any]]]:
    """The lines of the table that a row makes, with their values."""
    if row.each and row.search:
        raise UserError(f"row {name!r} has both 'each' and 'search'; keep one")
    options = row.each or row.search
    for values in product(*options.values()):
        chosen = dict(zip(options, values, strict=True))
        suffix = ", ".join(str(value) for value in values)
        yield (f"{name} {suffix}" if row.each else name), chosen


def _named(entries: Any) -> dict[str, Any]:
    """Rows or columns as a mapping; a list is one of names that say it all."""
    return {str(name): None for name in entries} if isinstance(entries, list | tuple) else dict(entries)


def _entry(kind: type[Any], name: str, value: Any, path: Path) -> Any:
    """A row, column or rule; what is none of its own fields is a setting."""
    if not isinstance(value, Mapping | None):
        raise UserError(f"{path}: {name!r} must be a mapping, found {value!r}")
    own = {item.name: item for item in fields(kind)}
    given: dict[str, Any] = {}
    settings: dict[str, Any] = {}
    for key, entry in (value or {}).items():
        if key not in own and kind is Rule:
            raise unknown(f"entry of a rule in {path}:", key, own)
        target = given if key in own and key != "settings" else settings
        listed = key in own and isinstance(entry, list | str) and key not in WORDS
        target[key] = ((entry,) if isinstance(entry, str) else tuple(entry)) if listed else entry
    if "settings" in own:
        given["settings"] = settings
    return kind(**given)


def _with_default(entry: Any, key: str, name: str) -> Any:
    """A row is named after its method and a column after its data, unless they say otherwise."""
    said = entry.settings.get(key)
    if said is not None or f"{key}.name" in entry.settings:
        return entry
    return replace(entry, settings={key: name, **entry.settings})
