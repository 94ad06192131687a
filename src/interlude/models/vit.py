"""The two vision transformers of the USB benchmark, which the paper fine-tunes."""

from interlude.errors import UserError
from interlude.models.classifier import Backbone
from interlude.models.registry import backbone
from interlude.models.timm_backbone import create

DROP_PATH = 0.2

# width, depth and heads come from timm's network; the patch is ours
ARCHITECTURES = {
    "vit-small-2-32": ("vit_small_patch16_224", 2),
    "vit-base-16-96": ("vit_base_patch16_224", 16),
}


@backbone(
    "vit-small-2-32", "vision transformer with patches of 2 px, USB's and the paper's for CIFAR (32 px)"
)
@backbone(
    "vit-base-16-96", "vision transformer with patches of 16 px, USB's and the paper's for STL-10 (96 px)"
)
def vit(name: str, *, channels: int, image_size: tuple[int, int], drop_path: float = DROP_PATH) -> Backbone:
    """Made for the size in its name, but takes any that its patch divides."""
    architecture, patch = ARCHITECTURES[name]
    if any(side % patch for side in image_size):
        height, width = image_size
        raise UserError(
            f"{name} cuts images into patches of {patch} px, which do not divide {height}x{width}"
        )
    return create(
        architecture,
        channels=channels,
        image_size=image_size,
        model_args={"patch_size": patch, "drop_path_rate": drop_path},
    )
