"""Any network of timm as a backbone."""

import re
from difflib import get_close_matches
from typing import Any

import torch
from torch import Tensor, nn

from interlude.compat import prepare_torchvision
from interlude.errors import UserError, unknown
from interlude.models.classifier import Backbone, Midway
from interlude.models.registry import family
from interlude.models.timm_weights import body_weights, classifier_names, head_weights, normalisation
from interlude.models.torchvision_weights import in_timms_names


class TimmBackbone(Backbone):
    """A timm network without its classifier; the embedding is what would enter it, or an earlier `layer`.

    `model_args` are the keywords, beyond the number of classes, with which timm makes the same network.
    """

    def __init__(
        self,
        model: nn.Module,
        architecture: str,
        *,
        num_features: int,
        model_args: dict[str, Any],
        layer: int = 0,
    ) -> None:
        super().__init__()
        self.model: Any = model
        self.architecture, self.layer = architecture, layer
        self.num_features = num_features
        self.model_args = model_args
        self.mean, self.std = normalisation(model, model_args.get("in_chans", 3))
        self._pending: Midway | None = None
        self._rows = 0
        self._caching: list[Any] = [x for x in model.modules() if hasattr(x, "attention_bias_cache")]
        self._watch_last_stage()

    def forward(self, images: Tensor, midway: Midway | None = None) -> Tensor:
        self._pending, self._rows = midway, images.shape[0]  # not len, which would fix the batch of an export
        try:
            embedding = _embedding(self.model, images, self.layer)
        finally:
            missed, self._pending = self._pending, None
            for part in self._caching:  # timm trusts weights not to move in evaluation, but averaged ones do
                part.attention_bias_cache = {}
        if missed is not None:
            raise self._no_stage()
        return embedding

    def layers(self) -> dict[str, int]:
        groups = self._groups()
        return {f"model.{name}": groups[name] for name, _ in self.model.named_parameters() if name in groups}

    def head_layer(self) -> int:
        return self._groups().get(self._classifier_weight, 0)

    def undecayed(self) -> set[str]:
        exempt = self.model.no_weight_decay() if hasattr(self.model, "no_weight_decay") else set()
        return {f"model.{name}" for name, x in self.model.named_parameters() if name in exempt and x.ndim > 1}

    def renamed(self, weights: dict[str, Tensor]) -> dict[str, Tensor]:
        if any(name.startswith("backbone.") for name in weights):
            return super().renamed(weights)
        weights = in_timms_names(self.model, self.architecture, weights)
        body = {f"backbone.model.{name}": x for name, x in body_weights(self.model, weights).items()}
        head = {f"head.{name}": x for name, x in head_weights(self.model, weights).items()}
        return body if self.layer else body | head

    @property
    def _classifier_weight(self) -> str:
        return f"{classifier_names(self.model)[0]}.weight"

    def _groups(self) -> dict[str, int]:
        """The layer of each parameter and of the classifier, as timm counts them.

        One difference: what follows the last block, such as a ViT's final norm, is with the classifier.
        """
        from timm.models._manipulate import group_with_matcher

        if not hasattr(self.model, "group_matcher"):
            return {}
        names = [name for name, _ in self.model.named_parameters()] + [self._classifier_weight]
        matcher = _without_tail(self.model.group_matcher(coarse=False))
        return dict(group_with_matcher([(name, None) for name in names], matcher, reverse=True))

    def _watch_last_stage(self) -> None:
        """Have `midway` called where the last stage begins.

        The hooks are methods, not closures, because a deep copy of the network takes methods along.
        """
        parts = dict(self.model.named_modules())
        names = [info.get("module") for info in _feature_info(self.model)]
        stages = [parts[name] for name in names if name in parts]
        if stages and any(weight.ndim > 1 for weight in stages[-1].parameters()):
            stages[-1].register_forward_pre_hook(self._before_last_stage)
        elif len(stages) > 1:
            # the last part is a mere norm or pool, so the stage begins where the part before it ends
            stages[-2].register_forward_hook(self._after_second_last_stage)

    def _before_last_stage(self, stage: nn.Module, args: tuple[Any, ...]) -> tuple[Any, ...] | None:
        if self._pending is None:
            return None
        return self._midway(args[0] if args else None), *args[1:]

    def _after_second_last_stage(self, stage: nn.Module, args: tuple[Any, ...], output: Any) -> Any:
        return None if self._pending is None else self._midway(output)

    def _midway(self, maps: Any) -> Tensor:
        midway, self._pending = self._pending, None
        if midway is None or not isinstance(maps, Tensor) or len(maps) != self._rows:
            raise self._no_stage()
        return midway(maps)

    def _no_stage(self) -> UserError:
        return UserError(
            f"timm:{self.architecture} does not say where its last stage begins; use fusion_point=embedding"
        )


@family(r"timm:.+", "timm:NAME", "any network of timm, such as timm:resnet18 or timm:resnet18.a1_in1k")
def timm_backbone(
    name: str,
    *,
    channels: int,
    image_size: tuple[int, int],
    pretrained: bool = False,
    drop_path: float | None = None,
    layer: int | None = 0,
) -> Backbone:
    """A tag after the name says which weights to download."""
    return create(
        name.removeprefix("timm:"),
        channels=channels,
        image_size=image_size,
        pretrained=pretrained,
        model_args={} if drop_path is None else {"drop_path_rate": drop_path},
        layer=layer,
    )


def create(
    name: str,
    *,
    channels: int,
    image_size: tuple[int, int],
    model_args: dict[str, Any],
    pretrained: bool = False,
    layer: int | None = 0,
) -> TimmBackbone:
    """The backbone of timm's network `name`, made with the keywords `model_args`; `layer` None: the best."""
    prepare_torchvision()
    import timm

    if not timm.is_model(name):
        raise _unknown(name, timm.list_models())
    if pretrained and not timm.models.is_model_pretrained(name):
        raise UserError(f"timm has no weights for {name!r}; use weights=FILE or pretrained=false")
    height, width = image_size
    sizes = {"in_chans": channels, "img_size": height if height == width else image_size}
    model, used = _create_model(name, pretrained=pretrained, keywords=sizes | model_args)
    shape = (channels, height, width)
    num_features = _width(model, name, shape)
    if layer is None:
        layer = _best_layer(model, num_features)
    if layer:
        _check_layer(model, name, layer)
        num_features = _width(model, name, shape, layer)
    return TimmBackbone(model, name.split(".")[0], num_features=num_features, model_args=used, layer=layer)


def _create_model(
    name: str, *, pretrained: bool, keywords: dict[str, Any]
) -> tuple[nn.Module, dict[str, Any]]:
    """The network without classifier, and those of `keywords` that it takes."""
    import timm

    try:
        return timm.create_model(name, pretrained=pretrained, num_classes=0, **keywords), keywords
    except TypeError as error:
        if "img_size" in keywords and "img_size" in str(error):  # convolutional: takes any size
            rest = {key: value for key, value in keywords.items() if key != "img_size"}
            return _create_model(name, pretrained=pretrained, keywords=rest)
        if "drop_path_rate" in str(error):
            raise UserError(f"drop_path does not apply to the model 'timm:{name}'") from error
        raise
    except OSError as error:
        raise UserError(
            f"timm could not download the weights of {name!r}; put them in a file and use weights=FILE"
        ) from error
    except (AssertionError, RuntimeError, ValueError) as error:
        raise _unfit(name, keywords.get("img_size"), error) from error


def _embedding(model: Any, images: Tensor, layer: int) -> Tensor:
    """What would enter the classifier, or the averaged maps of this stage, counted from the last."""
    if not layer:
        embedding: Tensor = model.forward_head(model.forward_features(images), pre_logits=True)
        return embedding
    (maps,) = model.forward_intermediates(images, [-layer], stop_early=True, intermediates_only=True)
    return maps.flatten(2).mean(2)  # type: ignore[no-any-return]


def _best_layer(model: Any, width: int) -> int:
    """The last stage if what follows it only makes its maps wider, for the classes of the pretraining."""
    stages = _feature_info(model) if hasattr(model, "forward_intermediates") else []
    return int(bool(stages) and stages[-1].get("num_chs", width) < width)


def _check_layer(model: Any, name: str, layer: int) -> None:
    stages = len(_feature_info(model)) if hasattr(model, "forward_intermediates") else 0
    if layer > stages:
        known = f"has stages 1 to {stages} from the last" if stages else "does not give its earlier layers"
        raise UserError(f"model.layer={layer}: timm:{name} {known}; 0 takes what would enter its classifier")


def _width(model: Any, name: str, shape: tuple[int, int, int], layer: int = 0) -> int:
    """The width of the embedding, from passing one blank image: what timm declares is not always that."""
    if not hasattr(model, "forward_head") or not hasattr(model, "forward_features"):
        raise UserError(f"timm:{name} does not tell its embedding from its classifier; choose another")
    training = model.training
    model.eval()
    try:
        with torch.no_grad():
            embedding = _embedding(model, torch.zeros(1, *shape), layer)
    except Exception as error:  # whatever a network of timm stumbles over, it is this size of image
        raise _unfit(name, shape[1:], error) from error
    model.train(training)
    if not isinstance(embedding, Tensor) or embedding.ndim != 2:
        raise UserError(f"timm:{name} does not give one vector per image; choose another")
    return embedding.shape[1]


def _unfit(name: str, image_size: Any, error: Exception) -> UserError:
    reason = str(error).strip().partition("\n")[0] or type(error).__name__
    return UserError(f"timm cannot make {name!r} for images of size {image_size}: {reason}")


def _unknown(name: str, known: list[str]) -> UserError:
    near = get_close_matches(name, known, n=3, cutoff=0.5)
    if near:
        return unknown("timm model", name, near)
    return UserError(f"unknown timm model {name!r}; timm.list_models() lists them all")


def _feature_info(model: Any) -> list[dict[str, Any]]:
    info = getattr(model, "feature_info", None) or []
    return list(getattr(info, "info", info))


def _without_tail(matcher: Any) -> Any:
    """timm's rules for grouping, less those that put a single part after the blocks with the last block."""
    from timm.models._manipulate import MATCH_PREV_GROUP

    def is_tail(pattern: str, suffix: Any) -> bool:
        return suffix == MATCH_PREV_GROUP and re.compile(pattern).groups == 0

    if not isinstance(matcher, dict):
        return matcher
    lists = {group: rules for group, rules in matcher.items() if isinstance(rules, list | tuple)}
    return matcher | {group: [rule for rule in rules if not is_tail(*rule)] for group, rules in lists.items()}
