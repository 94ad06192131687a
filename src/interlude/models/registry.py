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
from interlude.models.weights import load_weights
from interlude.options import Options, option

Builder = Callable[..., Backbone]
"""Called as `builder(name, channels=, image_size=)`; the options a network takes are its further keywords."""
C = TypeVar("C", bound=Classifier)

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
    compile: bool = option(False, "compile the network with torch.compile: a slow start, then faster steps")


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


def describe() -> dict[str, str]:
    """A line about each registered network, and about each family of them."""
    return dict(sorted(_about.items()))


def build(
    cfg: ModelConfig, *, num_classes: int, channels: int, image_size: tuple[int, int], precision: str = "fp32"
) -> Classifier:
    """The classifier that `cfg` describes, for images of this size, in channels-last order."""
    make = _builder(cfg.name)
    options = _options(cfg, make)
    inner = make(cfg.name, channels=channels, image_size=image_size, **options)
    if cfg.norm_momentum is not None:
        _set_norm_momentum(inner, cfg.norm_momentum, cfg.name)
    classifier = Classifier(inner, num_classes, precision=precision)
    classifier.targets = cfg.targets
    if cfg.weights is not None:
        load_weights(classifier, cfg.weights, cfg.name)
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
    if cfg.pretrained and cfg.weights is not None:
        raise UserError("pretrained and weights exclude each other: both say where the weights come from")
    taken = inspect.signature(builder).parameters
    given = {}
    for item in fields(cfg):
        value = getattr(cfg, item.name)
        if item.name not in ("pretrained", "drop_path", "standard_preact") or value == item.default:
            continue
        if item.name not in taken:
            hint = ", which has no weights to download; use weights=FILE" if item.name == "pretrained" else ""
            raise UserError(f"{item.name} does not apply to the model {cfg.name!r}{hint}")
        given[item.name] = value
    return given


def _set_norm_momentum(network: nn.Module, momentum: float, name: str) -> None:
    # the base class of all BatchNorms, timm's own included
    norms = [part for part in network.modules() if isinstance(part, nn.modules.batchnorm._BatchNorm)]
    if not norms:
        raise UserError(f"norm_momentum does not apply to the model {name!r}: it has no BatchNorm")
    for part in norms:
        part.momentum = momentum
