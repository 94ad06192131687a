"""A trained model with what it needs to judge new images: their size, scale, the classes, its calibration."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from safetensors import SafetensorError
from safetensors.torch import load as from_bytes
from safetensors.torch import save as to_bytes
from torch import Tensor

from interlude import evaluate, models
from interlude.augment import normalize
from interlude.calibration import COVERAGE, Calibration, Usual, Verdicts, calibrate
from interlude.data import Images, to_pixels
from interlude.data.decode import Fit, Unreadable, read_pixels, to_pixels_of
from interlude.errors import UserError, unknown
from interlude.files import write_whole
from interlude.models import Classifier, evaluating

USUAL = "calibration.safetensors"
SAMPLE = 4000  # training images that say what is usual

Picture = str | Path | Image.Image
Pictures = NDArray[np.uint8] | Tensor | Picture | Sequence[Picture]
"""uint8 images (N, H, W), (N, H, W, C) or (N, C, H, W), or files, or pictures of Pillow; one, or a list."""


@dataclass(frozen=True)
class Predictor:
    """Predicts classes of images; each image is judged alone."""

    model: Classifier
    mean: Sequence[float]
    std: Sequence[float]
    class_names: Sequence[str]
    image_size: tuple[int, int] | None = field(default=None, kw_only=True)  # others are scaled to it
    fit: Fit = field(default="crop", kw_only=True)  # how an image becomes square
    calibration: Calibration = field(default=Calibration(), kw_only=True)
    usual: Usual | None = field(default=None, kw_only=True)  # what training images look like

    @classmethod
    def load(cls, folder: str | Path) -> "Predictor":
        """The model that a run saved in `folder`."""
        folder = Path(folder)
        model, config = models.load(folder)
        height, width = config["image_size"]
        if (fit := config.get("fit", "crop")) not in get_args(Fit):
            raise unknown(f"fit in {folder}/config.json:", str(fit), get_args(Fit))
        return Predictor(
            model,
            config["mean"],
            config["std"],
            config["label_names"],
            image_size=(height, width),
            fit=fit,
            calibration=Calibration.from_json(config.get("calibration")) or Calibration(),
            usual=_load_usual(folder / USUAL),
        )

    @property
    def channels(self) -> int:
        """1 for grey images, 3 for colour."""
        return len(self.mean)

    def predict(self, images: Pictures) -> NDArray[np.int64]:
        """The index of the most probable class of each image; `class_names` has its name."""
        labels: NDArray[np.int64] = self.predict_proba(images).argmax(-1)
        return labels

    def predict_proba(self, images: Pictures) -> NDArray[np.float32]:
        """Calibrated class probabilities (N, K)."""
        probabilities: NDArray[np.float32] = self.judge(images).probabilities.numpy()
        return probabilities

    def predict_sets(self, images: Pictures) -> NDArray[np.bool_]:
        """Which classes are in the set of each image (N, K); `calibration.promise()` says what that means."""
        if not self.calibration.has_sets:
            raise UserError(
                "this model has no prediction sets: no held-out images were there to calibrate it"
            )
        in_set: NDArray[np.bool_] = self.judge(images).in_set.numpy()
        return in_set

    def ood_score(self, images: Pictures) -> NDArray[np.float32]:
        """How unusual each image is (N,); 0.97: more so than 97 % of the images of the training."""
        if self.usual is None:
            raise UserError("this model cannot tell what is unusual: it has no record of its training images")
        scores: NDArray[np.float32] = self.judge(images).ood.numpy()
        return scores

    def open_set_score(self, images: Pictures) -> NDArray[np.float32]:
        """The probability (N,) that an image belongs to none of the classes, if the model can tell."""
        with evaluating(self.model):
            scores: NDArray[np.float32] = torch.cat(
                [self.model.open_set_score(batch).cpu() for batch in self._batches(images)]
            ).numpy()
        return scores

    def judge(self, images: Pictures) -> Verdicts:
        """All that is said of the images, on the CPU."""
        features, logits = _outputs(self.model, self._batches(images))
        return self.calibration.judge(logits, self.usual.share(features) if self.usual else None)

    def read(self, picture: Picture) -> NDArray[np.uint8]:
        """The pixels (C, H, W) of a file or a picture as the network was trained on them."""
        side = self._side()
        if isinstance(picture, Image.Image):
            return to_pixels_of(picture, self.channels, side, self.fit)
        return read_pixels(picture, self.channels, side, self.fit)

    def _batches(self, images: Pictures) -> Iterator[Tensor]:
        device = next(self.model.parameters()).device
        for chunk in self._chunks(images):
            yield normalize(chunk.to(device), self.mean, self.std, channels_last=True)

    def _chunks(self, images: Pictures) -> Iterator[Tensor]:
        """Pixels as the network takes them, a few at a time."""
        if isinstance(images, np.ndarray | Tensor):
            for chunk in to_pixels(images).split(evaluate.BATCH):
                yield self._scaled(chunk)
            return
        pictures: Sequence[Any] = [images] if isinstance(images, Picture) else images
        if not pictures:
            raise UserError("there are no images to judge")
        for start in range(0, len(pictures), evaluate.BATCH):
            chosen = pictures[start : start + evaluate.BATCH]
            yield torch.from_numpy(np.stack([self._opened(picture) for picture in chosen]))

    def _opened(self, picture: Any) -> NDArray[np.uint8]:
        if not isinstance(picture, Picture):
            kind = type(picture).__name__
            raise UserError(f"images are one uint8 array, or a list of files or pictures, not of {kind}")
        try:
            return self.read(picture)
        except Unreadable as error:
            raise UserError(f"{picture} cannot be used: {error.reason}") from error

    def _scaled(self, pixels: Tensor) -> Tensor:
        """Pixels (N, C, H, W) at the network's size and channels, scaled as files are where they differ."""
        size, channels = tuple(pixels.shape[2:]), pixels.shape[1]
        if channels == self.channels and size == (self.image_size or size):
            return pixels
        rows = pixels.permute(0, 2, 3, 1).numpy()
        pictures = [Image.fromarray(row[..., 0] if channels == 1 else row) for row in rows]
        return torch.from_numpy(np.stack([self.read(picture) for picture in pictures]))

    def _side(self) -> int:
        height, width = self.image_size or (0, 1)
        if height != width:
            raise UserError(
                f"this model takes images of {height}x{width} pixels; others are only made square"
            )
        return height


P = TypeVar("P", bound=Predictor)


def calibrated(
    predictor: P,
    held_out: Images,
    training: Images,
    *,
    source: str,
    coverage: float = COVERAGE,
    groups: Sequence[object] | None = None,
) -> P:
    """The predictor, calibrated by labeled images that it did not learn from; `training` are those it did."""
    _, logits = _outputs(predictor.model, _normalized(predictor, held_out))
    found = calibrate(logits, held_out.labels_of(), source=source, coverage=coverage, groups=groups)
    return replace(predictor, calibration=found, usual=usual_of(predictor, training))


def usual_of(predictor: Predictor, training: Images) -> Usual:
    """What the images of the training, labeled or not, look like to the network."""
    sample = torch.linspace(0, len(training) - 1, min(len(training), SAMPLE)).long()
    features, logits = _outputs(predictor.model, _normalized(predictor, training.subset(sample)))
    return Usual.of(features, logits.argmax(-1))


def save_calibration(folder: str | Path, calibration: Calibration, usual: Usual | None = None) -> None:
    """Add a calibration to the model in `folder`, or replace the one it has."""
    if usual is not None:
        path = Path(folder) / USUAL
        write_whole(path, to_bytes({name: value.contiguous() for name, value in usual.tensors().items()}))
    models.set_calibration(folder, calibration.to_json())


def _load_usual(path: Path) -> Usual | None:
    if not path.exists():
        return None
    try:
        return Usual.from_tensors(from_bytes(path.read_bytes()))
    except (OSError, SafetensorError, TypeError) as error:
        raise UserError(f"{path} is damaged; delete it to predict without a score of the unusual") from error


def _normalized(predictor: Predictor, images: Images) -> Iterator[Tensor]:
    device = next(predictor.model.parameters()).device
    return evaluate.normalized_batches(images, predictor.mean, predictor.std, device=device)


def _outputs(model: Classifier, batches: Iterable[Tensor]) -> tuple[Tensor, Tensor]:
    """The embeddings (N, D) and logits (N, K) of images, on the CPU."""
    features, logits = [], []
    with evaluating(model):
        for batch in batches:
            z, values = embedded(model, batch)
            features.append(z.cpu())
            logits.append(values.cpu())
    return torch.cat(features), torch.cat(logits)


def embedded(model: Classifier, images: Tensor) -> tuple[Tensor, Tensor]:
    """The embeddings (N, D) and the logits (N, K) of normalised images, from one pass."""
    seen: list[Tensor] = []

    def look(z: Tensor) -> Tensor:
        seen.append(z)
        return z

    logits: Tensor = model(images, midway=look)
    return seen[0], logits


def load(folder: str | Path) -> Predictor:
    """The model of a run folder, ready to judge images."""
    return Predictor.load(folder)
