"""What the doctor knows of the images of a split: which must be left out, and which must stay together."""

from collections import Counter
from dataclasses import replace

import torch
from torch import Tensor

from interlude.data import UNKNOWN, Images, Split
from interlude.data.listing import Listing
from interlude.data.split import Groups
from interlude.doctor import Diagnosis


def heeded(split: Split, listing: Listing, diagnosis: Diagnosis) -> Split:
    """The split without the images that the doctor excludes; copies belong together as groups do."""
    labeled, pool = (_kept(images, diagnosis) for images in (split.labeled, split.unlabeled))
    parts = split.labeled.subset(labeled), split.unlabeled.subset(pool)
    record = split.record
    if len(labeled) < len(split.labeled):
        chosen = torch.tensor(record.labeled)[labeled]
        record = replace(record, labeled=tuple(chosen.tolist()))
    numbers = dict(zip(listing.paths, diagnosis.together.tolist(), strict=True))
    shared = Counter(numbers.values())
    groups = Groups(*(_groups(images, numbers, shared) for images in parts))
    alone = all(bool((part == UNKNOWN).all()) for part in groups)
    return replace(
        split,
        labeled=parts[0],
        unlabeled=parts[1],
        record=record,
        groups=None if alone else groups,
        sampled=_sampled(parts[0], listing),
    )


def _sampled(images: Images, listing: Listing) -> Tensor | None:
    """Which of the images were drawn at random; None where nobody says."""
    if listing.sampled is None:
        return None
    known = dict(zip(listing.paths, listing.sampled.tolist(), strict=True))
    return torch.tensor([known[name] for name in images.names_of()], dtype=torch.bool)


def _kept(images: Images, diagnosis: Diagnosis) -> Tensor:
    """The rows that may be used."""
    return torch.tensor(
        [row for row, name in enumerate(images.names_of()) if name not in diagnosis.excluded],
        dtype=torch.int64,
    )


def _groups(images: Images, numbers: dict[str, int], shared: Counter[int]) -> Tensor:
    """The number of what each image belongs to; one that no other shares is alone."""
    own = [numbers[name] for name in images.names_of()]
    return torch.tensor([number if shared[number] > 1 else UNKNOWN for number in own], dtype=torch.int64)
