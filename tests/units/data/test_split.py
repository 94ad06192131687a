import pytest
import torch

from interlude.data import DataConfig, SplitRecord, load
from interlude.data import split as module
from interlude.data.images import Images
from interlude.data.source import Source
from interlude.errors import UserError

NUM_LABELED, NUM_OTHER = 60, 15


def make_source():
    """Sixty images in three classes, fifteen without label, of which rows 62 and 63 are test images."""
    generator = torch.Generator().manual_seed(0)
    pixels = torch.randint(0, 256, (NUM_LABELED + NUM_OTHER, 1, 4, 4), dtype=torch.uint8, generator=generator)
    labels = torch.cat([torch.arange(NUM_LABELED) % 3, torch.full((NUM_OTHER,), -1)])
    test = torch.randint(0, 256, (9, 1, 4, 4), dtype=torch.uint8, generator=generator)
    other_test = test.flip(-1)
    pixels[62], pixels[63] = test[4], other_test[8]
    pixels[7] = test[0]  # a labeled image: not ours to remove
    tests = {"here": Images(test, torch.arange(9) % 3), "elsewhere": Images(other_test, torch.arange(9) % 3)}
    names = ("ant", "bee", "cow")
    return Source(Images(pixels, labels), tests, num_classes=3, class_names=names, mean=(0.5,), std=(0.3,))


@pytest.fixture(autouse=True)
def source(monkeypatch):
    """The source that `load` finds under any name."""
    made = make_source()
    monkeypatch.setattr(module, "open_source", lambda cfg, fold: made)
    return made


def rows(images):
    return set(images.rows.tolist())


def test_the_pool_holds_everything_but_duplicates():
    split = load(DataConfig(), labels=6, fold=0)
    assert rows(split.unlabeled) == set(range(75)) - {62, 63}


def test_labeled_images_leave_the_pool_when_asked():
    split = load(DataConfig(include_labeled=False), labels=6, fold=0)
    assert rows(split.unlabeled) == set(range(75)) - {62, 63} - rows(split.labeled)


def test_validation_images_leave_every_other_part():
    split = load(DataConfig(validation=0.2), labels=6, fold=0)
    assert len(split.validation) == 12
    assert not rows(split.validation) & (rows(split.labeled) | rows(split.unlabeled))


def test_without_validation_there_is_none():
    assert load(DataConfig(), labels=6, fold=0).validation is None


def test_dropped_duplicates_are_told():
    notes = load(DataConfig(), labels=6, fold=0).notes
    assert notes == ("dropped 2 unlabeled images that are byte-identical to test images",)


def test_kept_duplicates_are_told_too():
    split = load(DataConfig(keep_test_duplicates=True), labels=6, fold=0)
    assert {62, 63} <= rows(split.unlabeled)
    assert split.notes == ("kept 2 unlabeled images that are byte-identical to test images",)


def test_uneven_labels_are_told():
    assert any(
        note.startswith("10 labels over 3 classes: ") for note in load(DataConfig(), labels=10, fold=0).notes
    )


def test_all_labels_are_used_when_no_number_is_given():
    assert rows(load(DataConfig(), labels=None, fold=0).labeled) == set(range(60))


def test_the_upper_bound_uses_all_labels_but_those_of_validation():
    split = load(DataConfig(validation=12), labels=6, fold=0, all_labels=True)
    assert rows(split.labeled) == set(range(60)) - rows(split.validation)


def test_the_address_may_say_labels_and_fold():
    split = load(DataConfig(name="anything@6/fold2"), labels=None, fold=0)
    assert split.record == load(DataConfig(name="anything"), labels=6, fold=2).record


def test_the_record_names_the_data_without_its_folder():
    assert (
        load(DataConfig(name="npz:/home/me/cells.npz@6"), labels=None, fold=0).record.data == "npz:cells.npz"
    )


def test_the_record_tells_what_was_chosen(source):
    record = load(DataConfig(validation=12), labels=6, fold=3).record
    assert (record.labels, record.fold, record.data) == (6, 3, "digits")
    assert record.sizes == {"train": 75, "here": 9, "elsewhere": 9}
    assert record.content_hash == source.content_hash()


def test_scaling_changes_the_images_and_not_the_split():
    small, scaled = (load(DataConfig(image_size=size, validation=3), labels=6, fold=0) for size in (None, 8))
    for images in (scaled.labeled, scaled.unlabeled, scaled.validation, *scaled.tests.values()):
        assert images.image_size == (8, 8)
    assert scaled.record == small.record


def test_a_record_is_followed_and_nothing_is_drawn():
    record = SplitRecord(labeled=(1, 2, 3), validation=(4, 5))
    split = load(DataConfig(validation=0.2), labels=6, fold=1, record=record)
    assert rows(split.labeled) == {1, 2, 3}
    assert rows(split.validation) == {4, 5}


def test_a_split_file_is_followed(tmp_path):
    chosen = load(DataConfig(), labels=9, fold=4).record
    chosen.to_json(tmp_path / "split.json")
    split = load(DataConfig(split=str(tmp_path / "split.json")), labels=None, fold=0)
    assert split.record == chosen


def test_a_split_file_by_hand_needs_rows_only(tmp_path):
    (tmp_path / "mine.json").write_text('{"labeled": [4, 3, 2]}')
    split = load(DataConfig(split=str(tmp_path / "mine.json")), labels=None, fold=0)
    assert split.labeled.rows.tolist() == [2, 3, 4]
    assert split.record.content_hash


def test_a_run_goes_on_without_the_split_file_it_began_with():
    cfg = DataConfig(split="/gone/split.json")
    assert load(cfg, labels=None, fold=0, record=SplitRecord(labeled=(1, 2, 3))).record.labels == 3


def test_the_upper_bound_keeps_the_validation_of_a_split_file(tmp_path):
    (tmp_path / "mine.json").write_text('{"labeled": [4, 3, 2], "validation": [10, 11]}')
    split = load(DataConfig(split=str(tmp_path / "mine.json")), labels=3, fold=0, all_labels=True)
    assert rows(split.labeled) == set(range(60)) - {10, 11}


@pytest.mark.parametrize(
    ("record", "message"),
    [
        (SplitRecord((1, 75)), "labeled row 75 is outside the 75 training images"),
        (SplitRecord((-1, 2)), "labeled row -1 is outside"),
        (SplitRecord((1, 1)), "row 1 is listed as labeled and again as labeled"),
        (SplitRecord((1, 2), (2, 3)), "row 2 is listed as labeled and again as validation"),
        (SplitRecord((1, 61)), "labeled row 61 is an image without a label"),
        (SplitRecord((1,), (61,)), "validation row 61 is an image without a label"),
        (SplitRecord((1,), content_hash="0123456789"), "made for other data .content 01234567"),
        (SplitRecord(()), "lists no labeled images"),
    ],
)
def test_a_record_that_does_not_fit_is_refused(record, message):
    with pytest.raises(UserError, match=message) as caught:
        load(DataConfig(), labels=None, fold=0, record=record)
    assert "\n" not in str(caught.value)


def test_a_split_file_with_another_number_of_labels_is_refused(tmp_path):
    (tmp_path / "mine.json").write_text('{"labeled": [4, 3, 2]}')
    with pytest.raises(UserError, match="has 3 labeled images, but 6 labels"):
        load(DataConfig(split=str(tmp_path / "mine.json")), labels=6, fold=0)


def test_a_split_file_without_validation_is_refused_where_some_is_asked(tmp_path):
    (tmp_path / "mine.json").write_text('{"labeled": [4, 3, 2]}')
    with pytest.raises(UserError, match="sets no validation images aside"):
        load(DataConfig(split=str(tmp_path / "mine.json"), validation=0.1), labels=3, fold=0)


@pytest.mark.parametrize("value", [-1, float("nan"), float("inf")])
def test_a_validation_that_is_no_number_of_images_is_refused(value):
    with pytest.raises(UserError, match="validation must be >= 0"):
        DataConfig(validation=value)


def pools(number, *, labels=6, folds=range(3), **options):
    return [load(DataConfig(pool=number, **options), labels=labels, fold=fold) for fold in folds]


def test_a_bounded_pool_has_that_size_and_holds_the_labeled_images():
    for split in pools(30):
        assert len(split.unlabeled) == 30
        assert rows(split.labeled) <= rows(split.unlabeled)
        assert not rows(split.unlabeled) & {62, 63}, "test images came in"


def test_a_bounded_pool_without_labeled_images_has_that_size_too():
    for split in pools(30, include_labeled=False):
        assert len(split.unlabeled) == 30
        assert not rows(split.labeled) & rows(split.unlabeled)


def test_a_bounded_pool_is_nearly_the_same_in_every_fold():
    first, *others = (rows(split.unlabeled) for split in pools(30))
    assert all(len(first - other) <= 6 for other in others)


def test_a_bounded_pool_is_drawn_at_random():
    (split,) = pools(30, folds=[0])
    assert rows(split.unlabeled) != set(range(30)) | rows(split.labeled)
    assert max(rows(split.unlabeled)) > 40


def test_a_smaller_pool_is_part_of_a_larger_one():
    (small,), (large,) = pools(20, folds=[0]), pools(40, folds=[0])
    assert rows(small.unlabeled) < rows(large.unlabeled)


def test_a_bounded_pool_is_in_the_record_and_is_followed(tmp_path):
    (split,) = pools(30, folds=[1])
    split.record.to_json(tmp_path / "split.json")
    record = SplitRecord.from_json(tmp_path / "split.json")
    again = load(DataConfig(pool=30), labels=6, fold=1, record=record)
    assert rows(again.unlabeled) == rows(split.unlabeled)
    assert again.record.split_hash == split.record.split_hash
    assert split.record.split_hash != load(DataConfig(), labels=6, fold=1).record.split_hash


def test_a_split_file_with_another_pool_is_refused(tmp_path):
    (split,) = pools(30, folds=[1])
    split.record.to_json(tmp_path / "split.json")
    with pytest.raises(UserError, match="has a pool of 30 images, not of 20"):
        load(DataConfig(pool=20, split=str(tmp_path / "split.json")), labels=6, fold=1)


def test_the_upper_bound_may_have_more_labels_than_the_pool_has_images():
    split = load(DataConfig(pool=10), labels=6, fold=0, all_labels=True)
    assert (len(split.labeled), len(split.unlabeled)) == (60, 10)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"pool": 74}, "pool=74 is more than the 73 unlabeled images there are"),
        ({"pool": 5}, "pool=5 has no room for the 6 labeled images"),
        ({"pool": 20, "out_of_class": 0.5, "known_classes": "2"}, "leave pool unset"),
    ],
)
def test_a_pool_that_cannot_be_is_refused(options, message):
    with pytest.raises(UserError, match=message):
        load(DataConfig(**options), labels=6, fold=0)
