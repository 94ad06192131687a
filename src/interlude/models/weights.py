"""Start a classifier from a file of weights."""

import hashlib
import json
import warnings
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from torch import Tensor

from interlude.errors import UserError
from interlude.models.classifier import Classifier

WEIGHTS = "model.safetensors"
CONFIG = "config.json"
Numbers = tuple[float, ...]

# under which of these a training program keeps the network in its file
WRAPPERS = ("model", "state_dict", "model_state_dict", "net")


def load_weights(classifier: Classifier, path: str | Path, name: str, *, head: bool = False) -> None:
    """Fill `classifier`, a network called `name`, from a file.

    The head is skipped where the file has none or one for other classes, unless `head` demands it;
    everything else must match.
    """
    found = classifier.backbone.renamed(read_weights(path))
    own = classifier.state_dict()
    fresh = {key: value for key, value in own.items() if key.startswith("head.")}
    fits = all(key in found and found[key].shape == value.shape for key, value in fresh.items())
    if not head and not fits:
        found |= fresh
    differences = [
        _listed("lacks", [key for key in own if key not in found]),
        _listed("has unknown", [key for key in found if key not in own]),
        _listed("has other shapes for", [k for k in own if k in found and found[k].shape != own[k].shape]),
    ]
    if any(differences):
        raise UserError(f"{path} does not fit {name}: it {'; it '.join(filter(None, differences))}")
    classifier.load_state_dict(found)
    if fits:
        classifier.backbone.keep_scale()


def read_weights(path: str | Path) -> dict[str, Tensor]:
    """The tensors in a .safetensors or torch file, by name, freed from what programs wrap around them."""
    path = _file(path)
    if not path.is_file():
        raise UserError(f"there is no file of weights {path}")
    try:
        content = load_file(path) if path.suffix == ".safetensors" else _torch_load(path)
    except UserError:
        raise
    except Exception as error:  # whatever torch and safetensors make of bytes that may be any
        reason = str(error).strip().split("\n")[0].split(". ")[0]  # torch goes on with advice to take risks
        raise UserError(f"{path} is damaged or not a file of weights: {reason}; give another") from error
    weights = _unwrapped(content)
    if not weights:
        raise UserError(f"{path} holds no weights")
    return {name.removeprefix("module."): value for name, value in weights.items()}


def content_hash(path: str | Path) -> str:
    """A fingerprint of what is in a file of weights, wherever it lies; of one that is not there, its path."""
    path = _file(path)
    if not path.is_file():
        return str(path)
    about = path.stat()
    return _hash_once(path.resolve(), about.st_size, about.st_mtime_ns)


def normalisation_beside(path: str | Path, channels: int) -> tuple[Numbers, Numbers] | None:
    """Mean and standard deviation for each channel, if a config.json of ours or timm's is with the file."""
    try:
        config = json.loads((_file(path).parent / CONFIG).read_text(encoding="utf-8"))
        about = config if "mean" in config else config["pretrained_cfg"]
        return spread_over(about["mean"], channels), spread_over(about["std"], channels)
    except (OSError, ValueError, KeyError, TypeError):
        return None  # a file of weights may lie beside anything


def spread_over(numbers: Sequence[float], channels: int) -> Numbers:
    """A number for each channel: as they are if so many, else their mean."""
    if len(numbers) == channels:
        return tuple(float(number) for number in numbers)
    return (sum(numbers) / len(numbers),) * channels


def _file(path: str | Path) -> Path:
    """The file of weights itself, where `path` is the folder of a run."""
    path = Path(path).expanduser()
    return path / WEIGHTS if path.is_dir() else path


@cache
def _hash_once(path: Path, size: int, changed: int) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()[:16]


def _torch_load(path: Path) -> Any:
    if path.suffix not in (".pt", ".pth", ".bin", ".tar"):
        raise UserError(f"{path}: a file of weights ends with .safetensors, .pt or .pth")
    with warnings.catch_warnings(action="ignore"):  # of a file that then cannot be read, which is told
        return torch.load(path, map_location="cpu", weights_only=True)


def _unwrapped(content: Any) -> dict[str, Tensor]:
    if not isinstance(content, dict):
        return {}
    for wrapper in WRAPPERS:
        if isinstance(content.get(wrapper), dict):
            return _unwrapped(content[wrapper])
    return {name: value for name, value in content.items() if isinstance(value, Tensor)}


def _listed(verb: str, keys: list[str], limit: int = 3) -> str:
    """`verb` and the first few keys, as files name them, or nothing if there are none."""
    if not keys:
        return ""
    keys = [key.removeprefix("backbone.").removeprefix("model.") for key in keys]
    more = f" and {len(keys) - limit} more" if len(keys) > limit else ""
    return f"{verb} {', '.join(keys[:limit])}{more}"
