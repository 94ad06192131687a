"""A user's own images: a folder, labeled by its sub-folders or by a table."""

from collections import Counter
from statistics import median

import numpy as np
import torch
from numpy.typing import NDArray

from interlude.data.decode import Look, Unreadable, look
from interlude.data.dicom import MISSING, SUFFIXES, can_read_dicom
from interlude.data.images import UNKNOWN, Images
from interlude.data.listing import Listing, list_folder
from interlude.data.names import Names
from interlude.data.options import DataConfig
from interlude.data.problem import Problem, shown
from interlude.data.source import Source, channel_statistics, dataset
from interlude.data.store import InColour, Shape, Stored, open_store
from interlude.errors import UserError

SMALLEST, LARGEST = 16, 96  # pixels a side, where nobody says; more takes long to train from scratch
SAMPLE = 500  # files that are looked at to choose a size
STATISTICS = 2000  # images whose mean and deviation stand for all

Rows = NDArray[np.int64]


@dataset("folder")
def folder(cfg: DataConfig) -> Source:
    """your own images: folder:PATH, labels by sub-folders or --data.labels-file, see docs/data.md"""
    place = cfg.name.partition(":")[2]
    if not place:
        raise UserError("say which folder: folder:PATH")
    listing = list_folder(place, cfg.labels_file, cfg.group)
    _check(listing)
    stored, told = _store(listing, cfg)
    train, test, dropped = _parts(listing, stored.rows)
    _check_classes(listing, train)
    images = _images(listing, stored)
    is_validation = listing.splits[train] == 1
    sample = train[np.linspace(0, len(train) - 1, min(len(train), STATISTICS)).astype(int)]
    mean, std = channel_statistics(images.subset(torch.from_numpy(sample)))
    return Source(
        images.subset(torch.from_numpy(train)),
        {"test": images.subset(torch.from_numpy(test))} if len(test) else {},
        num_classes=len(listing.class_names),
        class_names=listing.class_names,
        mean=mean,
        std=std,
        notes=(told, *dropped, *_describe([*listing.problems, *stored.problems])),
        validation=torch.from_numpy(np.flatnonzero(is_validation)) if is_validation.any() else None,
        groups=None if listing.groups is None else torch.from_numpy(listing.groups[train]),
    )


def _check(listing: Listing) -> None:
    """Refuse what cannot be trained on, before anything is decoded."""
    if not can_read_dicom() and any(path.lower().endswith(SUFFIXES) for path in listing.paths):
        raise UserError(f"an image in {listing.root} cannot be read: {MISSING}")
    names = listing.class_names
    if len(names) < 2:
        found = f"only the class {shown(names[0])!r}" if names else "no label at all"
        raise UserError(
            f"{listing.root} has {found}: give at least two classes, as sub-folders or by a labels file"
        )


def _store(listing: Listing, cfg: DataConfig) -> tuple[Stored, str]:
    """The decoded images, in one channel if all are grey, and a sentence about their size."""
    looks = _look_at_some(listing)
    if not looks:
        raise UserError(f"none of the images in {listing.root} can be read; is it the right folder?")
    side, told = _choose_side(looks, cfg)
    channels = 1 if all(seen.grey for seen in looks) else 3
    shape = Shape(channels, side, cfg.fit)
    try:
        return open_store(listing.root, listing.paths, shape, keep=cfg.store), told
    except InColour:  # among those that were not looked at
        colour = shape._replace(channels=3)
        return open_store(listing.root, listing.paths, colour, keep=cfg.store), told


def _look_at_some(listing: Listing) -> list[Look]:
    """Sizes and colours of images from all over the folder, the same ones each time."""
    looks = []
    for row in np.unique(np.linspace(0, len(listing) - 1, SAMPLE).astype(int)):
        try:
            looks.append(look(listing.path(row)))
        except Unreadable:
            continue
    return looks


def _choose_side(looks: list[Look], cfg: DataConfig) -> tuple[int, str]:
    """How many pixels a side the images get, and why."""
    short = sorted(min(seen.width, seen.height) for seen in looks)
    middle = round(median(short))
    side = cfg.image_size or min(max(middle, SMALLEST), LARGEST)
    sizes = f"{short[0]}" if short[0] == short[-1] else f"{short[0]} to {short[-1]}, in the middle {middle}"
    hint = "" if cfg.image_size else "; --data.image-size N takes N"
    odd = any(seen.width != seen.height for seen in looks)
    how = f", by {cfg.fit} where not square" if odd else ""
    return side, f"images are {sizes} pixels on the shorter side, and used at {side}x{side}{how}{hint}"


def _images(listing: Listing, stored: Stored) -> Images:
    """All images in the order of the listing; rows of unreadable ones must not be used."""
    total = stored.pixels.shape[0]
    labels, digests = np.full(total, UNKNOWN), np.zeros((total, stored.digests.shape[1]), np.uint8)
    good = stored.rows >= 0
    labels[stored.rows[good]] = listing.labels[good]
    digests[stored.rows[good]] = stored.digests[good]
    file_of = np.full(total, UNKNOWN)
    file_of[stored.rows[good]] = np.flatnonzero(good)
    return Images(
        stored.pixels,
        torch.from_numpy(labels),
        torch.from_numpy(stored.rows),
        torch.from_numpy(digests),
        Names(listing.paths[file] if file != UNKNOWN else "" for file in file_of.tolist()),
    )


def _parts(listing: Listing, stored: Rows) -> tuple[Rows, Rows, list[str]]:
    """The rows of training (validation among them) and test images, and what to tell about the others.

    An image of a group that is in a more sealed part is left out: groups never cross the split.
    """
    readable, labeled, notes = stored >= 0, listing.labels != UNKNOWN, list[str]()
    useless = readable & ~labeled & (listing.splits != 0)
    if useless.any():
        notes.append(f"{useless.sum():,} val and test images without a usable label are left out")
    test, val = (readable & labeled & (listing.splits == part) for part in (2, 1))
    train = readable & (listing.splits == 0)
    if listing.groups is not None:
        in_test, in_val = (_same_group(listing.groups, rows) for rows in (test, val))
        crossing = (val & in_test) | (train & (in_test | in_val))
        if crossing.any():
            notes.append(
                f"{crossing.sum():,} images are left out, as others of their group are in val or test"
            )
        train, val = train & ~crossing, val & ~crossing
    return np.flatnonzero(train | val), np.flatnonzero(test), notes


def _same_group(groups: Rows, rows: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Which images belong to a group of one of these rows."""
    same: NDArray[np.bool_] = (groups != UNKNOWN) & np.isin(groups, groups[rows])
    return same


def _check_classes(listing: Listing, train: Rows) -> None:
    """Refuse a class of which no training image is left."""
    labels = listing.labels[train[listing.splits[train] == 0]]
    counts = np.bincount(labels[labels != UNKNOWN], minlength=len(listing.class_names))
    if not counts.all():
        name = shown(listing.class_names[int(counts.argmin())])
        raise UserError(
            f"no labeled image of class {name!r} is left to train on (they are unreadable, or of a group in "
            "val or test): add some, or remove the class"
        )


def _describe(problems: list[Problem]) -> list[str]:
    """A sentence for each kind of problem."""
    notes = []
    for kind, count in Counter(problem.kind for problem in problems).items():
        first = next(problem for problem in problems if problem.kind == kind)
        about = f"{shown(first.path)}: " if first.path else ""
        more = f" (and {count - 1:,} more like this)" if count > 1 else ""
        notes.append(f"{kind.replace('-', ' ')}: {about}{shown(first.detail)}{more}")
    return notes
