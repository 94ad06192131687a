"""A pretrained network that stays as it is, with a small trained part on the vectors that it gives."""

from collections.abc import Collection, Iterator

import torch.nn.functional as F
from torch import Tensor

from interlude.models.classifier import Backbone, Midway
from interlude.models.tops import LinearTop, Scaling

BODY, TOP = "backbone.body.", "backbone.top."


class Frozen(Backbone):
    """A frozen `body`, and a `top` that is trained; takes images, or vectors that `extract` gave before.

    The body is always in evaluation mode: its BatchNorm never moves, and rows are never mixed. `mean` and
    `std` are the normalisation of images that the weights of the body expect, None if they do not say.
    Of the body only the parameters named in `unfrozen` are trained, of which `pretrained` are not new.
    """

    def __init__(self, body: Backbone, top: LinearTop, *, input_size: int | None = None) -> None:
        super().__init__()
        self.body = body.eval().requires_grad_(False)
        self.top = top
        self.input_size = input_size
        self.num_inputs = body.num_features
        self.num_features = top.num_features
        self.mean, self.std = body.mean, body.std
        self.unfrozen: frozenset[str] = frozenset()
        self.pretrained: frozenset[str] = frozenset()

    @property
    def layer(self) -> int:
        """Which stage of the body gives the vectors, counted from the last; 0 is what follows them all."""
        return getattr(self.body, "layer", 0)

    def about_layer(self) -> str:
        """What the vectors are, in a sentence, and why; nothing of a body without other layers."""
        if not hasattr(self.body, "layer"):
            return ""
        width = f"{self.num_inputs:,} numbers"
        if self.layer:
            return (
                f"a vector is the average of the maps of the network's last stage ({width}), as the wider "
                "layer after it serves the classes of its pretraining; --model.layer 0 takes that"
            )
        return (
            f"a vector is what would enter the network's classifier ({width}), as no layer before it only "
            "widens its maps; --model.layer N takes the Nth stage from the last"
        )

    @property
    def takes_vectors(self) -> bool:
        """Whether vectors can stand for images: nothing below the top is trained."""
        return not self.unfrozen

    @property
    def untrained(self) -> frozenset[str]:  # type: ignore[override]
        """The parameters of the body that do not move."""
        return frozenset(f"body.{name}" for name, _ in self.body.named_parameters()) - self.unfrozen

    def forward(self, views: Tensor, midway: Midway | None = None) -> Tensor:
        """Embeddings of images (N, C, H, W) or of vectors (N, num_inputs); `midway` acts inside the top."""
        assert self.takes_vectors or views.ndim == 4, "vectors skip what is unfrozen"
        embedding: Tensor = self.top(views if views.ndim == 2 else self.extract(views), midway)
        return embedding

    def extract(self, images: Tensor) -> Tensor:
        """The vectors (N, num_inputs) of images; without gradient, as no weight of the body asks for one."""
        vectors: Tensor = self.body(self.scaled(images))
        return vectors

    def scaled(self, images: Tensor) -> Tensor:
        """The images as large as the body sees them."""
        size, shape = self.input_size, images.shape[-2:]
        if size is None or shape == (size, size):
            return images
        return F.interpolate(images, (size, size), mode="bilinear", antialias=size < max(shape))

    def unfreeze(self, names: Collection[str], *, new: bool = False) -> None:
        """Train these parameters of the body too, which are pretrained unless they are `new`."""
        for name, parameter in self.body.named_parameters():
            parameter.requires_grad_(name in names)
        self.unfrozen = frozenset(f"body.{name}" for name in names)
        self.pretrained = frozenset() if new else self.unfrozen

    def keep_scale(self) -> None:
        """The scaling stays as it is, as the head that was loaded is made for it."""
        self.top.scaling.settled.fill_(True)

    def settle(self, vectors: Tensor) -> None:
        """Scale by the statistics of these vectors from now on, unless the scaling came with the weights."""
        self.top.scaling.settle(vectors)

    def train(self, mode: bool = True) -> "Frozen":
        """The body stays in evaluation mode."""
        super().train(mode)
        self.body.eval()
        return self

    def fixed(self) -> Iterator[Tensor]:
        """Every tensor that never moves: the body's buffers, and its parameters but the unfrozen ones."""
        yield from self.body.buffers()
        for name, parameter in self.body.named_parameters():
            if f"body.{name}" not in self.unfrozen:
                yield parameter

    def mixes_rows(self) -> bool:
        return Backbone.mixes_rows(self.top)  # type: ignore[arg-type]

    def layers(self) -> dict[str, int]:
        """The top belongs to the layer of the head; a body that knows no layers is one."""
        body = self.body.layers() or {name: 0 for name, _ in self.body.named_parameters()}
        top = {f"top.{name}": self.head_layer() for name, _ in self.top.named_parameters()}
        return {f"body.{name}": layer for name, layer in body.items()} | top

    def head_layer(self) -> int:
        return max(self.body.head_layer(), 1)

    def undecayed(self) -> set[str]:
        return {f"body.{name}" for name in self.body.undecayed()}

    def renamed(self, weights: dict[str, Tensor]) -> dict[str, Tensor]:
        """A file of the body alone leaves the top as it is; a head in it fits a top that does nothing."""
        if any(name.startswith((BODY, TOP)) for name in weights):
            return weights
        found = self.body.renamed(weights)
        body = {_in_body(name): value for name, value in found.items() if name.startswith("backbone.")}
        head = {name: value for name, value in found.items() if name.startswith("head.")}
        top = {f"{TOP}{name}": value for name, value in self.top.state_dict().items()}
        does_nothing = type(self.top) is LinearTop and isinstance(self.top.scaling, Scaling)
        return body | top | (head if does_nothing else {})


def _in_body(name: str) -> str:
    return BODY + name.removeprefix("backbone.")
