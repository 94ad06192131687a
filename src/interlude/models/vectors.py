"""Tables of vectors instead of images: the body is the identity, all that is trained comes after it."""

from torch import Tensor

from interlude.errors import UserError
from interlude.models.classifier import Backbone, Midway
from interlude.models.registry import VECTORS, family


class Vectors(Backbone):
    """Gives back the vectors (N, D), also in the shape (N, D, 1, 1) of an image of D channels."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.num_features = width

    def forward(self, images: Tensor, midway: Midway | None = None) -> Tensor:
        return images.flatten(1) if midway is None else midway(images.flatten(1))


@family(VECTORS, VECTORS, "no network: rows of a table are classified by a head, linear or mlp")
def vectors(name: str, *, channels: int, image_size: tuple[int, int]) -> Backbone:
    """A row of D numbers counts as D channels of one pixel."""
    if image_size != (1, 1):
        raise UserError(f"the model {name!r} takes rows of a table, not images; choose another")
    return Vectors(channels)
