"""Images that belong together, as those of one patient: they never stand on both sides of a division."""

import torch
from torch import Tensor

from interlude import rng
from interlude.data.images import UNKNOWN


def relatives(groups: Tensor | None, rows: Tensor) -> Tensor:
    """All rows of the groups that these rows are of; a row that stands alone has no relatives."""
    if groups is None:
        return rows[:0]
    own = groups[rows]
    return torch.isin(groups, own[own != UNKNOWN]).nonzero().squeeze(1)


def draw_groups(groups: Tensor, labels: Tensor, wanted: list[int]) -> Tensor:
    """Sorted labeled rows of whole groups, drawn so that each class has nearly as many as wanted.

    Groups come in random order: first those that exceed no number, then those that bring the numbers nearer
    all the same. Of each class of a group that is taken, an image is left outside.
    """
    unit = torch.where(groups == UNKNOWN, groups.max() + 1 + torch.arange(len(groups)), groups)
    labeled = (labels != UNKNOWN).nonzero().squeeze(1)
    numbers, member = unit[labeled].unique(return_inverse=True)
    counts = torch.zeros(len(numbers), len(wanted), dtype=torch.int64)
    counts.index_put_((member, labels[labeled]), torch.tensor(1), accumulate=True)
    left, missing = counts.sum(0), torch.tensor(wanted)
    chosen = torch.zeros(len(numbers), dtype=torch.bool)
    order = torch.randperm(len(numbers), generator=rng.generator(0, "validation groups")).tolist()
    for exactly in (True, False):
        for index in (index for index in order if not chosen[index]):
            count = counts[index]
            fits = (count <= missing).all() if exactly else _size(missing - count) < _size(missing)
            if bool(fits) and bool(((left > count) | (count == 0)).all()):
                chosen[index] = True
                missing, left = missing - count, left - count
    return labeled[chosen[member]]


def _size(counts: Tensor) -> Tensor:
    return counts.square().sum()
