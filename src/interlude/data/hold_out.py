"""Labeled images put aside for a while, to judge what was learned from the others."""

from dataclasses import replace

import torch
from torch import Tensor

from interlude.data.images import UNKNOWN, Images
from interlude.data.split import Split


def hold_out(split: Split, held: Tensor, *, learned: Tensor) -> Split:
    """The split with the labels of the rows `learned` alone, and the rows `held` as its validation images.

    Those held out leave the unlabeled pool too, with everything of their groups. Nothing is tested.
    """
    labeled, pool = split.labeled, split.unlabeled
    assert labeled.rows is not None, "a split lists the rows of its parts"
    out = torch.isin(_rows(pool), labeled.rows[held])
    groups = split.groups
    if groups is not None:
        own = groups.labeled[held]
        out |= torch.isin(groups.unlabeled, own[own != UNKNOWN])
    kept = (~out).nonzero().squeeze(1)
    if groups is not None:
        groups = groups._replace(labeled=groups.labeled[learned], unlabeled=groups.unlabeled[kept])
    return replace(
        split,
        labeled=labeled.subset(learned),
        unlabeled=pool.subset(kept),
        validation=labeled.subset(held),
        tests={},
        groups=groups,
        sampled=None if split.sampled is None else split.sampled[learned],
    )


def _rows(images: Images) -> Tensor:
    return torch.arange(len(images)) if images.rows is None else images.rows
