import pytest
import torch

from interlude.data.choose import choose_labeled, choose_validation
from interlude.data.groups import draw_groups, relatives
from interlude.data.images import Images
from interlude.data.source import Source
from interlude.errors import UserError


def source(labels, groups):
    labels = torch.tensor(labels)
    images = Images(torch.zeros(len(labels), 1, 2, 2, dtype=torch.uint8), labels)
    names = tuple(map(str, range(int(labels.max()) + 1)))
    return Source(images, {}, len(names), names, (0.5,), (0.5,), groups=torch.tensor(groups))


def test_relatives_are_all_rows_of_the_same_groups():
    groups = torch.tensor([0, 1, 0, -1, -1, 2, 1])
    assert relatives(groups, torch.tensor([0])).tolist() == [0, 2]
    assert relatives(groups, torch.tensor([6, 3])).tolist() == [1, 6]
    assert relatives(groups, torch.tensor([3])).tolist() == []
    assert relatives(None, torch.tensor([3])).tolist() == []


def test_whole_groups_are_set_aside_in_about_the_numbers_wanted():
    generator = torch.Generator().manual_seed(0)
    labels = torch.randint(0, 3, (600,), generator=generator)
    groups = torch.randint(0, 100, (600,), generator=generator)
    labels[::10] = -1
    rows = draw_groups(groups, labels, [40, 38, 42])
    counts = torch.bincount(labels[rows], minlength=3)
    assert (counts - torch.tensor([40, 38, 42])).abs().max() <= 4
    outside = torch.ones(600, dtype=torch.bool)
    outside[rows] = False
    outside &= labels >= 0
    assert not set(groups[rows].tolist()) & set(groups[outside].tolist())
    assert (labels[rows] >= 0).all()


def test_no_class_loses_its_last_group():
    labels, groups = torch.tensor([0, 0, 0, 0, 1, 1]), torch.tensor([0, 1, 2, 3, 4, 4])
    rows = draw_groups(groups, labels, [2, 2])
    assert labels[rows].tolist() == [0, 0]


def test_the_relatives_of_given_validation_images_are_not_labeled():
    data = source([0, 1, 0, 1], [0, 0, 1, 1])
    assert choose_labeled(data, None, fold=0, validation=torch.tensor([0])).tolist() == [2, 3]


def test_images_that_stand_alone_are_groups_of_one():
    data = source([0, 1] * 20, [-1] * 40)
    assert torch.bincount(data.train.labels_of(choose_validation(data, 10))).tolist() == [5, 5]


def test_labels_are_not_taken_from_groups_in_validation():
    data = source([0, 1] * 12, [row // 4 for row in range(24)])
    validation = choose_validation(data, 0.3)
    labeled = choose_labeled(data, 8, fold=0, validation=validation)
    assert not set(data.groups[labeled].tolist()) & set(data.groups[validation].tolist())


def test_groups_too_large_to_set_aside_are_told():
    data = source([0, 1] * 4, [0, 0, 0, 0, 0, 0, 0, 0])
    with pytest.raises(UserError, match="smallest group"):
        choose_validation(data, 2)
