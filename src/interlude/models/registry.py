"""Networks by name: which there are, what can be set about them, and building one."""

import inspect
import re
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Literal, TypeVar

import torch
from torch import nn

from interlude.compat import prepare_torchvision
from interlude.errors import UserError, unknown
from interlude.models.classifier import Backbone, Classifier
from interlude.models.frozen import Frozen
from interlude.models.layers import Backend
from interlude.models.tops import LinearTop, MlpTop
from interlude.models.unfreeze import add_adapters, unfreeze_last_stage
from interlude.models.weights import load_weights, normalisation_beside
from interlude.options import Options, option

Builder = Callable[..., Backbone]
"""Called as `builder(name, channels=, image_size=)`; the options a network takes are its further keywords."""
C = TypeVar("C", bound=Classifier)

VECTORS = "vectors"  # the model that has no network below its head

_builders: dict[str, Builder] = {}
_families: dict[str, Builder] = {}
_about: dict[str, str] = {}
_kinds: dict[str, type[Classifier]] = {Classifier.kind: Classifier}


@dataclass(frozen=True)
class ModelConfig(Options):
    """Which network, and what can be set about it."""

    name: str = option("cnn", "network: a name from `interlude list models`, or timm:NAME for any timm model")
    pretrained: bool = option(False, "start from timm's weights (downloaded by timm)")
    weights: str | None = option(None, "start from this file of weights (.safetensors or .pt/.pth)")
    norm_momentum: float | None = option(
        None, "momentum of BatchNorm; None = the network's own (wrn 0.001, cnn 0.1)", above=0, at_most=1
    )
    drop_path: float | None = option(
        None, "stochastic depth, where the network has it; None = its own (vit 0.2)", at_least=0, below=1
    )
    standard_preact: bool = option(
        False,
        "wrn: units that downsample feed their first convolution the activated tensor (TensorFlow original) "
        "instead of the raw one (authors and other PyTorch code)",
    )
    targets: Literal["auto", "joint", "separate"] = option(
        "auto",
        "pass of the views that only give targets: joint, with all others; separate, without gradient and "
        "faster (BatchNorm then normalises them by themselves); auto = separate where no number changes",
    )
    backend: Backend = option(
        "auto",
        "what computes norms and pools on a CPU: torch, or numba's compiled loops, which give the same bits; "
        "auto goes over to numba, where it is installed, once that is worth it",
    )
    compile: bool = option(False, "compile the network with torch.compile: a slow start, then faster steps")
    frozen: bool = option(False, "keep the pretrained network as it is and train a head on its vectors")
    unfreeze: Literal["nothing", "last-stage", "adapters"] = option(
        "nothing",
        "frozen: train on images, and with the head the last stage of the network, or small low-rank "
        "additions to the attention of a ViT (adapters)",
    )
    head: Literal["linear", "mlp"] = option(
        "linear", "frozen: the head on its vectors; mlp has a hidden layer"
    )
    hidden: int = option(512, "frozen: width of the hidden layer of the mlp", at_least=1)
    dropout: float = option(0.0, "frozen: dropout after the hidden layer of the mlp", at_least=0, below=1)
    principal: int = option(
        0,
        "frozen: keep this many principal directions of its vectors and bring what is left to one length; "
        "0 = scale each dimension instead",
        at_least=0,
    )
    input_size: int | None = option(
        None, "frozen: scale images to this many pixels a side; None = the size that the data has", at_least=1
    )
    layer: int | None = option(
        None,
        "frozen, networks of timm: 0 takes the vector that would enter the classifier, N the averaged maps "
        "of the Nth stage from the last; None = 1 where a wider layer follows that stage, else 0",
        at_least=0,
    )
    adapter_rank: int = option(8, "frozen: rank of the adapters", at_least=1)
    adapter_alpha: float = option(16.0, "frozen: adapters are multiplied by alpha / rank", above=0)


def backbone(name: str, about: str = "") -> Callable[[Builder], Builder]:
    """Register the function that builds the network `name`; without `about` its docstring describes it."""

    def register(builder: Builder) -> Builder:
        if name in _builders:
            raise ValueError(f"two backbones are named {name!r}")
        _builders[name] = builder
        _about[name] = about or (builder.__doc__ or "").partition("\n")[0]
        return builder

    return register


def family(pattern: str, shown: str, about: str) -> Callable[[Builder], Builder]:
    """Register the function that builds every network whose name fits `pattern`, listed once as `shown`."""

    def register(builder: Builder) -> Builder:
        _families[pattern] = builder
        _about[shown] = about
        return builder

    return register


def classifier_kind(name: str) -> Callable[[type[C]], type[C]]:
    """Register a classifier that predicts with more than a linear head, so that it is saved and loaded."""

    def register(kind: type[C]) -> type[C]:
        if name in _kinds:
            raise ValueError(f"two kinds of classifier are named {name!r}")
        kind.kind = name
        _kinds[name] = kind
        return kind

    return register


def find_kind(name: str) -> type[Classifier]:
    """The kind of classifier registered as `name`."""
    if name not in _kinds:
        raise unknown("kind of classifier", name, _kinds)
    return _kinds[name]


def kind_of(classifier: Classifier) -> str:
    """The name of its kind; of an unregistered class its own name, lest it be loaded as something else."""
    cls = type(classifier)
    return cls.kind if _kinds.get(cls.kind) is cls else cls.__name__


def backbone_names() -> list[str]:
    """The names of all registered networks."""
    return sorted(_builders)


def check_name(name: str) -> None:
    """Refuse a name that no network has."""
    _builder(name)


def describe() -> dict[str, str]:
    """A line about each registered network, and about each family of them."""
    return dict(sorted(_about.items()))


def build(
    cfg: ModelConfig, *, num_classes: int, channels: int, image_size: tuple[int, int], precision: str = "fp32"
) -> Classifier:
    """The classifier that `cfg` describes, for images of this size, in channels-last order."""
    make = _builder(cfg.name)
    options = _options(cfg, make)
    seen = image_size if cfg.input_size is None else (cfg.input_size, cfg.input_size)
    inner = make(cfg.name, channels=channels, image_size=seen, **options)
    if cfg.norm_momentum is not None:
        _set_norm_momentum(inner, cfg.norm_momentum, cfg.name)
    if _is_frozen(cfg):
        inner = Frozen(inner, _top(cfg, inner.num_features), input_size=cfg.input_size)
    classifier = Classifier(inner, num_classes, precision=precision)
    if _is_frozen(cfg) and cfg.head == "linear" and cfg.unfreeze == "nothing":
        nn.init.zeros_(classifier.head.weight)  # nothing below it learns, so no guess beats a random one
    classifier.targets = cfg.targets
    if cfg.weights is not None:
        load_weights(classifier, cfg.weights, cfg.name)
    if isinstance(inner, Frozen):
        _thaw(inner, cfg, (channels, *seen))
    # convolutions are faster so, on CPUs and GPUs alike, and images follow the order of the weights
    classifier.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    if cfg.compile:
        classifier.backbone.compile()
    return classifier


def _builder(name: str) -> Builder:
    if name in _builders:
        return _builders[name]
    for pattern, builder in _families.items():
        if re.fullmatch(pattern, name):
            return builder
    raise _unknown_model(name)


def _unknown_model(name: str) -> UserError:
    prepare_torchvision()
    import timm

    if timm.is_model(name):
        return UserError(f"unknown model {name!r}; did you mean 'timm:{name}'?")
    return unknown("model", name, backbone_names())


def _options(cfg: ModelConfig, builder: Builder) -> dict[str, object]:
    """The options of `cfg` that were set; it is an error if the network does not take one of them."""
    _check_frozen_options(cfg)
    if cfg.pretrained and cfg.weights is not None:
        raise UserError("pretrained and weights exclude each other: both say where the weights come from")
    taken = inspect.signature(builder).parameters
    given = {}
    for item in fields(cfg):
        value = getattr(cfg, item.name)
        if item.name not in ("pretrained", "drop_path", "standard_preact", "layer") or value == item.default:
            continue
        if item.name not in taken:
            hint = ", which has no weights to download; use weights=FILE" if item.name == "pretrained" else ""
            raise UserError(f"{item.name} does not apply to the model {cfg.name!r}{hint}")
        given[item.name] = value
    if cfg.frozen and "layer" in taken:
        given["layer"] = cfg.layer
    return given


# an option of frozen networks, and the option and its value that give it a meaning
MEANINGLESS_WITHOUT = {
    "unfreeze": ("frozen", True),
    "head": ("frozen", True),
    "principal": ("frozen", True),
    "input_size": ("frozen", True),
    "layer": ("frozen", True),
    "hidden": ("head", "mlp"),
    "dropout": ("head", "mlp"),
    "adapter_rank": ("unfreeze", "adapters"),
    "adapter_alpha": ("unfreeze", "adapters"),
}


def _check_frozen_options(cfg: ModelConfig) -> None:
    """It is an error to set what has no effect."""
    defaults = {item.name: item.default for item in fields(cfg)}
    for name, (needed, value) in MEANINGLESS_WITHOUT.items():
        met = _is_frozen(cfg) if needed == "frozen" else getattr(cfg, needed) == value
        if getattr(cfg, name) != defaults[name] and not met:
            raise UserError(f"model.{name} has no meaning without model.{needed}={str(value).lower()}")


def _is_frozen(cfg: ModelConfig) -> bool:
    return cfg.frozen or cfg.name == VECTORS


def _top(cfg: ModelConfig, width: int) -> LinearTop:
    principal = min(cfg.principal, width)
    if cfg.head == "linear":
        return LinearTop(width, principal=principal)
    return MlpTop(width, hidden=cfg.hidden, dropout=cfg.dropout, principal=principal)


def _thaw(network: Frozen, cfg: ModelConfig, shape: tuple[int, int, int]) -> None:
    """Once the weights are loaded: what of a frozen network is trained, and how its images are normalised."""
    beside = None if cfg.weights is None else normalisation_beside(cfg.weights, shape[0])
    if beside is not None:
        network.mean, network.std = beside
    if cfg.unfreeze == "last-stage":
        unfreeze_last_stage(network, shape)
    elif cfg.unfreeze == "adapters":
        add_adapters(network, rank=cfg.adapter_rank, alpha=cfg.adapter_alpha)


def _set_norm_momentum(network: nn.Module, momentum: float, name: str) -> None:
    # the base class of all BatchNorms, timm's own included
    norms = [part for part in network.modules() if isinstance(part, nn.modules.batchnorm._BatchNorm)]
    if not norms:
        raise UserError(f"norm_momentum does not apply to the model {name!r}: it has no BatchNorm")
    for part in norms:
        part.momentum = momentum
