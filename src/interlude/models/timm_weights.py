"""Files of weights for timm's networks, as timm itself, USB and MAE write them, under the names we use."""

import sys
from typing import Any

from torch import Tensor, nn

from interlude.models.weights import Numbers, spread_over

# what training elsewhere leaves in a file beside the network: classifiers, and MAE's decoder
OTHER_PARTS = ("head.", "head_dist.", "fc.", "classifier.", "mlp", "decoder_")


def classifier_names(model: nn.Module) -> tuple[str, ...]:
    """Where timm keeps the classifier of `model`; distilled networks have two."""
    names = pretrained_cfg(model).get("classifier") or "head"
    return (names,) if isinstance(names, str) else tuple(names)


def pretrained_cfg(model: nn.Module) -> dict[str, Any]:
    """What timm says of `model`: the names of its classifier and first convolution, its input size."""
    return dict(getattr(model, "pretrained_cfg", None) or {})


def normalisation(model: nn.Module, channels: int) -> tuple[Numbers, Numbers] | tuple[None, None]:
    """Mean and standard deviation of the images that timm's weights of `model` expect, for each channel."""
    about = pretrained_cfg(model)
    if not (about.get("mean") and about.get("std")):
        return None, None
    return spread_over(about["mean"], channels), spread_over(about["std"], channels)


def head_weights(model: nn.Module, weights: dict[str, Tensor]) -> dict[str, Tensor]:
    """The classifier in `weights` as a linear layer (some networks of timm have a 1x1 convolution)."""
    name = classifier_names(model)[0]
    found = {part: weights[f"{name}.{part}"] for part in ("weight", "bias") if f"{name}.{part}" in weights}
    return {part: value.flatten(1) if value.ndim > 1 else value for part, value in found.items()}


def body_weights(model: nn.Module, weights: dict[str, Tensor]) -> dict[str, Tensor]:
    """Everything in `weights` but classifiers, converted to the names, sizes and channels of `model`."""
    own = model.state_dict()
    if any(name.startswith("decoder_") for name in weights):
        # MAE's whole auto-encoder; without its decoder the mask token would be taken for a sign of DINOv2
        weights = {name: value for name, value in weights.items() if name != "mask_token"}
    if not all(name in weights and weights[name].shape == value.shape for name, value in own.items()):
        weights = _adapted_to_channels(model, _converted(model, weights))
    heads = tuple(f"{name}." for name in classifier_names(model))
    body = {name: value for name, value in weights.items() if name in own or not name.startswith(OTHER_PARTS)}
    # some networks made without classes keep a classifier of width zero
    empty = {name: value for name, value in own.items() if name.startswith(heads)}
    return {name: value for name, value in body.items() if not name.startswith(heads)} | empty


def _converted(model: nn.Module, weights: dict[str, Tensor]) -> dict[str, Tensor]:
    """By timm's own function for this family, which renames, and resizes patches and positions."""
    convert = getattr(sys.modules[type(model).__module__], "checkpoint_filter_fn", None)
    if convert is None:
        return weights
    try:
        return dict(convert(weights, model))
    except (AttributeError, KeyError, IndexError, RuntimeError, TypeError, ValueError):
        return weights  # a file for another network; the caller says what does not fit


def _adapted_to_channels(model: nn.Module, weights: dict[str, Tensor]) -> dict[str, Tensor]:
    """With first convolutions made for colour summed for grey images, or repeated for more channels."""
    from timm.models import adapt_input_conv

    own, adapted = model.state_dict(), dict(weights)
    first = pretrained_cfg(model).get("first_conv") or ()
    for name in (first,) if isinstance(first, str) else first:
        key = f"{name}.weight"
        if key in own and key in weights and weights[key].ndim == 4 and weights[key].shape[1] == 3:
            adapted[key] = adapt_input_conv(own[key].shape[1], weights[key])
    return adapted
