"""Lane, network, image size, policy and the rest, chosen from the data; each with its reason."""

from dataclasses import dataclass
from typing import Any, NamedTuple

from interlude.config import nested, read_file
from interlude.errors import UserError
from interlude.fitting.options import FitOptions
from interlude.fitting.pretrained import find_weights
from interlude.models.registry import check_name

RECIPES = {"features": "laptop", "scratch": "quick"}
SIDES = {"features": (32, 48, 64, 96, 128), "scratch": (16, 24, 32, 48, 64)}  # pixels a side
LONGEST = {"features": 1, "scratch": 8}  # times the steps of the recipe, if the budget allows
GREY_POLICY = "grayscale-medical"


class Choice(NamedTuple):
    """A setting that was chosen, or given, and why it is what it is."""

    name: str
    value: str
    reason: str


@dataclass(frozen=True)
class Facts:
    """What is known of the images."""

    side: int  # median of the shorter sides, in pixels
    grey: bool


@dataclass(frozen=True)
class Plan:
    """The settings of the method, those that all candidates share, and how they came about."""

    lane: str
    method: dict[str, Any]
    common: dict[str, Any]
    choices: list[Choice]


GIVEN = "you said so"


def choose(wishes: FitOptions, facts: Facts) -> Plan:
    """The plan for these images."""
    lane, model, choices = _lane(wishes)
    recipe = nested(read_file(RECIPES[lane]))
    method = dict(recipe.pop("method", {}))
    if wishes.method is not None and wishes.method != method.get("name"):
        method = {"name": wishes.method}
    reason = (
        GIVEN if wishes.method else f"with few labels it did best of those tried (docs/{RECIPES[lane]}.md)"
    )
    choices.append(Choice("method", method["name"], reason))
    side, why_side = _side(wishes, facts, lane)
    choices.append(Choice("image size", f"{side} pixels", why_side))
    policy, why_policy = _policy(wishes, facts, lane, str(recipe.get("augment", {}).get("policy", "")))
    choices.append(Choice("augmentation", policy, why_policy))
    common = recipe | {
        "model": {**recipe.get("model", {}), **model},
        "augment": {**recipe.get("augment", {}), "policy": policy},
        "data": {**recipe.get("data", {}), "image_size": side},
    }
    return Plan(lane, method, common, choices)


class Lane(NamedTuple):
    """The lane taken, the settings of its network, and what to tell about both."""

    name: str
    model: dict[str, Any]
    choices: list[Choice]


def _lane(wishes: FitOptions) -> Lane:
    """Pretrained features where their weights can be had, else training from scratch."""
    if wishes.lane == "scratch":
        return _from_scratch(wishes, GIVEN)
    model = wishes.model or _model_of("features")
    if not model.startswith("timm:"):
        return _from_scratch(wishes, f"{model} comes without weights")
    found = find_weights(model, wishes.weights)
    if found.available:
        own = {"name": model, "weights": wishes.weights, "pretrained": wishes.weights is None}
        why = "a few labels go furthest on a pretrained network"
        told = [Choice("lane", "pretrained features", why), Choice("network", model, found.reason)]
        return Lane("features", own, told)
    if wishes.lane == "features" or wishes.model:
        raise UserError(f"{model} cannot be used: {found.reason}; give its weights with --weights FILE")
    why = f"{model} would do better, but {found.reason}; --weights FILE gives them"
    return _from_scratch(wishes, why)


def _from_scratch(wishes: FitOptions, why: str) -> Lane:
    if wishes.weights:
        raise UserError(
            "--weights is for a pretrained network: drop it, or leave out --lane scratch and name that "
            "network by --model timm:NAME"
        )
    own = {"name": wishes.model} if wishes.model else {}
    if wishes.model:
        check_name(wishes.model)
    network = Choice("network", wishes.model or _model_of("scratch"), GIVEN if own else "small, for a CPU")
    return Lane("scratch", own, [Choice("lane", "from scratch", why), network])


def _model_of(lane: str) -> str:
    """The network of a lane's recipe."""
    return str(nested(read_file(RECIPES[lane]))["model"]["name"])


def _side(wishes: FitOptions, facts: Facts, lane: str) -> tuple[int, str]:
    if wishes.image_size is not None:
        return wishes.image_size, GIVEN
    sides = SIDES[lane]
    side = max((side for side in sides if side <= facts.side), default=sides[0])
    if lane == "features":
        return side, f"half of the images are {facts.side} pixels or more on the shorter side"
    return (
        side,
        f"half of the images have {facts.side} pixels or more, and from scratch small ones learn faster",
    )


def _policy(wishes: FitOptions, facts: Facts, lane: str, recipe: str) -> tuple[str, str]:
    if wishes.augment is not None:
        return wishes.augment, GIVEN
    if facts.grey and lane == "scratch":
        return GREY_POLICY, "all images are grey; nothing is mirrored or recoloured (--augment natural would)"
    if lane == "features":
        return recipe, "vectors of a frozen network bear mild changes only"
    return recipe, "colour photographs; --augment NAME for another kind of images"
