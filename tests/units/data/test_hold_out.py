"""Labeled images put aside for a while."""

from dataclasses import replace

import torch

from interlude.data import DataConfig, load
from interlude.data.hold_out import hold_out
from interlude.data.split import Groups


def split():
    return load(DataConfig(name="digits"), labels=20, fold=0)


def halves() -> tuple[torch.Tensor, torch.Tensor]:
    return torch.arange(0, 20, 2), torch.arange(1, 20, 2)


def test_what_is_held_out_is_judged_and_no_longer_learned() -> None:
    held, learned = halves()
    whole, part = split(), hold_out(split(), held, learned=learned)
    assert part.labeled.rows.tolist() == whole.labeled.rows[learned].tolist()
    assert part.validation.rows.tolist() == whole.labeled.rows[held].tolist()


def test_what_is_held_out_leaves_the_unlabeled_pool() -> None:
    held, learned = halves()
    whole, part = split(), hold_out(split(), held, learned=learned)
    assert not torch.isin(part.unlabeled.rows, whole.labeled.rows[held]).any()
    assert len(part.unlabeled) == len(whole.unlabeled) - len(held)
    assert torch.isin(whole.labeled.rows[learned], part.unlabeled.rows).all(), "the others stay in it"


def test_the_test_images_stay_sealed() -> None:
    held, learned = halves()
    assert hold_out(split(), held, learned=learned).tests == {}


def test_a_group_leaves_the_pool_as_a_whole() -> None:
    held, learned = torch.tensor([0]), torch.arange(1, 20)
    whole = split()
    pool = torch.full((len(whole.unlabeled),), -1)
    pool[:7] = 5
    labeled = torch.full((20,), -1)
    labeled[0] = 5
    part = hold_out(replace(whole, groups=Groups(labeled, pool)), held, learned=learned)
    assert not torch.isin(whole.unlabeled.rows[:7], part.unlabeled.rows).any()
    assert len(part.groups.unlabeled) == len(part.unlabeled)
    assert len(part.groups.labeled) == 19


def test_images_that_stand_alone_are_not_taken_for_one_group() -> None:
    held, learned = torch.tensor([0]), torch.arange(1, 20)
    whole = split()
    alone = Groups(torch.full((20,), -1), torch.full((len(whole.unlabeled),), -1))
    part = hold_out(replace(whole, groups=alone), held, learned=learned)
    assert len(part.unlabeled) == len(whole.unlabeled) - 1
