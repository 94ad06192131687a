"""TMED-2 (Huang et al., 2022) as the Heart2Heart benchmark (Huang et al., 2023) divides and tests it."""

import pickle
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from interlude.data.download import root
from interlude.data.echo import (
    GUIDE,
    SIDE,
    VIEWS,
    Grey,
    check_present,
    count_note,
    open_picture,
    read_table,
    squares,
    to_images,
)
from interlude.data.images import UNKNOWN, Images
from interlude.data.options import DataConfig
from interlude.data.source import FixedRows, Source, dataset_in_folds
from interlude.data.sources import camus, unity
from interlude.errors import UserError

SIZE = "DEV56"  # the division of TMED-2 with labels of 56 studies
NUM_LABELED = (1561, 1660, 1427)  # in each fold
NUM_POOL = 353_500
TRANSFER = {"camus": (camus.camus, camus.NUM_IMAGES), "unity": (unity.unity, unity.NUM_IMAGES)}
CHUNK = 4096

Labels = NDArray[np.int64]


class Fold(NamedTuple):
    """One fold; the pixels are those of labeled, validation and unlabeled images, in this order."""

    pixels: Grey
    labeled: Labels
    validation: Labels
    test: Images


@dataset_in_folds("tmed2")
def tmed2(cfg: DataConfig, fold: int) -> Source:
    """heart ultrasound in 4 views, folds 0 to 2, with the tests camus and unity; access-controlled"""
    if fold >= len(NUM_LABELED):
        raise UserError(f"tmed2 has the folds 0 to {len(NUM_LABELED) - 1}, not {fold}")
    data = _read(root(cfg) / "tmed2", fold, trust_pickle=cfg.trust_pickle)
    num_labeled, num_validation = len(data.labeled), len(data.validation)
    labels = np.full(len(data.pixels), UNKNOWN)
    labels[: num_labeled + num_validation] = np.concatenate([data.labeled, data.validation])
    rows = torch.arange(num_labeled + num_validation)
    num_pool = len(labels) - len(rows)
    tests, notes = _transfer_tests(root(cfg))
    notes += [
        count_note(f"labeled images of fold {fold}", num_labeled, NUM_LABELED[fold]),
        count_note("unlabeled pool", num_pool, NUM_POOL),
    ]
    return Source(
        to_images(data.pixels, labels),
        {"tmed2": data.test, **tests},
        num_classes=len(VIEWS),
        class_names=VIEWS,
        mean=(0.0, 0.0, 0.0),  # pixels stay in 0..1
        std=(1.0, 1.0, 1.0),
        class_weights=class_weights(data.labeled),
        fixed=FixedRows(rows[:num_labeled], rows[num_labeled:]),
        notes=tuple(filter(None, notes)),
    )


def class_weights(labels: Labels) -> tuple[float, ...]:
    """Inverse frequencies that sum to one, to three digits as in the authors' code."""
    counts = np.bincount(labels, minlength=len(VIEWS))
    if not counts.all():
        raise UserError(f"tmed2 has no labeled image of the view {VIEWS[int(counts.argmin())]}; {GUIDE}")
    weights = (1 / counts) / (1 / counts).sum()
    return tuple(round(float(weight), 3) for weight in weights)


def _transfer_tests(folder: Path) -> tuple[dict[str, Images], list[str]]:
    """The test sets of other hospitals that are there, and what to tell about each."""
    tests, notes = {}, []
    for name, (read, published) in TRANSFER.items():
        if not (folder / name).is_dir():
            notes.append(f"not tested on {name}, which is not in {folder / name}; {GUIDE}")
            continue
        tests[name] = read(folder / name)
        notes.append(count_note(name, len(tests[name]), published))
    return tests, notes


def _read(folder: Path, fold: int, *, trust_pickle: bool) -> Fold:
    """The fold from the release of PNG and CSV files, or from the prepared arrays where only those are."""
    for place in (folder, folder / "approved_users_only"):
        if (place / SIZE).is_dir():
            return _from_pictures(place, fold)
    if (folder / f"data_seed{fold}").is_dir():
        if not trust_pickle:
            raise UserError(
                f"the arrays in {folder} are pickle files, and reading one runs whatever code it holds: if "
                "you trust where they are from, say --data.trust-pickle; the PNG files need no trust"
            )
        return _from_arrays(folder, fold)
    raise UserError(
        f"TMED-2 is not in {folder}: apply for access at https://tmed.cs.tufts.edu and put {SIZE}/ and the "
        f"image folders of the release there (INTERLUDE_DATA or --data.root choose the folder), {GUIDE}"
    )


def _from_pictures(folder: Path, fold: int) -> Fold:
    table = folder / SIZE / f"TMED2_fold{fold}_labeledpart.csv"
    rows = read_table(table, ("query_key", "SourceFolder", "view_label", "view_classifier_split"))
    rows = [row for row in rows if row["view_label"] in VIEWS]
    paths: dict[str, list[Path]] = {"train": [], "val": [], "test": []}
    labels: dict[str, list[int]] = {part: [] for part in paths}
    for row in rows:
        part = row["view_classifier_split"]
        if part not in paths:
            raise UserError(
                f"{table}: {part!r} in view_classifier_split is none of {', '.join(paths)}; {GUIDE}"
            )
        paths[part].append(folder / row["SourceFolder"] / row["query_key"])
        labels[part].append(VIEWS.index(row["view_label"]))
    check_present([path for part in paths.values() for path in part], table)
    pool = sorted((folder / "unlabeled_set").rglob("*.png"))
    if not pool or not all(paths.values()):
        empty = "unlabeled_set" if not pool else next(part for part in paths if not paths[part])
        raise UserError(f"there is no picture for {empty} in {folder}; {GUIDE}")
    train = [*paths["train"], *paths["val"], *pool]
    return Fold(
        squares(map(open_picture, train), len(train)),
        np.array(labels["train"]),
        np.array(labels["val"]),
        to_images(squares(map(open_picture, paths["test"]), len(paths["test"])), labels["test"]),
    )


def _from_arrays(folder: Path, fold: int) -> Fold:
    seed = folder / f"data_seed{fold}"
    train, labels = _load(seed / SIZE / "train.npy")
    validation, validation_labels = _load(seed / SIZE / "val.npy")
    test = to_images(*_load(seed / "this_seed_shared_testset" / "test.npy"))
    pool, _ = _load(folder / "all_shared_unlabeledset" / "u_train.npy", labeled=False)
    return Fold(np.concatenate([train, validation, pool]), labels, validation_labels, test)


def _load(path: Path, *, labeled: bool = True) -> tuple[Grey, Labels]:
    """Pixels (n, 112, 112) and labels of a pickled {"images", "labels"}; only the four views, if labeled."""
    try:
        content: Any = np.load(path, allow_pickle=True)
        content = content.item() if isinstance(content, np.ndarray) else content
        images, labels = content["images"], np.asarray(content["labels"], np.int64)
    except FileNotFoundError:
        raise UserError(f"{path}: no such file; {GUIDE}") from None
    except (OSError, EOFError, ValueError, TypeError, KeyError, IndexError, pickle.UnpicklingError):
        raise UserError(f"{path} is no pickled dictionary of images and labels; {GUIDE}") from None
    shape = (len(images), SIDE, SIDE, 3)
    if getattr(images, "dtype", None) != np.uint8 or images.shape != shape or labels.shape != shape[:1]:
        found = f"{getattr(images, 'dtype', '?')} {getattr(images, 'shape', '?')}, {len(labels)} labels"
        raise UserError(f"{path}: expected uint8 images (n, {SIDE}, {SIDE}, 3) and n labels, got {found}")
    pixels = _grey(images, path)
    if not labeled:
        return pixels, labels
    kept = (labels >= 0) & (labels < len(VIEWS))
    return pixels[kept], labels[kept]


def _grey(images: NDArray[np.uint8], path: Path) -> Grey:
    """One of three channels that must be equal."""
    pixels = np.empty(images.shape[:3], np.uint8)
    for start in range(0, len(images), CHUNK):
        chunk = images[start : start + CHUNK]
        if (chunk != chunk[..., :1]).any():
            raise UserError(f"{path} has images in colours, where grey ones are expected; {GUIDE}")
        pixels[start : start + CHUNK] = chunk[..., 0]
    return pixels
