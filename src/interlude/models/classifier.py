"""What every network here is: a backbone that turns images into embeddings, and a linear head."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from itertools import compress
from typing import Any, ClassVar, Self

import torch
from torch import Tensor, nn

from interlude import distributed
from interlude.adjacent import joined
from interlude.errors import UserError, unknown

Midway = Callable[[Tensor], Tensor]
"""Applied at the midpoint to all rows of a batch at once, rows first."""

POINTS = ("embedding", "stage")
PRECISIONS = ("fp32", "bf16")


class Backbone(nn.Module):
    """Base of all backbones: images (N, C, H, W) to embeddings (N, num_features)."""

    num_features: int
    untrained: frozenset[str] = frozenset()
    """Names of parameters that no gradient reaches, by design of the network."""
    mean: tuple[float, ...] | None = None
    std: tuple[float, ...] | None = None
    """How the images were normalised with which its weights were trained, for each channel, if known."""

    def forward(self, images: Tensor, midway: Midway | None = None) -> Tensor:
        """The embeddings of `images`; `midway` is applied to what enters the last stage or block."""
        raise NotImplementedError

    def layers(self) -> dict[str, int]:
        """Parameter name to the index of its layer counted from the input; {} if there is no such notion."""
        return {}

    def head_layer(self) -> int:
        """The index of the layer that a head on this backbone belongs to."""
        return max(self.layers().values(), default=-1) + 1

    def undecayed(self) -> set[str]:
        """Names of the parameters, beyond the 1-D ones, that take no weight decay."""
        return set()

    def mixes_rows(self) -> bool:
        """Whether in training an embedding depends on the other rows of its pass, as with BatchNorm."""
        return any(isinstance(part, nn.modules.batchnorm._BatchNorm) for part in self.modules())

    def keep_scale(self) -> None:
        """Called when a head was loaded, which is made for the embeddings as they are now."""

    def renamed(self, weights: dict[str, Tensor]) -> dict[str, Tensor]:
        """`weights` from a file made elsewhere, under the names a `Classifier` on this backbone has."""
        if any(name.startswith("backbone.") for name in weights):
            return weights  # they are a classifier's already, perhaps of one with more parts
        return {
            name if name.startswith("head.") else f"backbone.{name}": value for name, value in weights.items()
        }


class Classifier(nn.Module):
    """A backbone and a linear head; precision is decided here, and logits are always fp32.

    Only half precision is widened to fp32: a classifier made double stays double, for numerical tests.

    A network that predicts with more is a subclass registered as a `classifier_kind`. Its constructor takes
    further keywords, numbers only, which `sizes` gives back.
    """

    kind: ClassVar[str] = "linear"
    targets: str = "auto"
    """In which pass `together` takes views that are only targets: the joint one, or a separate one."""

    def __init__(self, backbone: Backbone, num_classes: int, *, precision: str = "fp32") -> None:
        super().__init__()
        if precision not in PRECISIONS:
            raise unknown("precision", precision, PRECISIONS)
        self.backbone = backbone
        self.num_features = backbone.num_features
        self.num_classes = num_classes
        self.precision = precision
        self.head = nn.Linear(self.num_features, num_classes)
        nn.init.xavier_normal_(self.head.weight)
        nn.init.zeros_(self.head.bias)

    @classmethod
    def around(cls, plain: "Classifier", **sizes: Any) -> Self:
        """A classifier of this class with the backbone and the head of `plain`."""
        made = cls(plain.backbone, plain.num_classes, precision=plain.precision, **sizes)
        made.head = plain.head
        made.targets = plain.targets
        return made

    def sizes(self) -> dict[str, int]:
        """What the constructor needs, beyond backbone and classes, to make this network again."""
        return {}

    def features(self, images: Tensor, midway: Midway | None = None, at: str = "embedding") -> Tensor:
        """The vectors (N, num_features) that enter the head, after `midway` acted at the point `at`."""
        if at not in POINTS:
            raise unknown("fusion point", at, POINTS)
        with self._autocast(images):
            z: Tensor = self.backbone(images, midway=midway if at == "stage" else None)
        z = _widened(z)
        return midway(z) if midway is not None and at == "embedding" else z

    def forward(self, images: Tensor, midway: Midway | None = None, at: str = "embedding") -> Tensor:
        """Logits (N, num_classes). `midway` acts on the embedding, or on what enters the last stage."""
        return self.classify(self.features(images, midway=midway, at=at))

    def classify(self, z: Tensor) -> Tensor:
        """Logits (N, num_classes) of embeddings: the linear head alone."""
        return self._apply_part(self.head, z)

    def open_set_score(self, images: Tensor) -> Tensor:
        """The probability (N,) that an image belongs to no known class, for networks that can tell."""
        raise UserError(
            "this model has no open-set score: it was trained to tell the known classes apart only"
        )

    def joint(self, *views: Tensor, midway: Midway | None = None, at: str = "embedding") -> Tensor:
        """The logits of all views, one after the other, from one pass; `midway` acts as in `forward`."""
        return _rows_of(partial(self, midway=midway, at=at), views)

    def together(self, *views: Tensor, targets: Sequence[Tensor] = ()) -> tuple[Tensor, ...]:
        """The logits of each view, from one pass over all of them; no gradient to those in `targets`.

        Where no row depends on another, `targets`, some of the views, have a pass of their own that keeps
        nothing for a gradient. That saves time and changes no number, but for what the network draws
        (dropout, drop path). With BatchNorm they have one only if the option `targets` says so.
        """
        return self._together(self, views, targets)

    def features_together(self, *views: Tensor, targets: Sequence[Tensor] = ()) -> tuple[Tensor, ...]:
        """The vectors that enter the head, of each view, from the passes that `together` makes."""
        return self._together(self.features, views, targets)

    def separates(self) -> bool:
        """Whether views that are only targets have a pass of their own."""
        return self.targets == "separate" or (self.targets == "auto" and not self.backbone.mixes_rows())

    def layers(self) -> dict[str, int]:
        """Parameter name to the index of its layer counted from the input, the head last; {} if unknown."""
        inner = self.backbone.layers()
        if not inner:
            return {}
        last = self.backbone.head_layer()
        head = {f"head.{name}": last for name, _ in self.head.named_parameters()}
        return {f"backbone.{name}": layer for name, layer in inner.items()} | head

    def undecayed(self) -> set[str]:
        """Names of the parameters, beyond the 1-D ones, that take no weight decay."""
        return {f"backbone.{name}" for name in self.backbone.undecayed()}

    def _together(
        self, network: Callable[[Tensor], Tensor], views: Sequence[Tensor], targets: Sequence[Tensor]
    ) -> tuple[Tensor, ...]:
        fixed = [any(view is target for target in targets) for view in views]
        assert sum(fixed) >= len(targets), "targets are some of the views"
        if not (targets and self.separates()):
            rows = _in_one_pass(network, views)
            return tuple(x.detach() if is_fixed else x for x, is_fixed in zip(rows, fixed, strict=True))
        with torch.no_grad():
            of_targets = iter(_in_one_pass(network, compress(views, fixed)))
        of_others = iter(_in_one_pass(network, compress(views, (not is_fixed for is_fixed in fixed))))
        return tuple(next(of_targets if is_fixed else of_others) for is_fixed in fixed)

    def _apply_part(self, part: nn.Module, *rows: Tensor) -> Tensor:
        """A further part of the network on embeddings, in this network's precision; the result is fp32."""
        with self._autocast(rows[0]):
            result: Tensor = part(*rows)
        return _widened(result)

    def _autocast(self, images: Tensor) -> AbstractContextManager[None]:
        if self.precision == "fp32":
            return nullcontext()
        return torch.autocast(images.device.type, torch.bfloat16)


@contextmanager
def evaluating(network: nn.Module) -> Iterator[None]:
    """Inside the block the network is in evaluation mode, without gradients; then its mode is as before."""
    was_training = network.training
    network.eval()
    try:
        with torch.no_grad():
            yield
    finally:
        network.train(was_training)


def _in_one_pass(network: Callable[[Tensor], Tensor], views: Iterable[Tensor]) -> Sequence[Tensor]:
    views = list(views)
    if not views:
        return ()
    return torch.split(_rows_of(network, views), [len(view) for view in views])


def _rows_of(network: Callable[[Tensor], Tensor], views: Sequence[Tensor]) -> Tensor:
    with distributed.passing(views):
        return network(joined(views))


def _widened(values: Tensor) -> Tensor:
    return values.float() if values.dtype in (torch.bfloat16, torch.float16) else values
