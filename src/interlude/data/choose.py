"""Which training images get their label used, and which are set aside for validation."""

import torch
from torch import Tensor

from interlude import rng
from interlude.data.groups import draw_groups, relatives
from interlude.data.images import UNKNOWN, Images
from interlude.data.source import Source
from interlude.errors import UserError


def choose_validation(source: Source, wanted: float) -> Tensor:
    """Sorted rows set aside, as many of each class as its share of the labels; the same for every fold.

    Where images come in groups, whole groups are set aside, and the numbers are met as nearly as they allow.
    """
    labels = source.train.labels_of()
    num_labeled = int((labels != UNKNOWN).sum())
    number = round(wanted * num_labeled) if wanted < 1 else int(wanted)
    if wanted >= 1 and number != wanted:
        raise UserError(f"validation must be a share below 1 or a whole number of images, got {wanted:g}")
    if wanted and not 0 < number < num_labeled:
        raise UserError(
            f"validation={wanted:g} is {number} of {num_labeled} labeled training images: leave some of both"
        )
    by_class = _rows_by_class(source.train, torch.ones(len(labels), dtype=torch.bool), source.num_classes)
    counts = _proportional([len(rows) for rows in by_class], number)
    if source.groups is not None:
        chosen = draw_groups(source.groups, labels, counts)
        if wanted and not len(chosen):
            raise UserError(f"validation={wanted:g} is less than the smallest group: ask for more")
        return chosen
    return _draw(by_class, counts, seed=0, purpose="validation")


def choose_labeled(source: Source, labels: int | None, *, fold: int, validation: Tensor) -> Tensor:
    """Sorted rows whose label is used: class-balanced and drawn from the fold, or all there are.

    The rows of fewer labels are among the rows of more labels of the same fold.
    """
    free = torch.ones(len(source.train), dtype=torch.bool)
    free[validation] = False
    free[relatives(source.groups, validation)] = False
    by_class = _rows_by_class(source.train, free, source.num_classes)
    if labels is None:
        return torch.cat(by_class).sort().values
    _check_number(labels, by_class)
    counts = _balanced(labels, source.num_classes, fold)
    for name, rows, count in zip(source.class_names, by_class, counts, strict=True):
        if len(rows) < count:
            raise UserError(
                f"{labels} labels need {count} of class {name!r}, which has {len(rows)}: ask for fewer"
            )
    return _draw(by_class, counts, seed=fold, purpose="labels")


def choose_some(pool: Tensor, number: int, *, always: Tensor, total: int) -> Tensor:
    """Sorted rows, `number` of those in the pool, `always` among them, where there are `total` images.

    The others are the first of one random order, the same for every fold: what was once computed for them
    serves all folds.
    """
    if number > len(pool):
        raise UserError(
            f"pool={number} is more than the {len(pool)} unlabeled images there are: ask for fewer"
        )
    if number < len(always):
        raise UserError(
            f"pool={number} has no room for the {len(always)} labeled images, which are in the pool too: ask "
            "for more, or set include_labeled to false"
        )
    return in_order(pool, always=always, total=total)[:number].sort().values


def in_order(pool: Tensor, *, always: Tensor, total: int) -> Tensor:
    """The rows of a pool in the order in which a smaller one takes them, `always` first."""
    order = torch.randperm(total, generator=rng.generator(0, "some of the pool"))
    return torch.cat([always, order[torch.isin(order, pool) & ~torch.isin(order, always)]])


def describe_imbalance(labels: Tensor, num_classes: int) -> str:
    """How the labels fall on the classes where not evenly, in one sentence; empty if evenly."""
    counts = torch.bincount(labels, minlength=num_classes).tolist()
    if min(counts) == max(counts):
        return ""
    many = num_classes > 10
    spread = f"{min(counts)} to {max(counts)} a class" if many else ", ".join(map(str, counts))
    return f"{len(labels)} labels over {num_classes} classes: {spread}"


def _check_number(labels: int, by_class: list[Tensor]) -> None:
    available = sum(map(len, by_class))
    if labels < len(by_class):
        raise UserError(
            f"{labels} labels are too few for {len(by_class)} classes: give at least one for each class"
        )
    if labels > available:
        raise UserError(
            f"{labels} labels are asked for, but only {available} training images have one to use"
        )


def _rows_by_class(images: Images, free: Tensor, num_classes: int) -> list[Tensor]:
    labels = torch.where(free, images.labels_of(), UNKNOWN)
    return [(labels == label).nonzero().squeeze(1) for label in range(num_classes)]


def _balanced(number: int, num_classes: int, fold: int) -> list[int]:
    """Counts that differ by at most one; which classes get one more is drawn."""
    order = torch.randperm(num_classes, generator=rng.generator(fold, "extra label"))
    extra = (order.argsort() < number % num_classes).tolist()
    return [number // num_classes + more for more in extra]


def _proportional(sizes: list[int], number: int) -> list[int]:
    """Counts in proportion to the sizes, rounded so that they sum to the number (largest remainders)."""
    total = max(1, sum(sizes))
    counts = [size * number // total for size in sizes]
    by_remainder = sorted(range(len(sizes)), key=lambda index: -(sizes[index] * number % total))
    for index in by_remainder[: number - sum(counts)]:
        counts[index] += 1
    return counts


def _draw(by_class: list[Tensor], counts: list[int], *, seed: int, purpose: str) -> Tensor:
    """Sorted rows, `counts` of them from each class; each class has its own random order."""
    chosen = []
    for label, (rows, count) in enumerate(zip(by_class, counts, strict=True)):
        order = torch.randperm(len(rows), generator=rng.generator(seed, purpose, label))
        chosen.append(rows[order[:count]])
    return torch.cat(chosen).sort().values
