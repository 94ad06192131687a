"""An uncurated pool: some classes are neither labeled nor tested, but are among the unlabeled images.

The protocol of Oliver et al. (2018) and Fix-A-Step (2023), made to work for any classes and any share. The
pool has as many slots as there are classes outside (or known ones, if those are fewer), all of one size. Each
slot belongs to a class outside, in order, and to one of the last known classes, in order. As the share grows,
classes outside replace the known ones slot by slot, and the pool keeps its size.
"""

from dataclasses import replace

import torch
from torch import Tensor

from interlude import rng
from interlude.data.images import UNKNOWN, Images
from interlude.data.source import Source
from interlude.errors import UserError, unknown

KNOWN_SHARE = 0.6  # of the classes, unless the data set has a custom


def known_classes(source: Source, wanted: str | None) -> tuple[int, ...]:
    """The classes that are labeled and tested: those named, the first few, or the data set's own."""
    number = source.num_classes
    if wanted is None:
        known = source.known_classes or tuple(range(max(2, round(KNOWN_SHARE * number))))
    elif wanted.strip().isdecimal():
        known = tuple(range(int(wanted)))
    else:
        names = [name.strip() for name in wanted.split(",")]
        for name in names:
            if name not in source.class_names:
                raise unknown("class", name, source.class_names)
        known = tuple(index for index, name in enumerate(source.class_names) if name in names)
    if not 2 <= len(known) < number:
        raise UserError(
            f"{len(known)} of {number} classes would be known: known_classes must leave at least two known "
            "classes and one outside"
        )
    return known


def narrow(source: Source, known: tuple[int, ...]) -> Source:
    """The source of a study that knows these classes only: others have no label, and no test image."""
    new_label = torch.full((source.num_classes + 1,), UNKNOWN)  # the last entry is that of the label -1
    new_label[list(known)] = torch.arange(len(known))

    def relabel(images: Images) -> Images:
        return replace(images, labels=new_label[images.labels])

    tests = {name: relabel(images) for name, images in source.tests.items()}
    seen = {name: (images.labels_of() != UNKNOWN).nonzero().squeeze(1) for name, images in tests.items()}
    weights = source.class_weights
    return replace(
        source,
        train=relabel(source.train),
        tests={name: tests[name].subset(rows) for name, rows in seen.items() if len(rows)},
        num_classes=len(known),
        class_names=tuple(source.class_names[label] for label in known),
        class_weights=None if weights is None else tuple(weights[label] for label in known),
    )


def choose_pool(source: Source, known: tuple[int, ...], *, share: float, taken: Tensor, fold: int) -> Tensor:
    """Sorted rows of the pool: none of those `taken`, and the share of them from classes outside."""
    outside = tuple(label for label in range(source.num_classes) if label not in known)
    num_slots = min(len(known), len(outside))
    slots = list(zip(known[-num_slots:], outside[:num_slots], strict=True))
    labels = source.train.labels_of().clone()
    labels[taken] = UNKNOWN
    rows = {label: _shuffled(labels, label, fold) for slot in slots for label in slot}
    scarce = min(rows, key=lambda label: len(rows[label]))
    size = len(rows[scarce])
    if not size:
        name = source.class_names[scarce]
        raise UserError(f"no image of class {name!r} is left for the pool: use fewer labels")
    num_outside = round(share * num_slots * size)
    chosen = []
    for slot, (inner, outer) in enumerate(slots):
        replaced = min(max(num_outside - slot * size, 0), size)
        chosen += [rows[outer][:replaced], rows[inner][: size - replaced]]
    return torch.cat(chosen).sort().values


def describe_pool(source: Source, known: tuple[int, ...], pool: Tensor) -> list[str]:
    """What is in the pool, and what is not because its class is not known, in a sentence each."""
    labels = source.train.labels_of()
    counts = torch.bincount(labels[pool], minlength=source.num_classes)
    outside = {
        name: int(counts[label]) for label, name in enumerate(source.class_names) if label not in known
    }
    number = sum(outside.values())
    notes = [
        f"{number:,} of {len(pool):,} unlabeled images ({number / len(pool):.0%}) are from classes that are "
        f"not labeled: {', '.join(name for name, count in outside.items() if count) or 'none'}"
    ]
    if without := int((labels == UNKNOWN).sum()):
        notes.append(f"{without:,} images whose class is not known are left out of the pool")
    return notes


def _shuffled(labels: Tensor, label: int, fold: int) -> Tensor:
    rows = (labels == label).nonzero().squeeze(1)
    return rows[torch.randperm(len(rows), generator=rng.generator(fold, "pool", label))]
