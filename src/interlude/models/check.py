"""The definition of "a backbone works here", for ours and for anyone's."""

import copy
from collections.abc import Callable

import torch
from torch import Tensor

from interlude.models.classifier import Backbone, Classifier
from interlude.models.registry import ModelConfig, build

TOLERANCE = 1e-5


def check_backbone(
    backbone: str | Backbone, *, channels: int = 3, image_size: tuple[int, int] = (16, 16), rows: int = 3
) -> None:
    """Raise AssertionError, saying what is wrong, unless `backbone` (or the one of that name) works."""
    if isinstance(backbone, str):
        cfg = ModelConfig(name=backbone)
        backbone = build(cfg, num_classes=2, channels=channels, image_size=image_size).backbone
    generator = torch.Generator().manual_seed(0)
    images = torch.randn(rows, channels, *image_size, generator=generator)
    backbone = _shaken(backbone, generator).eval()
    for check in CHECKS:
        check(backbone, images)
    _check_names(backbone)
    _check_gradients(backbone, images)
    _check_state(backbone, images)
    _check_mixing(backbone, images)


def _shaken(backbone: Backbone, generator: torch.Generator) -> Backbone:
    """A copy with noise on its parameters: many networks start with zeros that hide what depends on what."""
    backbone = copy.deepcopy(backbone)
    with torch.no_grad():
        for parameter in backbone.parameters():
            parameter.add_(torch.randn(parameter.shape, generator=generator), alpha=0.02)
    return backbone


@torch.no_grad()
def _check_shape(backbone: Backbone, images: Tensor) -> None:
    expected = (len(images), backbone.num_features)
    shape = tuple(backbone(images).shape)
    _require(shape == expected, f"embeddings have shape {shape}, not (rows, num_features) = {expected}")


@torch.no_grad()
def _check_midway(backbone: Backbone, images: Tensor) -> None:
    seen: list[Tensor] = []

    def identity(maps: Tensor) -> Tensor:
        seen.append(maps)
        return maps

    passed = backbone(images, midway=identity)
    _require(len(seen) == 1, f"midway was called {len(seen)} times, not once")
    _require(len(seen[0]) == len(images), "midway was not given the rows of the batch on the first axis")
    _require(torch.equal(passed, backbone(images)), "midway=identity changes the embedding")


@torch.no_grad()
def _check_rows_are_independent(backbone: Backbone, images: Tensor) -> None:
    embedding = backbone(images)
    alone = torch.cat([backbone(image[None]) for image in images])
    _require(_close(alone, embedding), "in evaluation the embedding of an image depends on its batch mates")

    def disturb_first(maps: Tensor) -> Tensor:
        # not by a factor, which a norm would take out again
        noise = torch.randn(maps[:1].shape, generator=torch.Generator().manual_seed(2))
        return torch.cat([maps[:1] + noise, maps[1:]])

    changed = backbone(images, midway=disturb_first)
    _require(not _close(changed[:1], embedding[:1]), "the embedding ignores what midway returns")
    _require(_close(changed[1:], embedding[1:]), "what midway does to one row changes another row")


@torch.no_grad()
def _check_evaluation_is_pure(backbone: Backbone, images: Tensor) -> None:
    before = {name: value.clone() for name, value in backbone.named_buffers()}
    first, second = backbone(images), backbone(images)
    _require(torch.equal(first, second), "two evaluations of the same images differ")
    after = dict(backbone.named_buffers())
    touched = [name for name, value in before.items() if not torch.equal(value, after[name])]
    _require(not touched, f"evaluation changed the buffers {touched}")


@torch.no_grad()
def _check_memory_order(backbone: Backbone, images: Tensor) -> None:
    plain = backbone(images.contiguous())
    ordered = backbone(images.to(memory_format=torch.channels_last))
    _require(_close(ordered, plain), "images in channels-last order give other embeddings")


@torch.no_grad()
def _check_together(backbone: Backbone, images: Tensor) -> None:
    classifier = Classifier(backbone, num_classes=2).eval()
    a, b = classifier.together(images[:1], images[1:])
    _require(
        torch.equal(torch.cat([a, b]), classifier(images)), "together() differs from one pass over all rows"
    )


CHECKS: list[Callable[[Backbone, Tensor], None]] = [
    _check_shape,
    _check_midway,
    _check_rows_are_independent,
    _check_evaluation_is_pure,
    _check_memory_order,
    _check_together,
]


def _check_names(backbone: Backbone) -> None:
    names = {name for name, _ in backbone.named_parameters()}
    layers = backbone.layers()
    _require(not layers or layers.keys() == names, "layers() names some parameters but not all, or others")
    _require(backbone.undecayed() <= names, "undecayed() has names that are not parameters")
    _require(backbone.untrained <= names, "`untrained` has names that are not parameters")


def _check_gradients(backbone: Backbone, images: Tensor) -> None:
    backbone.zero_grad(set_to_none=True)
    embedding = backbone(images)
    embedding.backward(torch.linspace(-1, 1, embedding.numel()).reshape(embedding.shape))
    filled = [(name, x.grad) for name, x in backbone.named_parameters() if x.numel()]
    still = {name for name, gradient in filled if gradient is None or not gradient.any()}
    backbone.zero_grad(set_to_none=True)
    _require(not still - backbone.untrained, f"no gradient reaches {sorted(still - backbone.untrained)}")
    _require(
        not backbone.untrained - still, f"gradient reaches `untrained` {sorted(backbone.untrained - still)}"
    )


@torch.no_grad()
def _check_state(backbone: Backbone, images: Tensor) -> None:
    other = _shaken(backbone, torch.Generator().manual_seed(1))
    _require(
        not torch.equal(other(images), backbone(images)), "the embedding does not depend on the parameters"
    )
    other.load_state_dict(backbone.state_dict())
    _require(torch.equal(other(images), backbone(images)), "state_dict() does not hold all of the network")


def _check_mixing(backbone: Backbone, images: Tensor) -> None:
    images = images.clone().requires_grad_()
    first = copy.deepcopy(backbone).train()(images)[0]
    (gradient,) = torch.autograd.grad(first.square().sum(), images)
    _require(
        backbone.mixes_rows() or not gradient[1:].any(),
        "in training the embedding of an image depends on its batch mates, but mixes_rows() says it does not",
    )


def _close(a: Tensor, b: Tensor) -> bool:
    return bool((a - b).abs().max() <= TOLERANCE * (1 + b.abs().max()))


def _require(condition: bool, message: str) -> None:
    if not condition:
        raise AssertionError(message)
