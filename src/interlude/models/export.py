"""A trained classifier as two files that others can read: `model.safetensors` and `config.json`.

Networks of timm with a linear head are written as timm's hub has them, so that
`timm.create_model("local-dir:FOLDER", pretrained=True)` gives the same network with the same logits.
Classifiers of another kind are written in our form, with their kind and its sizes under "classifier".
"""

import copy
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save as to_bytes
from torch import Tensor

from interlude.errors import UserError
from interlude.files import write_whole
from interlude.models.adapters import merge
from interlude.models.classifier import Classifier
from interlude.models.frozen import Frozen
from interlude.models.registry import ModelConfig, build, find_kind, kind_of
from interlude.models.timm_backbone import TimmBackbone
from interlude.models.timm_weights import classifier_names, pretrained_cfg
from interlude.models.tops import LinearTop, Scaling
from interlude.models.weights import CONFIG, WEIGHTS, load_weights

# where the weights came from and how they were run is not part of the network
HOW_IT_WAS_TRAINED: dict[str, Any] = {"pretrained": False, "weights": None, "compile": False} | {
    name: ModelConfig.__dataclass_fields__[name].default
    for name in ("unfreeze", "adapter_rank", "adapter_alpha")
}


def save(
    folder: str | Path,
    classifier: Classifier,
    *,
    model_config: ModelConfig,
    image_size: tuple[int, int],
    channels: int,
    mean: Sequence[float],
    std: Sequence[float],
    label_names: Sequence[str],
    fit: str = "crop",
) -> None:
    """Write `classifier` to `folder`; both files appear whole or not at all.

    `fit` says how a file becomes a square image.
    """
    classifier = _finished(classifier)
    weights = classifier.state_dict()
    config: dict[str, Any] = {
        "architecture": model_config.name,
        "num_classes": classifier.num_classes,
        "num_features": classifier.num_features,
        "label_names": list(label_names),
        "image_size": list(image_size),
        "channels": channels,
        "mean": [float(value) for value in mean],
        "std": [float(value) for value in std],
        "fit": fit,
        "classifier": {"kind": kind_of(classifier), **classifier.sizes()},
        "model": asdict(replace(model_config, **HOW_IT_WAS_TRAINED)),
    }
    plain = _folded(classifier, image_size) if _is_plain(classifier) else classifier
    if _is_plain(classifier) and isinstance(plain.backbone, TimmBackbone):
        timm_weights = _timm_weights(plain, plain.backbone)
        timm_config = _timm_config(plain.backbone, config)
        if timm_weights is not None and _timm_agrees(classifier, timm_weights, timm_config):
            weights, config = timm_weights, config | timm_config
    _write(Path(folder), weights, config)


def set_calibration(folder: str | Path, calibration: Mapping[str, Any]) -> None:
    """Put a calibration into the config.json of a model that is saved already."""
    path = Path(folder) / CONFIG
    config = json.loads(path.read_text(encoding="utf-8")) | {"calibration": dict(calibration)}
    write_whole(path, json.dumps(config, indent=2) + "\n")


def load(folder: str | Path) -> tuple[Classifier, dict[str, Any]]:
    """The classifier that `save` wrote, in evaluation mode, and the content of its config.json."""
    folder = Path(folder)
    try:
        config: dict[str, Any] = json.loads((folder / CONFIG).read_text(encoding="utf-8"))
        model_config = ModelConfig(**({"layer": 0} | config["model"]))  # it was no choice once
        height, width = config["image_size"]
        num_classes, channels = int(config["num_classes"]), int(config["channels"])
        _check(config, num_classes, channels)
        kind = dict(config.get("classifier", {"kind": Classifier.kind}))
        kind_name, sizes = str(kind.pop("kind")), {name: int(value) for name, value in kind.items()}
        plain = build(model_config, num_classes=num_classes, channels=channels, image_size=(height, width))
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"there is no exported model in {folder}: {CONFIG} cannot be read") from error
    except Exception as error:  # a hand or a disk may have put anything there
        reason = " ".join(str(error).split())
        raise UserError(f"{folder / CONFIG} is damaged or was not written by interlude: {reason}") from error
    classifier = _of_kind(plain, kind_name, sizes, folder)
    load_weights(classifier, folder / WEIGHTS, model_config.name, head=True)
    return classifier.eval(), config


def _check(config: dict[str, Any], num_classes: int, channels: int) -> None:
    """Raise a ValueError unless the names and numbers beside the network are such as `save` writes."""
    for name in ("mean", "std"):
        if len(config[name]) != channels or not all(math.isfinite(value) for value in config[name]):
            raise ValueError(f"{name} must be {channels} numbers")
    names = config["label_names"]
    if len(names) != num_classes or not all(isinstance(name, str) for name in names):
        raise ValueError(f"label_names must be {num_classes} words")


def _is_plain(classifier: Classifier) -> bool:
    """Whether it is a backbone with a linear head and nothing else."""
    parts = {name.partition(".")[0] for name in classifier.state_dict()}
    return type(classifier) is Classifier and parts <= {"backbone", "head"}


def _finished(classifier: Classifier) -> Classifier:
    """The network without adapters: a copy of it with these merged into its weights, if it has any."""
    if not isinstance(classifier.backbone, Frozen) or classifier.backbone.takes_vectors:
        return classifier
    classifier = copy.deepcopy(classifier)
    merge(classifier.backbone)
    return classifier


def _folded(classifier: Classifier, image_size: tuple[int, int]) -> Classifier:
    """The body of a frozen network with a head that includes the scaling, if nothing else is between them."""
    frozen = classifier.backbone
    if not isinstance(frozen, Frozen) or type(frozen.top) is not LinearTop:
        return classifier
    if frozen.input_size is not None and image_size != (frozen.input_size, frozen.input_size):
        return classifier
    scaling, head = frozen.top.scaling, classifier.head
    if not isinstance(scaling, Scaling):
        return classifier
    plain = Classifier(frozen.body, classifier.num_classes)
    with torch.no_grad():
        weight = head.weight.double() / scaling.std.double()
        plain.head.weight.copy_(weight)
        plain.head.bias.copy_(head.bias.double() - weight @ scaling.mean.double())
    return plain


def _of_kind(plain: Classifier, name: str, sizes: dict[str, int], folder: Path) -> Classifier:
    """`plain` as a classifier of the kind `name`, with that kind's further parts."""
    kind = find_kind(name)
    try:
        return kind.around(plain, **sizes)
    except (TypeError, ValueError, RuntimeError, ZeroDivisionError) as error:
        raise UserError(f"{folder / CONFIG} is damaged: no {name} classifier with {sizes}") from error


def _timm_weights(classifier: Classifier, backbone: TimmBackbone) -> dict[str, Tensor] | None:
    """The weights under timm's names, or None if timm's classifier is more than a linear layer."""
    import timm

    theirs = timm.create_model(
        backbone.architecture, num_classes=classifier.num_classes, **backbone.model_args
    ).state_dict()
    weights = dict(backbone.model.state_dict())
    for name in classifier_names(backbone.model):
        for part, value in classifier.head.state_dict().items():
            wanted = theirs.get(f"{name}.{part}")
            if wanted is None or wanted.numel() != value.numel():
                return None
            weights[f"{name}.{part}"] = value.reshape(wanted.shape)  # it may be a 1x1 convolution there
    return weights if weights.keys() == theirs.keys() else None


def _timm_agrees(classifier: Classifier, weights: dict[str, Tensor], config: dict[str, Any]) -> bool:
    """Whether timm, reading these weights in its own way, gives our logits."""
    import timm

    about = config["pretrained_cfg"] | {"state_dict": _plain(weights)}
    try:
        theirs = timm.create_model(
            config["architecture"], pretrained=True, pretrained_cfg=about, **config["model_args"]
        )
    except Exception:  # timm does not read back all that it makes (a Swin for oblong images)
        return False
    ours = copy.deepcopy(classifier).cpu().eval()
    shape = (2, *about["input_size"])
    images = torch.linspace(-1, 1, math.prod(shape)).reshape(shape)
    with torch.no_grad():
        expected = ours.head(ours.backbone(images))
        return torch.allclose(theirs.eval()(images), expected, rtol=1e-3, atol=1e-4)


def _timm_config(backbone: TimmBackbone, config: dict[str, Any]) -> dict[str, Any]:
    """What timm reads of a config.json, on top of what we read."""
    known = pretrained_cfg(backbone.model)
    channels, image_size = config["channels"], config["image_size"]
    about = {
        "num_classes": config["num_classes"],
        "input_size": [channels, *image_size],
        "mean": config["mean"],
        "std": config["std"],
        "crop_pct": 1.0,
        "fixed_input_size": known.get("fixed_input_size", False),
        "classifier": known.get("classifier"),
        # timm would adapt this convolution to the channels, but it is already made for them
        "first_conv": known.get("first_conv") if channels == 3 else None,
    }
    return {
        "architecture": backbone.architecture,
        "model_args": backbone.model_args,
        "pretrained_cfg": {key: value for key, value in about.items() if value is not None},
    }


def _write(folder: Path, weights: dict[str, Tensor], config: dict[str, Any]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    contents = {
        WEIGHTS: to_bytes(_plain(weights), metadata={"format": "pt"}),
        CONFIG: (json.dumps(config, indent=2) + "\n").encode(),
    }
    for name, content in contents.items():
        (folder / f"{name}.tmp").write_bytes(content)
    for name in contents:
        (folder / f"{name}.tmp").replace(folder / name)


def _plain(weights: dict[str, Tensor]) -> dict[str, Tensor]:
    """On the CPU, in the usual memory order, no two sharing memory."""
    return {
        name: value.detach().cpu().clone(memory_format=torch.contiguous_format)
        for name, value in weights.items()
    }
