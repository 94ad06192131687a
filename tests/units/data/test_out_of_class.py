"""Pools with classes that are never labeled: what is in them, exactly, and that a record leads back to it."""

from dataclasses import replace

import pytest
import torch

from interlude.data import DataConfig, SplitRecord, load
from interlude.data import split as module
from interlude.data.images import Images
from interlude.data.open_set import known_classes
from interlude.data.source import FixedRows, Source
from interlude.errors import UserError

NAMES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
PER_CLASS, WITHOUT_LABEL = 50, 9
ANIMALS = (2, 3, 4, 5, 6, 7)


def make_source(**changes):
    """Ten classes of fifty images, laid out in turn, some images without label, and twenty tests."""
    generator = torch.Generator().manual_seed(0)
    number = 10 * PER_CLASS + WITHOUT_LABEL
    pixels = torch.randint(0, 256, (number, 1, 2, 2), dtype=torch.uint8, generator=generator)
    labels = torch.cat([torch.arange(10 * PER_CLASS) % 10, torch.full((WITHOUT_LABEL,), -1)])
    test = Images(torch.randint(0, 256, (20, 1, 2, 2), dtype=torch.uint8), torch.arange(20) % 10)
    source = Source(
        Images(pixels, labels),
        {"test": test},
        num_classes=10,
        class_names=NAMES,
        mean=(0.5,),
        std=(0.3,),
        known_classes=ANIMALS,
    )
    return replace(source, **changes)


@pytest.fixture(autouse=True)
def source(monkeypatch):
    """The source that `load` finds under any name."""
    made = make_source()
    monkeypatch.setattr(module, "open_source", lambda cfg, fold: made)
    return made


def study(share, *, labels=60, fold=0, record=None, all_labels=False, **options):
    cfg = DataConfig(out_of_class=share, **options)
    return load(cfg, labels=labels, fold=fold, record=record, all_labels=all_labels)


def true_labels(source, split):
    """The classes of the pool that nothing but this test may know."""
    return source.train.labels[split.unlabeled.rows]


@pytest.mark.parametrize(
    ("share", "classes"),
    [(0, {4, 5, 6, 7}), (0.25, {0, 5, 6, 7}), (0.5, {0, 1, 6, 7}), (0.75, {0, 1, 8, 7}), (1, {0, 1, 8, 9})],
)
def test_the_pool_has_the_classes_of_the_published_protocol(source, share, classes):
    counts = torch.bincount(true_labels(source, study(share)), minlength=10).tolist()
    assert {label for label, count in enumerate(counts) if count} == classes
    assert {counts[label] for label in classes} == {40}  # fifty but for the ten that are labeled


@pytest.mark.parametrize("share", [0, 0.1, 0.25, 1 / 3, 0.5, 0.9, 1])
def test_the_share_is_exact_and_the_size_is_the_same(source, share):
    labels = true_labels(source, study(share))
    assert len(labels) == 160
    assert sum(int(label) not in ANIMALS for label in labels) == round(share * 160)


def test_labels_and_tests_know_the_known_classes_only(source):
    split = study(0.5)
    assert split.class_names == ("bird", "cat", "deer", "dog", "frog", "horse")
    assert split.num_classes == 6
    assert torch.bincount(split.labeled.labels_of()).tolist() == [10] * 6
    originals = source.train.labels[split.labeled.rows]
    assert torch.equal(originals - 2, split.labeled.labels_of())
    test = split.tests["test"]
    assert torch.equal(source.tests["test"].labels[test.rows] - 2, test.labels_of())
    assert len(test) == 12


def test_the_labels_of_classes_outside_are_hidden(source):
    split = study(1)
    assert (split.unlabeled.labels_of() == -1).all()


def test_labeled_and_validation_images_are_not_in_the_pool():
    split = study(0.25, validation=0.1)
    pool = set(split.unlabeled.rows.tolist())
    assert len(split.validation) == 30
    assert not pool & set(split.labeled.rows.tolist())
    assert not pool & set(split.validation.rows.tolist())


def test_a_fold_gives_the_same_pool_and_another_fold_another():
    # at share 1 no class of the pool has labels that would differ by fold as well
    first, again, other = (study(1, fold=fold).record for fold in (0, 0, 1))
    assert first.pool == again.pool != other.pool


def test_a_greater_share_only_replaces():
    smaller, greater = (set(study(share).record.pool) for share in (0.25, 0.5))
    assert len(smaller & greater) == 120


def test_the_split_hash_sees_the_pool():
    hashes = {study(share).record.split_hash for share in (0, 0.5, 1)}
    assert len(hashes) == 3
    assert load(DataConfig(), labels=60, fold=0).record.split_hash not in hashes


def test_a_resumed_run_gets_the_same_pool(tmp_path):
    split = study(0.5)
    split.record.to_json(tmp_path / "split.json")
    record = SplitRecord.from_json(tmp_path / "split.json")
    assert record == split.record
    again = study(0.5, record=record)
    assert again.record == record
    assert torch.equal(again.unlabeled.rows, split.unlabeled.rows)
    assert again.notes == split.notes


def test_a_record_of_another_share_is_refused():
    record = study(0.5).record
    with pytest.raises(UserError, match=r"made with out_of_class=0\.5 and the known classes bird,cat,deer"):
        study(0.25, record=record)
    with pytest.raises(UserError, match=r"made with out_of_class=0\.5"):
        load(DataConfig(), labels=60, fold=0, record=record)


def test_a_record_with_a_pool_outside_the_data_is_refused():
    record = replace(study(0.5).record, pool=(3, 509))
    with pytest.raises(UserError, match="a row of its pool is outside the 509 training images"):
        study(0.5, record=record)


def test_a_split_file_without_a_pool_gets_one(tmp_path):
    (tmp_path / "mine.json").write_text('{"labeled": [2, 3, 4, 5, 6, 7]}')
    split = study(0.5, labels=None, split=str(tmp_path / "mine.json"))
    assert len(split.unlabeled) == 4 * 49


def test_the_upper_bound_has_a_pool_too(source):
    split = study(0.5, all_labels=True)
    assert len(split.labeled) == 300
    assert len(split.unlabeled) == 200


def test_what_is_in_the_pool_is_told():
    notes = study(0.5).notes
    assert (
        "80 of 160 unlabeled images (50%) are from classes that are not labeled: airplane, automobile"
        in notes
    )
    assert "9 images whose class is not known are left out of the pool" in notes


def test_known_classes_may_be_named_in_any_order(source):
    assert known_classes(source, "ship, cat,bird") == (2, 3, 8)


def test_known_classes_may_be_counted(source):
    assert known_classes(source, "4") == (0, 1, 2, 3)


def test_without_a_custom_the_first_three_fifths_are_known(source):
    assert known_classes(replace(source, known_classes=None), None) == (0, 1, 2, 3, 4, 5)


def test_fewer_known_classes_than_others_all_get_a_slot(source):
    split = study(0.5, labels=20, known_classes="bird,cat")
    counts = torch.bincount(true_labels(source, split), minlength=10).tolist()
    assert counts == [40, 0, 0, 40, 0, 0, 0, 0, 0, 0]


def test_class_weights_follow_their_classes(monkeypatch):
    made = make_source(class_weights=tuple(range(10)))
    monkeypatch.setattr(module, "open_source", lambda cfg, fold: made)
    assert study(0.5).class_weights == ANIMALS


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"known_classes": "bird,cta"}, "unknown class 'cta'; did you mean 'cat'"),
        ({"known_classes": "1"}, "1 of 10 classes would be known"),
        ({"known_classes": "10"}, "10 of 10 classes would be known"),
        ({"known_classes": "bird"}, "1 of 10 classes would be known"),
        ({"labels": None}, "no image of class 'deer' is left for the pool: use fewer labels"),
    ],
)
def test_a_study_that_cannot_be_made_is_refused(options, message):
    with pytest.raises(UserError, match=message):
        study(0.5, **options)


def test_known_classes_alone_are_refused():
    with pytest.raises(UserError, match="known_classes has a meaning with out_of_class only"):
        load(DataConfig(known_classes="4"), labels=60, fold=0)


def test_a_data_set_with_its_own_pool_is_refused(monkeypatch):
    rows = FixedRows(torch.arange(20), torch.arange(20, 30))
    monkeypatch.setattr(module, "open_source", lambda cfg, fold: make_source(fixed=rows))
    with pytest.raises(UserError, match="comes with its own uncurated pool"):
        study(0.5)


@pytest.mark.parametrize("share", [-0.1, 1.1, float("nan")])
def test_a_share_that_is_none_is_refused(share):
    with pytest.raises(UserError, match="out_of_class must be >= 0 and <= 1"):
        DataConfig(out_of_class=share)
