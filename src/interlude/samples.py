"""Samples and labels as scikit-learn's users have them, brought into the forms that are used here."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from sklearn.utils import column_or_1d
from sklearn.utils.multiclass import check_classification_targets
from torch import Tensor

from interlude.data import UNKNOWN, to_pixels
from interlude.data.decode import GREY, Unreadable, look, read_pixels, to_pixels_of
from interlude.errors import UserError
from interlude.models import Classifier, evaluating
from interlude.predictor import Picture
from interlude.tables import AT_ONCE

FILE_SIDE = 32  # pixels a side of files and pictures, where nothing else is said
NO_LABEL = ("", "-1")  # numpy turns -1 among texts into a text
MISSING = ("-1", "-1.0", "None", "nan", "NaT", "<NA>")  # what else is no label, in words

Codes = NDArray[np.int64]
Numbers = NDArray[np.float64]


def read_labels(y: Any) -> tuple[NDArray[Any], Codes]:
    """The classes in `y`, sorted, and the number of the class of each sample, -1 where it is not known."""
    if y is None:
        raise UserError("requires y to be passed, but the target y is None")
    if isinstance(y, list | tuple) and any(isinstance(label, str) for label in y):
        y = np.array(y, dtype=object)  # else numpy turns NaN into a text
    labels = column_or_1d(y, warn=True)
    unknown = _is_unknown(labels)
    known = labels[~unknown]
    if not len(known):
        raise UserError("y has no labels: all samples are marked as unlabeled; label some of each class")
    texts = sum(isinstance(label, str) for label in known)
    if 0 < texts < len(known):
        raise UserError("y has both texts and numbers as labels; make all of them texts, or all numbers")
    if known.dtype == object and not texts:
        known = np.array(known.tolist())
    check_classification_targets(known)
    classes, found = np.unique(known, return_inverse=True)
    if len(classes) < 2:
        raise UserError(
            f"y has only one class, {classes[0]}; label samples of at least two (-1 marks unlabeled ones)"
        )
    codes = np.full(len(labels), UNKNOWN, dtype=np.int64)
    codes[~unknown] = found
    return classes, codes


def _is_unknown(labels: NDArray[Any]) -> NDArray[np.bool_]:
    kind = labels.dtype.kind
    if kind in "OUS":
        return np.array(
            [label in NO_LABEL if isinstance(label, str) else str(label) in MISSING for label in labels], bool
        )
    unknown: NDArray[np.bool_] = labels == UNKNOWN
    return unknown | np.isnan(labels) if kind == "f" else unknown


def are_pictures(X: Any) -> bool:
    """Whether samples are images: an array of three or four dimensions, or a list of files or pictures."""
    return _are_arrays(X) or isinstance(_first(X), Picture)


def one_or_list(X: Any) -> Any:
    """Images as a `Predictor` takes them: one array, one picture, or a list."""
    if _are_arrays(X):
        return _stacked(X)
    return X if isinstance(X, Picture) else list(X)


def read_pictures(X: Any, *, side: int | None, channels: int | None = None) -> Tensor:
    """uint8 images (N, C, H, W); without a `side` arrays stay as they are, and files get the usual one."""
    if _are_arrays(X):
        pixels = to_pixels(_stacked(X), name="X")
        if side is None or tuple(pixels.shape[1:]) == (channels or pixels.shape[1], side, side):
            return pixels
        X = [Image.fromarray(image.numpy()) for image in pixels.permute(0, 2, 3, 1).squeeze(-1)]
    channels = channels or (1 if all(map(_is_grey, X)) else 3)
    return torch.from_numpy(np.stack([_opened(picture, channels, side or FILE_SIDE) for picture in X]))


def _are_arrays(X: Any) -> bool:
    return getattr(X, "ndim", 0) >= 3 or getattr(_first(X), "ndim", 0) >= 2


def _first(X: Any) -> Any:
    """The first of a list of samples; None where it is no list."""
    is_list = isinstance(X, list | tuple) or getattr(X, "ndim", 0) == 1
    return next(iter(X), None) if is_list else None


def _stacked(X: Any) -> Any:
    """A list of arrays as one."""
    if getattr(X, "ndim", 0) >= 3:
        return X
    if len({np.shape(image) for image in X}) > 1:
        raise UserError(
            "arrays of images must be of one size; give images of many sizes as Pillow's pictures"
        )
    return np.stack(list(X))


def _is_grey(picture: Any) -> bool:
    if isinstance(picture, Image.Image):
        return picture.mode in GREY
    try:
        return look(picture).grey
    except Unreadable as error:
        raise UserError(f"{picture} cannot be used: {error.reason}") from error


def _opened(picture: Any, channels: int, side: int) -> NDArray[np.uint8]:
    if isinstance(picture, Image.Image):
        return to_pixels_of(picture, channels, side)
    try:
        return read_pixels(picture, channels, side)
    except Unreadable as error:
        raise UserError(f"{picture} cannot be used: {error.reason}") from error


@dataclass(frozen=True, eq=False)
class TablePredictor:
    """Judges rows of a table, each alone, in double precision on the CPU."""

    model: Classifier
    mean: Numbers
    std: Numbers

    def predict_proba(self, rows: Numbers) -> Numbers:
        """Class probabilities (N, K)."""
        scaled = torch.from_numpy((rows - self.mean) / self.std)
        with evaluating(self.model):
            logits = torch.cat([self.model(part) for part in scaled.split(AT_ONCE)])
        probabilities: Numbers = logits.softmax(-1).numpy()
        return probabilities


def column_statistics(rows: Numbers) -> tuple[Numbers, Numbers]:
    """Mean and standard deviation of each column; a constant one keeps its unit."""
    std = rows.std(0)
    return rows.mean(0), np.where(std > 0, std, 1.0)
