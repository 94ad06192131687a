import pytest
import torch

from interlude.data.choose import choose_labeled, choose_validation, describe_imbalance
from interlude.data.images import Images
from interlude.data.source import Source
from interlude.errors import UserError

NONE = torch.tensor([], dtype=torch.int64)


def source(*counts, without_label=0):
    """A source with so many images of each class, in mixed order."""
    labels = [label for label, count in enumerate(counts) for _ in range(count)] + [-1] * without_label
    mixed = torch.tensor(labels)[torch.randperm(len(labels), generator=torch.Generator().manual_seed(0))]
    images = Images(torch.zeros(len(labels), 1, 2, 2, dtype=torch.uint8), mixed)
    names = tuple(f"class {label}" for label in range(len(counts)))
    return Source(images, {}, num_classes=len(counts), class_names=names, mean=(0.5,), std=(0.5,))


def counts_of(data, rows):
    return torch.bincount(data.train.labels_of(rows), minlength=data.num_classes).tolist()


def test_labels_are_spread_evenly_over_unequal_classes():
    data = source(50, 5, 20)
    assert counts_of(data, choose_labeled(data, 12, fold=0, validation=NONE)) == [4, 4, 4]


def test_labels_that_do_not_divide_differ_by_one():
    data = source(50, 50, 50)
    counts = counts_of(data, choose_labeled(data, 40, fold=0, validation=NONE))
    assert sorted(counts) == [13, 13, 14]


def test_which_class_gets_one_more_is_drawn():
    data = source(50, 50, 50)
    favoured = {
        max(range(3), key=counts_of(data, choose_labeled(data, 40, fold=fold, validation=NONE)).__getitem__)
        for fold in range(20)
    }
    assert favoured == {0, 1, 2}


def test_more_labels_of_a_fold_contain_the_fewer():
    data = source(30, 30, 30)
    previous = set()
    for labels in range(3, 60):
        rows = set(choose_labeled(data, labels, fold=1, validation=NONE).tolist())
        assert len(rows) == labels
        assert previous < rows, f"{labels} labels do not contain the rows of {labels - 1}"
        previous = rows


def test_no_labels_means_all_labels():
    data = source(5, 6, 7, without_label=9)
    rows = choose_labeled(data, None, fold=0, validation=torch.tensor([0, 1]))
    expected = [row for row in range(2, 27) if data.train.labels[row] >= 0]
    assert rows.tolist() == expected


def test_images_without_label_are_never_chosen():
    data = source(8, 8, without_label=100)
    assert (data.train.labels_of(choose_labeled(data, 16, fold=0, validation=NONE)) >= 0).all()
    assert (data.train.labels_of(choose_validation(data, 0.5)) >= 0).all()


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (2, "2 labels are too few for 3 classes"),
        (0, "0 labels are too few"),
        (36, "only 35 training images"),
        (18, "need 6 of class 'class 1', which has 5"),
    ],
)
def test_impossible_numbers_of_labels_are_refused(labels, message):
    with pytest.raises(UserError, match=message):
        choose_labeled(source(15, 5, 15), labels, fold=0, validation=NONE)


def test_validation_images_do_not_count_as_available():
    data = source(10, 10)
    with pytest.raises(UserError, match="only 10 training images"):
        choose_labeled(data, 11, fold=0, validation=choose_validation(data, 10))


@pytest.mark.parametrize(
    ("wanted", "counts"), [(0, [0, 0]), (0.1, [6, 3]), (9, [6, 3]), (0.5, [30, 15]), (1, [1, 0])]
)
def test_validation_takes_its_share_of_each_class(wanted, counts):
    data = source(60, 30)
    assert counts_of(data, choose_validation(data, wanted)) == counts


@pytest.mark.parametrize("wanted", [90, 1000, 0.001, 0.999, 2.5])
def test_impossible_validation_is_refused(wanted):
    with pytest.raises(UserError, match="validation"):
        choose_validation(source(60, 30), wanted)


def test_uneven_labels_are_told():
    assert describe_imbalance(torch.tensor([0, 0, 1, 2]), 3) == "4 labels over 3 classes: 2, 1, 1"
    assert (
        describe_imbalance(torch.arange(12).repeat(2)[:20], 12) == "20 labels over 12 classes: 1 to 2 a class"
    )


def test_even_labels_need_no_word():
    assert describe_imbalance(torch.tensor([0, 1, 2, 2, 1, 0]), 3) == ""
