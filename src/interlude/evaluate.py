"""Figures of merit of a classifier on a set of images; each image is judged alone."""

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

from interlude.augment import normalize
from interlude.data import Images
from interlude.models import Classifier

BATCH = 128  # images judged at once
BINS = 15  # of confidence, for the calibration error


def normalized_batches(
    images: Images,
    mean: Sequence[float],
    std: Sequence[float],
    *,
    device: torch.device,
    size: int = BATCH,
) -> Iterator[Tensor]:
    """All images in order, un-augmented, `size` at a time, as the network takes them."""
    for rows in torch.arange(len(images)).split(size):
        yield normalize(images.take(rows).to(device), mean, std, channels_last=True)


@torch.inference_mode()
def predict(model: Classifier, batches: Iterator[Tensor]) -> Tensor:
    """Class probabilities (N, K) on the CPU; the model is left in the mode it was in."""
    was_training = model.training
    model.eval()
    rows = [model(batch).softmax(-1).cpu() for batch in batches]
    model.train(was_training)
    return torch.cat(rows)


def figures(probabilities: Tensor, labels: Tensor) -> dict[str, Any]:
    """Figures in percent; balanced accuracy is the mean recall over the classes present."""
    confidence, predicted = probabilities.max(-1)
    right = predicted == labels
    num_classes = probabilities.shape[-1]
    support = torch.bincount(labels, minlength=num_classes)
    hits = torch.bincount(labels[right], minlength=num_classes)
    recall = [100 * int(hit) / int(n) if n else None for hit, n in zip(hits, support, strict=True)]
    present = [value for value in recall if value is not None]
    accuracy = 100 * int(right.sum()) / len(labels)
    balanced = sum(present) / len(present)
    return {
        "error": 100 - accuracy,
        "accuracy": accuracy,
        "balanced_accuracy": balanced,
        "balanced_error": 100 - balanced,
        "calibration_error": calibration_error(confidence, right),
        "recall": recall,
        "images": len(labels),
    }


def calibration_error(confidence: Tensor, right: Tensor) -> float:
    """Expected calibration error in percent: the mean gap between confidence and accuracy over equal bins."""
    bins = (confidence.double() * BINS).long().clamp_max(BINS - 1)
    gap = torch.zeros(BINS, dtype=torch.float64).index_add_(0, bins, confidence.double() - right.double())
    return 100 * float(gap.abs().sum()) / len(confidence)
