"""The settings of a run: one typed tree, seen by the command line, YAML files, Python and the checkpoint."""

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from datetime import date
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from cyclopts import App, ArgumentCollection, CycloptsError, Parameter
from cyclopts.config import Dict

from interlude import methods
from interlude.augment import AugmentConfig
from interlude.data import DataConfig
from interlude.errors import UserError, unknown
from interlude.features import FeaturesConfig
from interlude.method import Method, find_method
from interlude.models import ModelConfig
from interlude.models.weights import content_hash
from interlude.optimizer import OptimizerConfig
from interlude.options import Options, option

# `--model cnn` and `model: cnn` are short for `--model.name cnn`
SHORT = {"method": "name", "data": "name", "model": "name", "optimizer": "name", "augment": "policy"}
BESIDE_THE_POINT = (
    "out",
    "tensorboard",
    "watch",
    "eval_every",
    "save_every",
    "log_every",
    "overlap",
    "keep_memory",
)
BESIDE_THE_POINT_OF = {
    "data": ("root", "download", "store"),
    "model": ("backend",),
    "augment": ("backend",),
    "features": ("budget", "cache"),
}


@dataclass(frozen=True)
class EmaConfig(Options):
    """The averaged weights, which are evaluated and saved."""

    decay: float = option(0.999, "factor of the moving average of weights", at_least=0, below=1)
    warmup: bool = option(
        True, "shorter averages early on, min(decay, (1+t)/(10+t)): short runs need it, long ones forget it"
    )


@dataclass(frozen=True)
class Config(Options):
    """All settings of one run."""

    method: Method.Config = field(default_factory=Method.Config)
    data: DataConfig = field(default_factory=DataConfig)
    model: ModelConfig = field(default_factory=ModelConfig)
    optimizer: OptimizerConfig = field(default_factory=OptimizerConfig)
    augment: AugmentConfig = field(default_factory=AugmentConfig)
    features: FeaturesConfig = field(default_factory=FeaturesConfig)
    ema: EmaConfig = field(default_factory=EmaConfig)
    labels: int | None = option(None, "number of labeled images; default all that have a label", at_least=1)
    fold: int = option(0, "which choice of labeled images", at_least=0)
    batch: int = option(64, "labeled images per step, B", at_least=1)
    mu: int | None = option(None, "unlabeled images per labeled one; default the method's own", at_least=1)
    steps: int = option(2**20, "optimiser steps", at_least=1)
    labels_first: int = option(
        0,
        "how many of the steps, the first ones, see labeled images alone: short runs gain by it",
        at_least=0,
    )
    seed: int = option(0, "randomness of training; the labels are chosen by `fold`", at_least=0)
    precision: Literal["fp32", "bf16"] = option("fp32", "arithmetic of the network; losses are always fp32")
    sync_batch_norm: bool = option(
        False, "many processes: BatchNorm by the statistics of all rows, not of each process's own"
    )
    device: str = option("auto", "auto, cpu, cuda, cuda:N or mps")
    threads: int = option(0, "CPU threads; 0 = as many as cores are free when the run starts", at_least=0)
    overlap: bool = option(True, "prepare the next batch while the network computes, where a core is free")
    keep_memory: bool = option(
        True, "keep freed memory for the next step until the process ends: faster, takes more (glibc only)"
    )
    watch: Literal["validation", "test", "none"] = option(
        "validation",
        "what is evaluated during training; nothing is chosen by it unless `select` says so",
    )
    select: Literal["last", "validation"] = option(
        "last",
        "which averaged weights count in the end: the last, or those of the best balanced accuracy on the "
        "validation images, looked at every `eval_every` steps",
    )
    eval_every: int = option(1024, "steps between evaluations of what is watched", at_least=1)
    save_every: int = option(1024, "steps between checkpoints", at_least=1)
    log_every: int = option(50, "steps between lines of metrics.jsonl", at_least=1)
    tensorboard: bool = option(False, "write TensorBoard events too (extra: interlude-ssl[tensorboard])")
    out: str | None = option(None, "run folder; default runs/DATA@LABELS-METHOD-seedN")

    def fingerprint(self) -> str:
        """A hash of everything that can change a figure."""
        beside = set(BESIDE_THE_POINT) - ({"eval_every"} if self.select == "validation" else set())
        tree = {name: value for name, value in asdict(self).items() if name not in beside}
        for part, names in BESIDE_THE_POINT_OF.items():
            tree[part] = {name: value for name, value in tree[part].items() if name not in names}
        if self.model.weights is not None:
            tree["model"]["weights"] = content_hash(self.model.weights)
        return hashlib.blake2b(json.dumps(tree, sort_keys=True).encode(), digest_size=8).hexdigest()

    def to_yaml(self) -> str:
        """The tree as a file that `--config` reads back."""
        return yaml.safe_dump(asdict(self), sort_keys=False)


@dataclass(frozen=True)
class Layer:
    """Settings from one place: a file, a Python call. Later layers win, the command line last."""

    source: str
    values: Mapping[str, Any]


def resolve(layers: Iterable[Layer] = ()) -> Config:
    """The configuration that layers give; an unknown name or bad value is a `UserError`."""

    def keep(*, settings: Config | None = None) -> Config | None:
        return settings

    config: Config = call(keep, layers, ())
    return config


def call(verb: Callable[..., Any], layers: Iterable[Layer], tokens: Sequence[str]) -> Any:
    """Call `verb(settings, **its own flags)` with what layers and tokens say."""
    app, tokens = parser(verb, layers, tokens)
    try:
        command, bound, _ = app.parse_args(tokens, exit_on_error=False, print_error=False)
    except CycloptsError as error:
        raise UserError(" ".join(str(error).split())) from error
    return command(*bound.args, **bound.kwargs)


def parser(
    verb: Callable[..., Any], layers: Iterable[Layer], tokens: Sequence[str], name: str = "interlude"
) -> tuple[App, list[str]]:
    """The command line of `verb` with the options of the method that layers and tokens choose."""
    tokens = [_long(token) for token in tokens]
    values = [Layer(layer.source, nested(layer)) for layer in [*layers, *_files(tokens)]]
    chosen = str(_method_name(values, tokens) or methods.DEFAULT)
    values = [_for_method(layer, chosen) for layer in values]
    schema = compose(find_method(chosen))
    for layer in values:
        for name in layer.values.keys() - {item.name for item in fields(schema)}:
            raise unknown(f"setting in {layer.source}:", name, [item.name for item in fields(schema)])
    verb.__annotations__["settings"] = Annotated[schema, Parameter(name="*")]
    verb.__kwdefaults__ = {**(verb.__kwdefaults__ or {}), "settings": schema()}
    sources = [Dict(dict(layer.values), source=layer.source) for layer in reversed(values)]
    app = App(
        name=name, config=[*sources, _whole_numbers], version_flags=[], suppress_keyboard_interrupt=False
    )
    app.default(verb)
    return app, list(tokens)


def _whole_numbers(app: App, commands: tuple[str, ...], arguments: ArgumentCollection) -> None:
    """Refuse a fraction where an integer is meant; cyclopts would round it."""
    for argument in arguments:
        for token in argument.tokens if argument.hint in (int, int | None) else ():
            if "." in str(token.value) and not _is_whole(str(token.value)):
                raise UserError(
                    f"{argument.name.removeprefix('--')} must be a whole number, got {token.value}"
                )


def _is_whole(text: str) -> bool:
    try:
        return float(text).is_integer()
    except ValueError:
        return False


def compose(method: type[Method]) -> type[Config]:
    """`Config` with the options of one method in it."""
    name = option(method.name, "which method, also --method; `interlude list methods` shows them")
    chosen = _derive(method.Config, "name", str, name)
    return _derive(Config, "method", chosen, field(default_factory=chosen))


def _derive(base: type[Any], name: str, kind: type, value: Any) -> type[Any]:
    """A frozen dataclass like `base` with another type and default for one field."""
    members = {"__annotations__": {name: kind}, name: value, "__module__": base.__module__, "__doc__": ""}
    return dataclass(frozen=True)(type("Config", (base,), members))


def stored(layers: Iterable[Layer], tokens: Sequence[str] = ()) -> Layer:
    """The settings of the run that `out` names in layers or tokens: the first layer when it is resumed."""
    tokens = [_long(token) for token in tokens]
    values = [Layer(layer.source, nested(layer)) for layer in [*layers, *_files(tokens)]]
    folders = [layer.values.get("out") for layer in values] + _values_of("--out", tokens)
    out = next((folder for folder in reversed(folders) if folder), None)
    if out is None:
        raise UserError("say which run to resume: --out RUN --resume")
    out = str(out)
    if not (Path(out) / "config.yaml").is_file():
        raise UserError(f"there is no run to resume in {out}; start it without --resume")
    layer = read_file(Path(out) / "config.yaml")
    wanted, found = _method_name(values, tokens), _method_name([layer], ())
    if wanted and wanted != found:
        raise UserError(f"{out} holds a run of the method {found!r}, not {wanted!r}; choose another --out")
    return layer


def recipes_folder() -> Path:
    """Where the recipes are: inside an installed package, beside `src` in a clone."""
    inside = Path(__file__).parent / "recipes"
    return inside if inside.is_dir() else Path(__file__).parents[2] / "recipes"


def recipe_names() -> list[str]:
    """The recipes that come with the package, usable as `--config NAME`."""
    return sorted(path.stem for path in recipes_folder().glob("*.yaml"))


def read_file(name: str | Path) -> Layer:
    """A YAML file of settings, or a recipe by its name."""
    path = Path(name)
    if (
        not path.is_file()
        and (recipes_folder() / f"{path.stem}.yaml").is_file()
        and path.parent.name in ("", "recipes")
    ):
        path = recipes_folder() / f"{path.stem}.yaml"
    if not path.is_file():
        raise unknown("recipe or config file", str(name), recipe_names())
    try:
        values = yaml.safe_load(path.read_text(encoding="utf-8"))
    except Exception as error:  # whatever YAML makes of bytes that may be any
        reason = " ".join(str(error).split()) or type(error).__name__
        raise UserError(f"cannot read {path}: {reason}") from error
    if not isinstance(values, dict | None):
        raise UserError(f"{path} must hold `name: value` lines, found {type(values).__name__}")
    return Layer(str(path), values or {})


def _files(tokens: Sequence[str]) -> list[Layer]:
    return [read_file(path) for path in _values_of("--config", tokens)]


def _method_name(layers: Iterable[Layer], tokens: Sequence[str]) -> str | None:
    """The method that the last layer or token to name one names; layers must be nested."""
    names = [layer.values.get("method", {}).get("name") for layer in layers]
    return next((name for name in reversed([*names, *_values_of("--method.name", tokens)]) if name), None)


def _for_method(layer: Layer, name: str) -> Layer:
    """The layer without the options of a method that it names, if another one was chosen after it."""
    if layer.values.get("method", {}).get("name", name) == name:
        return layer
    return Layer(layer.source, {key: value for key, value in layer.values.items() if key != "method"})


def nested(layer: Layer) -> dict[str, Any]:
    """Short forms spelled out: `model: cnn`, `method.alpha: 0.2`."""
    tree: dict[str, Any] = {}
    for dotted, value in layer.values.items():
        group, _, name = str(dotted).partition(".")
        if name or (group in SHORT and not isinstance(value, Mapping)):
            value = {name or SHORT[group]: value}
        if isinstance(value, Mapping):
            before = tree.get(group)
            inner = {str(key): _plain(item, f"{group}.{key}", layer) for key, item in value.items()}
            tree[group] = {**(before if isinstance(before, Mapping) else {}), **inner}
        else:
            tree[group] = _plain(value, group, layer)
    return tree


def _plain(value: Any, name: str, layer: Layer) -> Any:
    """The value of a setting, which must be one word or number."""
    if isinstance(value, Mapping | list | tuple | set | bytes | date):
        raise UserError(f"{name} in {layer.source} must be one value, found {type(value).__name__}")
    return value


def _long(token: str) -> str:
    """`--method` as `--method.name`, also in the form `--method=NAME`."""
    flag, equals, value = token.partition("=")
    group = flag.removeprefix("--")
    return f"{flag}.{SHORT[group]}{equals}{value}" if flag.startswith("--") and group in SHORT else token


def _values_of(flag: str, tokens: Sequence[str]) -> list[str]:
    """What is given for a flag, before the schema is known."""
    after = [value for token, value in pairwise(tokens) if token == flag]
    return after + [token.partition("=")[2] for token in tokens if token.startswith(f"{flag}=")]
