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


def test_where_every_part_would_take_a_class_away_nothing_is_held_out_and_the_reason_is_said() -> None:
    labels, groups = np.array([0, 0, 1, 1, 2, 2]), np.array([1, 2, 1, 1, 2, 2])
    folds = make_folds(labels, groups)
    assert folds.number == 0
    assert "some class has nothing left to learn from" in folds.why_not


SAMPLED = np.arange(40) % 4 < 2  # half of each class


def test_only_labels_drawn_at_random_are_held_out_and_all_others_learned() -> None:
    labels = np.arange(40) // 4 % 5
    folds = make_folds(labels, sampled=SAMPLED)
    held = []
    for learned, out in folds.repetition(0):
        assert set(np.flatnonzero(~SAMPLED)) <= set(learned)
        assert sorted([*learned, *out]) == list(range(40))
        held += out.tolist()
    assert sorted(held) == np.flatnonzero(SAMPLED).tolist()


def test_the_labels_of_a_class_that_were_drawn_are_dealt_out_to_different_folds() -> None:
    labels = np.repeat(np.arange(8), 5)
    for _, out in make_folds(labels, sampled=np.tile([True, True, True, False, False], 8)).repetition(4):
        assert np.bincount(labels[out]).max() == 1


def test_a_class_with_a_single_label_drawn_at_random_is_judged_by_what_was_learned_of_the_others() -> None:
    labels = np.array([0] * 10 + [1, 1])
    folds = make_folds(labels, sampled=np.array([True] * 11 + [False]))
    held = np.concatenate([out for _, out in folds.repetition(0)])
    assert 10 in held
    assert folds.note == ""


def test_groups_of_the_sample_stay_whole() -> None:
    labels, groups = np.repeat([0, 1], 20), np.arange(40) // 2
    for learned, out in make_folds(labels, groups, SAMPLED).repetition(0):
        assert not set(groups[learned]) & set(groups[out])


def test_too_few_labels_drawn_at_random_allow_no_fold_and_the_number_that_lacks_is_said() -> None:
    labels = np.repeat([0, 1], 10)
    for count in (0, 1, 7):
        folds = make_folds(labels, sampled=np.isin(np.arange(20), range(0, 2 * count, 2)))
        assert folds.number == 0
        assert f"label {8 - count} more of the random images" in folds.why_not
    assert make_folds(labels, sampled=np.isin(np.arange(20), range(0, 16, 2))).number == 5


def test_a_sample_of_one_class_says_nothing_about_the_others() -> None:
    folds = make_folds(np.repeat([0, 1], 10), sampled=np.arange(20) < 10)
    assert (folds.number, "of one class" in folds.why_not) == (0, True)
