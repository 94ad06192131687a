"""The cells of a suite: every run that it asks for, each with its resolved configuration."""

import json
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from fnmatch import fnmatchcase
from functools import cache
from hashlib import blake2b
from typing import Any

import yaml

from interlude.bench.suites import Column, Row, Rule, Suite, lines_of
from interlude.config import BESIDE_THE_POINT, Config, Layer, compose, read_file, recipes_folder, resolve
from interlude.errors import UserError, unknown
from interlude.method import find_method
from interlude.run import settle
from interlude.training import flat

# settings that say where, how often or on what machine; what is learned does not depend on them
NOT_HASHED = {*BESIDE_THE_POINT, "threads", "device", "seed", "fold"}
NOT_HASHED |= {"data.root", "data.download", "data.trust_pickle", "model.backend", "augment.backend"}


@dataclass(frozen=True)
class Cell:
    """One run of a suite: its place in the table, and what it trains."""

    row: str
    column: str
    variant: Mapping[str, Any]  # the values that `each` or `search` chose
    searched: bool  # whether one of several variants is chosen on validation
    repetition: int
    config: Config

    @property
    def settings(self) -> dict[str, Any]:
        """The settings that are not at their defaults, under dotted names."""
        return changed_settings(self.config)

    @property
    def config_hash(self) -> str:
        """A fingerprint of the settings, whatever the seed, the fold and the machine."""
        content = json.dumps(self.settings, sort_keys=True)
        return blake2b(content.encode(), digest_size=8).hexdigest()

    @property
    def id(self) -> str:
        """What results are stored under."""
        return f"{self.config_hash}-f{self.config.fold}s{self.config.seed}"

    @property
    def title(self) -> str:
        """The cell in words."""
        chosen = "".join(f" {name.rpartition('.')[2]}={value}" for name, value in self.variant.items())
        return f"{self.row}{chosen if self.searched else ''}, {self.column}, seed {self.repetition}"


def changed_settings(config: Config) -> dict[str, Any]:
    """What differs from the defaults: a new option with a neutral default leaves old results valid."""
    defaults = flat(asdict(compose(find_method(config.method.name))()))
    beside = NOT_HASHED - ({"eval_every"} if config.select == "validation" else set())
    return {
        name: value
        for name, value in flat(asdict(config)).items()
        if name not in beside and (name == "method.name" or value != defaults[name])
    }


@dataclass(frozen=True)
class Choice:
    """Which cells of a suite are wanted; an empty list wants all."""

    rows: Sequence[str] = ()  # names of rows or of methods, * allowed
    columns: Sequence[str] = ()  # names of columns or of data sets, * allowed
    seeds: Sequence[int] = ()

    def wants(self, row: str, method: str, column: str) -> bool:
        """Whether a row and a column are wanted, by their own names or their method's and data's."""
        return _any_fits((row, method), self.rows) and _any_fits(
            (column, column.partition("@")[0], column.partition(" ")[0]), self.columns
        )


def expand(suite: Suite, choice: Choice | None = None) -> list[Cell]:
    """The wanted cells of a suite, seed by seed, so that a first seed of everything is done early."""
    choice = choice or Choice()
    _check(suite, choice)
    frames = [
        (row_name, column, name, variant)
        for row_name, row in suite.rows.items()
        for column in suite.columns
        if fits(column, row.columns) and fits(row_name, suite.columns[column].rows)
        if choice.wants(row_name, _method_of(row), column)
        for name, variant in lines_of(row_name, row)
    ]
    configured = _Configurations(suite)
    return [
        Cell(
            name, column, variant, bool(suite.rows[row].search), seed, configured(row, column, variant, seed)
        )
        for seed in suite.seeds
        if not choice.seeds or seed in choice.seeds
        for row, column, name, variant in frames
    ]


def _check(suite: Suite, choice: Choice) -> None:
    """A name that picks nothing is a mistake."""
    methods = {name: _method_of(row) for name, row in suite.rows.items()}
    for pattern in choice.rows:
        if not any(Choice(rows=[pattern]).wants(row, method, "") for row, method in methods.items()):
            raise unknown(f"row of {suite.name}:", pattern, methods)
    for pattern in choice.columns:
        if not any(Choice(columns=[pattern]).wants("", "", column) for column in suite.columns):
            raise unknown(f"column of {suite.name}:", pattern, suite.columns)
    for seed in choice.seeds:
        if seed not in suite.seeds:
            raise unknown(f"seed of {suite.name}:", str(seed), [str(known) for known in suite.seeds])


def _any_fits(names: Sequence[str], patterns: Sequence[str]) -> bool:
    return not patterns or any(fits(name, patterns) for name in names)


class _Configurations:
    """The configurations of a suite; repetitions share what does not depend on the repetition."""

    def __init__(self, suite: Suite) -> None:
        self.suite = suite
        self.known: dict[Any, Config] = {}
        self.seeds = {seed for rule in suite.rules for seed in rule.seeds}  # that rules single out

    def __call__(self, row: str, column: str, variant: dict[str, Any], seed: int) -> Config:
        key = row, column, json.dumps(variant), seed if seed in self.seeds else None
        if key not in self.known:
            self.known[key] = _configure(self.suite, row, column, variant, seed)
        own = self.known[key]
        return replace(own, fold=seed, seed=seed if self.suite.repeat == "both" else own.seed)


def _configure(suite: Suite, row_name: str, column_name: str, variant: dict[str, Any], seed: int) -> Config:
    """The configuration of a row in a column: general layers first, the row's own last."""
    row, column = suite.rows[row_name], suite.columns[column_name]
    where = f"suite {suite.name}, row {row_name!r}, column {column_name!r}"
    method = _method_of(row)
    rules = [rule for rule in suite.rules if _applies(rule, row_name, method, column_name, seed)]
    layers = [
        *(read_file(name) for name in column.config),
        Layer(where, _line_settings(method, column)),
        Layer(where, dict(column.settings)),
        *(read_file(name) for name in row.config),
        Layer(where, dict(suite.settings)),
        *(Layer(where, dict(rule.set)) for rule in rules),
        Layer(where, dict(row.settings)),
        Layer(where, variant),
    ]
    try:
        config = settle(replace(resolve(layers), threads=1))
    except UserError as error:
        raise UserError(f"{where}: {error}") from error
    if find_method(method).needs_all_labels:
        config = replace(config, labels=None)  # one run serves all numbers of labels
    return replace(config, out=None)


def _method_of(row: Row) -> str:
    method = row.settings.get("method.name") or row.settings["method"]
    return str(method["name"] if isinstance(method, Mapping) else method)


def _applies(rule: Rule, row: str, method: str, column: str, seed: int) -> bool:
    named = fits(row, rule.rows) and fits(method, rule.methods) and fits(column, rule.columns)
    return named and (not rule.seeds or seed in rule.seeds)


def fits(name: str, patterns: Sequence[str]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def _line_settings(method: str, column: Column) -> dict[str, Any]:
    """What the recipes' list of commands says of this method under the column's recipe."""
    return _lines().get((method, column.config[0]), {}) if column.config else {}


@cache
def _lines() -> dict[tuple[str, str], dict[str, Any]]:
    """The commands of recipes/lines.txt as settings, by method and recipe."""
    lines = {}
    for line in (recipes_folder() / "lines.txt").read_text(encoding="utf-8").splitlines():
        if line.startswith("--"):
            tokens = shlex.split(line)
            flags = dict(zip(tokens[::2], tokens[1::2], strict=True))
            place = flags.pop("--method"), flags.pop("--config")
            del flags["--data"]
            lines[place] = {
                flag.removeprefix("--").replace("-", "_"): yaml.safe_load(value)
                for flag, value in flags.items()
            }
    return lines
