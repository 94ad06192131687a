"""The estimator for scikit-learn: labeled and unlabeled samples in, a classifier out."""

import copy
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_consistent_length, check_is_fitted, validate_data
from torch import Tensor

from interlude import loop
from interlude.config import Config, Layer, read_file, resolve
from interlude.data import UNKNOWN, Images, Split, SplitRecord, channel_statistics
from interlude.errors import NotFinite, RunError, UserError, unknown
from interlude.fitting.choose import GREY_POLICY, RECIPES
from interlude.method import find_method
from interlude.models.registry import VECTORS
from interlude.predictor import Predictor
from interlude.progress import Progress
from interlude.run import Run, settle, settle_views
from interlude.samples import (
    Codes,
    TablePredictor,
    are_pictures,
    column_statistics,
    one_or_list,
    read_labels,
    read_pictures,
)
from interlude.tables import Table, Variation

RECIPE = RECIPES["scratch"]
TABLE = {"steps": 400, "labels_first": 100}  # what tables change of the recipe: their steps are quick
HEADS: dict[str, dict[str, Any]] = {
    "linear": {"name": VECTORS, "head": "linear"},
    "mlp": {"name": VECTORS, "head": "mlp", "hidden": 128},
}
Samples = tuple[
    Images, tuple[float, ...], tuple[float, ...]
]  # with the mean and spread of channels or columns


class InterludeClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A classifier that learns from labeled and unlabeled samples: images, or rows of a table.

    What is left at None follows the recipe.

    Parameters
    ----------
    method : str, optional
        Which method, by its name in `interlude list methods`, or a file that registers one.
    recipe : str, optional
        A recipe by its name, or a YAML file of settings; by default "quick", with more and quicker steps
        for tables.
    model : str, optional
        The network for images by its name in `interlude list models`; for tables "mlp" or "linear".
    augment : str, optional
        How images are augmented, by the name of a policy; for grey ones by default "grayscale-medical".
    image_size : int, optional
        Pixels a side that images are scaled to; by default arrays stay as they are, and files become 32.
    steps, batch, mu : int, optional
        Optimiser steps, labeled samples a step, and unlabeled ones for each of them.
    weak_noise, strong_noise : float
        Noise on rows of a table in weak and in strong views, in standard deviations of each column.
    masked : float
        Share of the numbers of a row that a strong view replaces by the means of their columns.
    settings : mapping, optional
        Any further settings of `interlude train`, as `{"optimizer.rate": 0.01, "method.alpha": 0.2}`.
    device : str
        "auto", "cpu", "mps", or the name of a CUDA device.
    random_state : int, RandomState instance or None
        Decides every draw: an int gives the same classifier every time.
    verbose : bool
        Whether to show the progress of training.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The classes, sorted.
    transduction_ : ndarray of shape (n_samples,)
        The label of every sample of `X`: the given one, or what is predicted where none was given.
    predictor_ : Predictor or TablePredictor
        The network, with what it needs to judge samples.
    n_features_in_ : int
        The number of columns, for tables only.
    n_iter_ : int
        The number of steps taken.
    """

    def __init__(
        self,
        *,
        method: str | None = None,
        recipe: str | None = None,
        model: str | None = None,
        augment: str | None = None,
        image_size: int | None = None,
        steps: int | None = None,
        batch: int | None = None,
        mu: int | None = None,
        weak_noise: float = Variation.weak,
        strong_noise: float = Variation.strong,
        masked: float = Variation.masked,
        settings: Mapping[str, Any] | None = None,
        device: str = "auto",
        random_state: Any = None,
        verbose: bool = False,
    ) -> None:
        self.method = method
        self.recipe = recipe
        self.model = model
        self.augment = augment
        self.image_size = image_size
        self.steps = steps
        self.batch = batch
        self.mu = mu
        self.weak_noise = weak_noise
        self.strong_noise = strong_noise
        self.masked = masked
        self.settings = settings
        self.device = device
        self.random_state = random_state
        self.verbose = verbose

    def fit(self, X: Any, y: Any, unlabeled: Any = None) -> Self:
        """Learn from the samples `X` with the labels `y`, -1 where unknown, and from more without labels.

        `X` and `unlabeled` are uint8 images (N, H, W), (N, H, W, C) or (N, C, H, W), a list of files or of
        Pillow's pictures, or a table (N, D). In `y` None, NaN and an empty text are unknown as well.
        There is no `sample_weight`.
        """
        classes, codes = read_labels(y)
        parts = [X] if unlabeled is None else [X, unlabeled]
        samples, mean, std = (self._pictures if are_pictures(X) else self._table)(parts, codes)
        cfg = self._config(samples)
        split = split_of(samples, classes, mean, std, include_labeled=cfg.data.include_labeled)
        with undisturbed():
            run = learn(settle(cfg), split, quiet=not self.verbose)
            found = run.predict(samples.subset(torch.arange(len(codes)))).argmax(-1).numpy()
        self.classes_, self.n_iter_ = classes, run.step
        self.transduction_ = classes[np.where(codes == UNKNOWN, found, codes)]
        self.predictor_ = predictor_of(run)
        return self

    def predict(self, X: Any) -> NDArray[Any]:
        """The most probable class of each sample."""
        found = self.predict_proba(X).argmax(-1)
        labels: NDArray[Any] = self.classes_[found]
        return labels

    def predict_proba(self, X: Any) -> NDArray[Any]:
        """The probability of each class (N, K) for each sample, in the order of `classes_`."""
        check_is_fitted(self)
        is_table = isinstance(self.predictor_, TablePredictor)
        X = validate_data(self, X, dtype=np.float64, reset=False) if is_table else one_or_list(X)
        probabilities: NDArray[Any] = self.predictor_.predict_proba(X)
        return probabilities

    def __getstate__(self) -> dict[str, Any]:
        """What is pickled: the network on the CPU, so that a machine without this device can load it."""
        state: dict[str, Any] = {**super().__getstate__()}
        if "predictor_" in state:
            network = copy.deepcopy(self.predictor_.model).cpu()
            state["predictor_"] = replace(self.predictor_, model=network)
        return state

    def _pictures(self, parts: list[Any], codes: Codes) -> Samples:
        """All images, those with labels first, and how to normalise them."""
        first = read_pictures(parts[0], side=self.image_size)
        check_consistent_length(first, codes)
        channels, height, width = first.shape[1:]
        side = height if height == width else None
        pixels = [first, *(read_pictures(part, side=side, channels=channels) for part in parts[1:])]
        if pixels[-1].shape[1:] != first.shape[1:]:
            raise UserError("the unlabeled images have another size than X; give an image_size for both")
        for name in ("n_features_in_", "feature_names_in_"):  # of a table that was fitted before
            if hasattr(self, name):
                delattr(self, name)
        images = Images(torch.cat(pixels), labels_of(codes, sum(map(len, pixels))))
        return images, *channel_statistics(images)

    def _table(self, parts: list[Any], codes: Codes) -> Samples:
        """All rows in units of their columns, those with labels first, and these units."""
        tables = [validate_data(self, parts[0], dtype=np.float64)]
        check_consistent_length(tables[0], codes)
        tables += [validate_data(self, part, dtype=np.float64, reset=False) for part in parts[1:]]
        rows = np.concatenate(tables)
        mean, std = column_statistics(rows)
        scaled = torch.from_numpy(((rows - mean) / std).astype(np.float32))
        variation = Variation(self.weak_noise, self.strong_noise, self.masked)
        table = Table(scaled[:, :, None, None], labels_of(codes, len(rows)), variation=variation)
        return table, tuple(mean.tolist()), tuple(std.tolist())

    def _config(self, samples: Images) -> Config:
        """The settings for these samples: the recipe's, what they ask for, what the user says."""
        recipe, defaults = read_file(self.recipe or RECIPE), self._defaults(samples)
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        own = {"method": self.method, "batch": self.batch, "mu": self.mu, "device": self.device, "seed": seed}
        if not isinstance(samples, Table):
            own |= {"model": self.model, "augment": self.augment}
        if self.steps is not None:
            usual = {"labels_first": 0, "steps": Config.steps} | dict(recipe.values) | defaults
            first = int(self.steps * usual["labels_first"] / usual["steps"])
            own |= {"steps": self.steps, "labels_first": first}
        given = {name: value for name, value in own.items() if value is not None}
        layers = (recipe, Layer("defaults", defaults), Layer("the parameters", given))
        return resolve([*layers, Layer("settings", self.settings or {})])

    def _defaults(self, samples: Images) -> dict[str, Any]:
        """What samples of this kind change of the recipe."""
        if isinstance(samples, Table):
            head = self.model or "mlp"
            if head not in HEADS:
                raise unknown("model of tables", head, HEADS)
            return {"model": HEADS[head]} | ({} if self.recipe else TABLE)
        return {"augment": GREY_POLICY} if samples.channels == 1 and not self.recipe else {}


def labels_of(codes: Codes, count: int) -> Tensor:
    """The labels of `count` samples, of which those after the first ones have none."""
    labels = torch.full((count,), UNKNOWN)
    labels[: len(codes)] = torch.from_numpy(codes)
    return labels


def split_of(
    samples: Images,
    classes: NDArray[Any],
    mean: tuple[float, ...],
    std: tuple[float, ...],
    *,
    include_labeled: bool,
) -> Split:
    """The labeled samples and the pool; where all have labels, these are the pool too."""
    known = samples.labels != UNKNOWN
    labeled = known.nonzero().squeeze(1)
    in_pool = torch.ones_like(known) if include_labeled or known.all() else ~known
    return Split(
        labeled=samples.subset(labeled),
        unlabeled=samples.subset(in_pool.nonzero().squeeze(1)),
        validation=None,
        tests={},
        num_classes=len(classes),
        class_names=tuple(map(str, classes)),
        class_weights=None,
        mean=mean,
        std=std,
        record=SplitRecord(tuple(labeled.tolist())),
    )


def learn(cfg: Config, split: Split, *, quiet: bool) -> Run:
    """A finished run, which leaves nothing on disk."""
    method = find_method(cfg.method.name)
    run = Run(settle_views(cfg, split, method), split, method)
    run.prepare(quiet=quiet)

    def after_step() -> None:
        if run.step % cfg.log_every == 0 or run.step == cfg.steps:
            progress.show(run.step, {"loss": run.meter.drain()["train/loss"]})

    try:
        with Progress(cfg.method.name, cfg.steps, quiet=quiet) as progress:
            loop.fit(run, after_step)
    except NotFinite as error:
        raise RunError(f"{error}; a lower optimizer.rate in `settings` is the usual cure") from error
    return run


@contextmanager
def undisturbed() -> Iterator[None]:
    """After the block torch has the number of threads and the random state that it had before."""
    threads = torch.get_num_threads()
    try:
        with torch.random.fork_rng(devices=[]):
            yield
    finally:
        torch.set_num_threads(threads)


def predictor_of(run: Run) -> Predictor | TablePredictor:
    """What judges new samples by the averaged weights."""
    split, network = run.split, run.ema.model
    if isinstance(split.labeled, Table):
        return TablePredictor(network.cpu().double(), np.array(split.mean), np.array(split.std))
    size = split.labeled.image_size
    return Predictor(network, split.mean, split.std, split.class_names, image_size=size)
