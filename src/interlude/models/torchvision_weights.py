"""Files of weights from torchvision for networks that timm builds alike under other names."""

from collections import defaultdict

from torch import Tensor, nn

# timm's networks that give torchvision's very numbers when filled part by part, in order
SAME = ("mobilenetv2_100", "mnasnet_100", "efficientnet_b0", "efficientnet_b1")
CLASSIFIER = "classifier.1."


def in_timms_names(model: nn.Module, architecture: str, weights: dict[str, Tensor]) -> dict[str, Tensor]:
    """`weights` of torchvision under the names of `model`, timm's network without classifier; else as is."""
    if architecture not in SAME or model.state_dict().keys() & weights.keys():
        return weights
    theirs = {name: value for name, value in weights.items() if not name.startswith(CLASSIFIER)}
    parts, their_parts = _by_part(model.state_dict()), _by_part(theirs)
    ordered = [their_parts[name] for name in sorted(their_parts, key=_natural)]
    if [list(part) for part in parts.values()] != [list(part) for part in ordered]:
        return weights
    pairs = zip(parts.items(), ordered, strict=True)
    body = {f"{name}.{leaf}": x for (name, _), part in pairs for leaf, x in part.items()}
    head = {name.replace(CLASSIFIER, "classifier."): x for name, x in weights.items() if name not in theirs}
    return body | head


def _by_part(weights: dict[str, Tensor]) -> dict[str, dict[str, Tensor]]:
    """The tensors of each part of a network, by their names in it, in alphabetical order."""
    parts: defaultdict[str, dict[str, Tensor]] = defaultdict(dict)
    for name in sorted(weights, key=_natural):
        part, _, leaf = name.rpartition(".")
        parts[part][leaf] = weights[name]
    return {part: parts[part] for part in dict.fromkeys(name.rpartition(".")[0] for name in weights)}


def _natural(name: str) -> list[tuple[bool, int, str]]:
    """Sorts numbers in a name as numbers."""
    return [(not word.isdigit(), int(word) if word.isdigit() else 0, word) for word in name.split(".")]
