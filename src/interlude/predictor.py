"""A trained model with what it needs to judge new images: their size, scale and the names of the classes."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from interlude import evaluate, models
from interlude.augment import normalize
from interlude.data import to_pixels
from interlude.models import Classifier, evaluating


@dataclass(frozen=True)
class Predictor:
    """Predicts classes of images; each image is judged alone."""

    model: Classifier
    mean: Sequence[float]
    std: Sequence[float]
    class_names: Sequence[str]

    @classmethod
    def load(cls, folder: str | Path) -> "Predictor":
        """The model that a run saved in `folder`."""
        model, config = models.load(Path(folder))
        return cls(model, config["mean"], config["std"], config["label_names"])

    def predict_proba(self, images: NDArray[np.uint8] | Tensor) -> NDArray[np.float32]:
        """Class probabilities (N, K) of uint8 images (N, H, W), (N, H, W, C) or (N, C, H, W)."""
        probabilities: NDArray[np.float32] = evaluate.predict(
            self.model, self._batches(to_pixels(images))
        ).numpy()
        return probabilities

    def predict(self, images: NDArray[np.uint8] | Tensor) -> NDArray[np.int64]:
        """The index of the most probable class of each image; `class_names` has its name."""
        labels: NDArray[np.int64] = self.predict_proba(images).argmax(-1)
        return labels

    def open_set_score(self, images: NDArray[np.uint8] | Tensor) -> NDArray[np.float32]:
        """The probability (N,) that an image belongs to none of the classes, if the model can tell."""
        batches = self._batches(to_pixels(images))
        with evaluating(self.model):
            scores: NDArray[np.float32] = torch.cat(
                [self.model.open_set_score(batch).cpu() for batch in batches]
            ).numpy()
        return scores

    def _batches(self, pixels: Tensor) -> Iterator[Tensor]:
        device = next(self.model.parameters()).device
        for chunk in pixels.split(evaluate.BATCH):
            yield normalize(chunk.to(device), self.mean, self.std, channels_last=True)
