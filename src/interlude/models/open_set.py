"""A classifier that also says whether an image belongs to any of its classes."""

from torch import Tensor, nn

from interlude.models.classifier import Backbone, Classifier
from interlude.models.registry import classifier_kind


@classifier_kind("open-set")
class OpenSetClassifier(Classifier):
    """A linear head that chooses the class, and beside it a one-vs-all head: each class, yes or no.

    One-vs-all outputs are (N, 2, num_classes); after a softmax over the pair, [:, 0] is the probability that
    the image is not of that class (an outlier), [:, 1] that it is (an inlier).
    """

    def __init__(self, backbone: Backbone, num_classes: int, *, precision: str = "fp32") -> None:
        super().__init__(backbone, num_classes, precision=precision)
        self.open_head = nn.Linear(self.num_features, 2 * num_classes, bias=False)
        nn.init.zeros_(self.open_head.weight)  # undecided: random weights would call whole classes outliers

    def open_logits(self, z: Tensor) -> Tensor:
        """The outputs (N, 2, num_classes) of the one-vs-all head for embeddings."""
        return self._apply_part(self.open_head, z).view(len(z), 2, self.num_classes)

    def open_set_score(self, images: Tensor) -> Tensor:
        """The probability (N,) that an image is not even of the class that the other head chooses."""
        z = self.features(images)
        outlier = self.open_logits(z).softmax(1)[:, 0]
        return outlier.gather(1, self.classify(z).argmax(-1, keepdim=True)).squeeze(1)
