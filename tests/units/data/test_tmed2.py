"""The Heart2Heart benchmark, from small files laid out as its three data sets are."""

import json
import pickle
import shutil
from pathlib import Path

import numpy as np
import pytest
import small_files
import torch

from interlude.data import DataConfig, SplitRecord, load
from interlude.data.metaimage import Picture
from interlude.data.source import open_source
from interlude.data.sources.camus import camus, with_square_pixels
from interlude.data.sources.tmed2 import class_weights
from interlude.data.sources.unity import unity
from interlude.errors import UserError

VECTORS = Path(__file__).parents[2] / "data" / "vectors.json"
TABLE = "DEV56/TMED2_fold0_labeledpart.csv"


@pytest.fixture
def data(tmp_path):
    """The PNG files of TMED-2, and what is in them."""
    return small_files.tmed2(tmp_path)


@pytest.fixture
def arrays(tmp_path, data):
    """The prepared arrays alone, and what is in them."""
    shutil.rmtree(tmp_path / "tmed2")
    small_files.tmed2_arrays(tmp_path, data)
    return data


def settings(root, **options):
    return DataConfig(name="tmed2", root=str(root), **options)


def same(images, part):
    pixels, labels = part
    rows = torch.arange(len(images))
    expected = np.stack([pixels] * 3, 1)
    return (
        np.array_equal(images.take(rows).numpy(), expected) and images.labels_of().tolist() == labels.tolist()
    )


@pytest.mark.parametrize("fold", [0, 1, 2])
def test_a_fold_has_the_images_that_its_table_says(data, tmp_path, fold):
    split = load(settings(tmp_path, include_labeled=False), labels=None, fold=fold)
    assert same(split.labeled, data["folds"][fold]["train"])
    assert same(split.validation, data["folds"][fold]["val"])
    assert same(split.tests["tmed2"], data["folds"][fold]["test"])
    assert same(split.unlabeled, (data["pool"], np.full(12, -1)))


def test_the_release_may_lie_in_the_folder_it_is_packed_in(data, tmp_path):
    direct = open_source(settings(tmp_path)).content_hash()
    (tmp_path / "tmed2").rename(tmp_path / "release")
    (tmp_path / "tmed2").mkdir()
    (tmp_path / "release").rename(tmp_path / "tmed2" / "approved_users_only")
    assert open_source(settings(tmp_path)).content_hash() == direct


def test_prepared_arrays_give_the_same_images(tmp_path, data):
    pictures = load(settings(tmp_path), labels=None, fold=1).record
    shutil.rmtree(tmp_path / "tmed2")
    small_files.tmed2_arrays(tmp_path, data)
    assert load(settings(tmp_path, trust_pickle=True), labels=None, fold=1).record == pictures


def test_arrays_saved_by_numpy_are_read_too(tmp_path, arrays):
    before = open_source(settings(tmp_path, trust_pickle=True)).content_hash()
    path = tmp_path / "tmed2/data_seed0/DEV56/train.npy"
    np.save(path, pickle.loads(path.read_bytes()), allow_pickle=True)
    assert open_source(settings(tmp_path, trust_pickle=True)).content_hash() == before


class Payload:
    """What an attacker might pickle."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return Path.touch, (self.path,)


def test_no_pickle_is_opened_without_trust(tmp_path, arrays):
    trace = tmp_path / "trace"
    for path in (tmp_path / "tmed2").rglob("*.npy"):
        path.write_bytes(pickle.dumps(Payload(trace)))
    with pytest.raises(UserError, match=r"pickle files, .* say --data\.trust-pickle"):
        open_source(settings(tmp_path))
    assert not trace.exists()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ([1, 2], "is no pickled dictionary of images and labels"),
        ({"pictures": 1}, "is no pickled dictionary"),
        (
            {"images": np.zeros((2, 64, 64, 3), np.uint8), "labels": [0, 1]},
            r"expected uint8 images .* got uint8",
        ),
        ({"images": np.zeros((2, 112, 112, 3), np.uint8), "labels": [0]}, "1 labels"),
        ({"images": np.zeros((2, 112, 112, 3), np.float32), "labels": [0, 1]}, "got float32"),
    ],
)
def test_arrays_of_another_form_are_refused(tmp_path, arrays, content, message):
    (tmp_path / "tmed2/data_seed0/DEV56/val.npy").write_bytes(pickle.dumps(content))
    with pytest.raises(UserError, match=message):
        open_source(settings(tmp_path, trust_pickle=True))


def test_arrays_in_colours_are_refused(tmp_path, arrays):
    images = np.zeros((1, 112, 112, 3), np.uint8)
    images[0, 5, 5, 1] = 9
    content = {"images": images, "labels": np.array([0])}
    (tmp_path / "tmed2/data_seed0/DEV56/val.npy").write_bytes(pickle.dumps(content))
    with pytest.raises(UserError, match="images in colours"):
        open_source(settings(tmp_path, trust_pickle=True))


def test_an_array_that_is_missing_is_named(tmp_path, arrays):
    (tmp_path / "tmed2/all_shared_unlabeledset/u_train.npy").unlink()
    with pytest.raises(UserError, match=r"u_train\.npy: no such file"):
        open_source(settings(tmp_path, trust_pickle=True))


def test_class_weights_are_those_of_the_authors():
    splits = json.loads(VECTORS.read_text())["h2h_constants"]["splits"].values()
    for split in splits:
        labels = np.repeat(np.arange(4), np.array(split["counts"], int))
        assert class_weights(labels) == pytest.approx(split["class_weights"], abs=0.00056)
        assert all(weight == round(weight, 3) for weight in class_weights(labels))


def test_the_weights_of_a_fold_are_of_its_labels(data, tmp_path):
    weights = load(settings(tmp_path), labels=None, fold=0).class_weights
    total = 1 / 5 + 1 / 2 + 1 / 4 + 1 / 3
    assert weights == tuple(round(1 / count / total, 3) for count in (5, 2, 4, 3))


def test_pixels_are_not_normalized(data, tmp_path):
    split = load(settings(tmp_path), labels=None, fold=0)
    assert (split.mean, split.std) == ((0, 0, 0), (1, 1, 1))


def test_the_other_hospitals_are_tests_where_they_are_there(data, tmp_path):
    small_files.camus(tmp_path)
    small_files.unity(tmp_path)
    split = load(settings(tmp_path), labels=None, fold=0)
    assert list(split.tests) == ["tmed2", "camus", "unity"]
    assert not any("not tested" in note for note in split.notes)


def test_what_differs_from_the_benchmark_is_told(data, tmp_path):
    small_files.camus(tmp_path)
    notes = " / ".join(load(settings(tmp_path), labels=None, fold=1).notes)
    assert "labeled images of fold 1: 14 images here, 1,660 in the benchmark" in notes
    assert "unlabeled pool: 12 images here, 353,500 in the benchmark" in notes
    assert "camus: 8 images here, 2,000 in the benchmark" in notes
    assert "not tested on unity" in notes


@pytest.mark.parametrize(("labels", "options"), [(8, {}), (None, {"validation": 0.1})])
def test_what_the_benchmark_fixes_cannot_be_chosen(data, tmp_path, labels, options):
    with pytest.raises(UserError, match="tmed2 comes with its own labeled and validation images"):
        load(settings(tmp_path, **options), labels=labels, fold=0)


def test_a_fold_that_is_not_there_is_refused(data, tmp_path):
    with pytest.raises(UserError, match="tmed2 has the folds 0 to 2, not 3"):
        load(settings(tmp_path), labels=None, fold=3)


def test_a_resumed_run_gets_the_same_fold(data, tmp_path):
    split = load(settings(tmp_path), labels=None, fold=2)
    split.record.to_json(tmp_path / "split.json")
    again = load(
        settings(tmp_path), labels=None, fold=2, record=SplitRecord.from_json(tmp_path / "split.json")
    )
    assert again.record == split.record


def test_data_that_are_missing_say_where_to_get_them(tmp_path):
    with pytest.raises(
        UserError, match=r"TMED-2 is not in .*tmed2: apply for access at https://tmed\.cs\.tufts"
    ) as error:
        open_source(settings(tmp_path))
    assert "\n" not in str(error.value)
    assert "DEV56" in str(error.value)


def change_table(root, old, new):
    path = root / "tmed2" / TABLE
    path.write_text(path.read_text().replace(old, new))


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("view_label", "view", "no column view_label; it has query_key, SourceFolder, view, diagnosis_label"),
        (",train,", ",training,", "'training' in view_classifier_split is none of train, val, test"),
        (",val,", ",train,", "there is no picture for val"),
        ("0s1_0.png", "0s1_99.png", r"1 of 31 pictures named in .* the first is .*0s1_99\.png"),
        ("PSAX", "A4CorA2CorOther", "no labeled image of the view PSAX"),
    ],
)
def test_a_table_that_does_not_fit_is_refused(data, tmp_path, old, new, message):
    change_table(tmp_path, old, new)
    with pytest.raises(UserError, match=message):
        open_source(settings(tmp_path))


def test_a_table_that_is_missing_is_named(data, tmp_path):
    (tmp_path / "tmed2" / TABLE).unlink()
    with pytest.raises(UserError, match=r"cannot read .*TMED2_fold0_labeledpart\.csv: No such file"):
        open_source(settings(tmp_path))


def test_a_pool_that_is_missing_is_named(data, tmp_path):
    shutil.rmtree(tmp_path / "tmed2/unlabeled_set")
    with pytest.raises(UserError, match="there is no picture for unlabeled_set"):
        open_source(settings(tmp_path))


def test_camus_has_two_frames_of_two_views_of_a_patient(tmp_path):
    small_files.camus(tmp_path)
    images = camus(tmp_path / "camus")
    assert images.labels_of().tolist() == [3, 3, 2, 2] * 2  # A2C, A4C
    expected = small_files.frame(7, 80, 40)[::2]  # lines come in equal pairs, so half of them are all
    assert np.array_equal(np.asarray(images.take(torch.tensor([0])))[0, 0], grown(expected))


def grown(pixels):
    """A square picture scaled up to the size of the benchmark."""
    image = small_files.Image.fromarray(pixels).resize((112, 112), small_files.Image.Resampling.BICUBIC)
    return np.asarray(image)


def test_a_line_of_square_pixels_is_made_of_the_nearest_two():
    pixels = np.array([[0], [10], [100], [200]], np.uint8)
    assert with_square_pixels(Picture(pixels, 0.2, 0.1)).tolist() == [[5], [150]]
    assert with_square_pixels(Picture(pixels, 0.1, 0.1)).tolist() == pixels.tolist()


def test_camus_without_frames_says_what_it_wants(tmp_path):
    (tmp_path / "patient0001_2CH_ED.nii.gz").touch()
    with pytest.raises(UserError, match=r"no patientNNNN_2CH_ED\.mhd .* \(NIfTI files are not read\)"):
        camus(tmp_path)


def test_unity_keeps_the_views_that_tmed2_has(tmp_path):
    small_files.unity(tmp_path)
    images = unity(tmp_path / "unity")
    assert images.labels_of().tolist() == [0, 2, 3, 0]
    assert not images.take(torch.tensor([0]))[:, :, 84:].any()  # 60 of 80 pixels high


def test_unity_files_may_have_a_prefix_or_not(tmp_path):
    small_files.unity(tmp_path)
    before = unity(tmp_path / "unity").content_hash()
    for path in list((tmp_path / "unity").rglob("*.png")):
        path.rename(path.with_name(path.name.removeprefix("01-")))
    assert unity(tmp_path / "unity").content_hash() == before


def test_a_unity_picture_that_is_missing_is_named(tmp_path):
    small_files.unity(tmp_path)
    next((tmp_path / "unity").rglob("01-0202*.png")).unlink()
    with pytest.raises(UserError, match=r"1 of 4 pictures named in .* the first is 01-0202"):
        unity(tmp_path / "unity")


def test_unity_with_other_views_alone_is_refused(tmp_path):
    small_files.write_csv(tmp_path / "view_index.csv", ("file", "view"), [("a.png", "a3c")])
    with pytest.raises(UserError, match="names no picture of the views PLAX, A4C, A2C"):
        unity(tmp_path)


def test_unity_without_its_table_is_refused(tmp_path):
    with pytest.raises(UserError, match=r"cannot read .*view_index\.csv"):
        unity(tmp_path)
