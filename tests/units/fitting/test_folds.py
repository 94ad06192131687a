"""Folds inside a few labels."""

import numpy as np

from interlude.fitting.folds import make_folds


def test_every_image_is_held_out_once_a_repetition() -> None:
    labels = np.repeat(np.arange(4), 10)
    folds = make_folds(labels)
    held = np.concatenate([out for _, out in folds.repetition(0)])
    assert folds.number == 5
    assert sorted(held) == list(range(40))


def test_classes_keep_their_shares_in_each_fold() -> None:
    labels = np.repeat([0, 1], [10, 20])
    for _, held in make_folds(labels).repetition(3):
        assert np.bincount(labels[held]).tolist() == [2, 4]


def test_repetitions_differ_and_each_can_be_had_again() -> None:
    folds = make_folds(np.repeat(np.arange(4), 10))
    first, again, second = ([held.tolist() for _, held in folds.repetition(seed)] for seed in (0, 0, 1))
    assert first == again
    assert first != second


def test_a_group_is_never_on_both_sides() -> None:
    labels = np.repeat(np.arange(2), 12)
    groups = np.array([f"patient {number // 3}" for number in range(24)])
    for learned, held in make_folds(labels, groups).repetition(0):
        assert not set(groups[learned]) & set(groups[held])


def test_a_class_with_one_label_is_always_learned_and_said_so() -> None:
    labels = np.array([0, 0, 0, 1, 1, 1, 2])
    folds = make_folds(labels)
    for learned, held in folds.repetition(0):
        assert 6 in learned
        assert 6 not in held
    assert folds.note.startswith("1 labeled images are never held out")


def test_no_more_folds_than_the_rarest_class_has_images() -> None:
    assert make_folds(np.array([0] * 30 + [1, 1])).number == 2


def test_one_label_a_class_allows_no_fold_and_the_reason_is_said() -> None:
    folds = make_folds(np.arange(5))
    assert folds.number == 0
    assert "second label" in folds.why_not


def test_one_group_a_class_allows_no_fold_either() -> None:
    assert "second group" in make_folds(np.repeat([0, 1], 6), np.repeat(["a", "b"], 6)).why_not
