"""A classifier whose embeddings pass a LayerNorm before any head."""

from torch import Tensor, nn

from interlude.models.classifier import Backbone, Classifier, Midway
from interlude.models.registry import classifier_kind


@classifier_kind("normalized")
class NormalizedClassifier(Classifier):
    """Weak and strong views have embeddings of the same length, and heads see only their direction."""

    def __init__(self, backbone: Backbone, num_classes: int, *, precision: str = "fp32") -> None:
        super().__init__(backbone, num_classes, precision=precision)
        self.norm = nn.LayerNorm(self.num_features)

    def features(self, images: Tensor, midway: Midway | None = None, at: str = "embedding") -> Tensor:
        """The normalised vectors (N, num_features) that enter the head."""
        return self._apply_part(self.norm, super().features(images, midway=midway, at=at))
