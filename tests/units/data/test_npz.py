import numpy as np
import pytest
import torch

from interlude.data.options import DataConfig
from interlude.data.source import open_source
from interlude.errors import UserError

NUM_TRAIN, NUM_TEST = 24, 8


def open_npz(path):
    return open_source(DataConfig(name=f"npz:{path}"))


def pixels(count, *shape):
    return np.random.default_rng(0).integers(0, 256, (count, *shape), dtype=np.uint8)


@pytest.mark.parametrize(
    ("shape", "channels_first"),
    [
        ((5, 7), (1, 5, 7)),
        ((5, 7, 1), (1, 5, 7)),
        ((5, 7, 3), (3, 5, 7)),
        ((3, 5, 7), (3, 5, 7)),
        ((1, 5, 7), (1, 5, 7)),
    ],
)
def test_every_layout_becomes_channels_first(npz_file, shape, channels_first):
    x_train = pixels(NUM_TRAIN, *shape)
    train = open_npz(npz_file(x_train=x_train, x_test=pixels(NUM_TEST, *shape))).train
    assert train.pixels.shape == (NUM_TRAIN, *channels_first)
    expected = (
        np.moveaxis(x_train, -1, 1) if shape[-1] in (1, 3) else x_train.reshape(NUM_TRAIN, *channels_first)
    )
    assert np.array_equal(train.pixels.numpy(), expected)


def test_unlabeled_images_follow_the_training_images(npz_file):
    x_unlabeled = pixels(3, 5, 7, 3)
    train = open_npz(npz_file(x_unlabeled=x_unlabeled)).train
    assert len(train) == NUM_TRAIN + 3
    assert train.labels[NUM_TRAIN:].tolist() == [-1, -1, -1]
    assert np.array_equal(train.pixels[NUM_TRAIN:].numpy(), x_unlabeled.transpose(0, 3, 1, 2))


def test_training_labels_may_be_missing_here_and_there(npz_file):
    y_train = np.arange(NUM_TRAIN) % 4
    y_train[::2] = -1
    assert (open_npz(npz_file(y_train=y_train)).train.labels == -1).sum() == NUM_TRAIN // 2


def test_labels_in_a_column_are_labels(npz_file):
    y_train = np.arange(NUM_TRAIN)[:, None] % 4
    assert open_npz(npz_file(y_train=y_train)).train.labels.tolist() == y_train[:, 0].tolist()


def test_classes_get_their_names(npz_file):
    names = np.array(["ant", "bee", "cow", "dog", "elk"])
    source = open_npz(npz_file(classes=names))
    assert source.class_names == tuple(names)
    assert source.num_classes == 5


def test_classes_without_names_are_counted_over_all_labels(npz_file):
    y_test = np.zeros(NUM_TEST, dtype=np.int64)
    y_test[3] = 6
    assert open_npz(npz_file(y_test=y_test)).class_names == tuple("0123456")


def test_mean_and_deviation_are_those_of_the_training_images(npz_file):
    source = open_npz(npz_file())
    values = source.train.pixels.double() / 255
    assert source.mean == pytest.approx(values.mean((0, 2, 3)).tolist())
    assert source.std == pytest.approx(values.std((0, 2, 3), correction=0).tolist())


def test_compressed_files_are_the_same_data(npz_file):
    path = npz_file()
    plain = open_npz(path).content_hash()
    with np.load(path) as file:
        np.savez_compressed(path, **file)
    assert open_npz(path).content_hash() == plain


def test_a_home_folder_is_understood(npz_file, monkeypatch):
    path = npz_file()
    monkeypatch.setenv("HOME", str(path.parent))
    assert len(open_npz("~/small.npz").train) == NUM_TRAIN


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"y_test": None, "x_test": None}, "x_test, y_test missing; it has x_train, y_train"),
        ({"x_unlabelled": pixels(3, 5, 7, 3)}, "unknown array 'x_unlabelled'; did you mean 'x_unlabeled'"),
        ({"x_train": pixels(NUM_TRAIN, 5, 7, 3) / 255}, "x_train must be uint8 .* got float64; convert"),
        ({"x_train": np.full((NUM_TRAIN, 5, 7, 3), np.nan)}, "x_train must be uint8 .* got float64 with NaN"),
        ({"x_test": pixels(NUM_TEST, 5, 7, 3).astype(np.int64)}, "x_test must be uint8 .* got int64"),
        ({"x_train": pixels(NUM_TRAIN, 5)}, r"x_train must be \(N, H, W\), .* got shape \(24, 5\)"),
        ({"x_train": pixels(NUM_TRAIN, 5, 7, 4)}, "x_train must be .* got shape"),
        ({"x_test": pixels(NUM_TEST, 9, 7, 3)}, "x_train and x_test have images of different sizes"),
        ({"x_test": pixels(NUM_TEST, 5, 7)}, "x_train and x_test have images of different sizes"),
        ({"x_unlabeled": pixels(2, 5, 5, 3)}, "x_train and x_unlabeled have images of different sizes"),
        ({"x_train": pixels(0, 5, 7, 3), "y_train": np.zeros(0, int)}, "x_train has no images"),
        ({"x_test": pixels(0, 5, 7, 3), "y_test": np.zeros(0, int)}, "x_test has no images"),
        (
            {"x_train": pixels(NUM_TRAIN - 1, 5, 7, 3)},
            r"y_train has shape \(24,\), but x_train has 23 images",
        ),
        ({"y_test": np.zeros(3, int)}, r"y_test has shape \(3,\), but x_test has 8 images"),
        ({"y_train": np.eye(NUM_TRAIN, dtype=int)}, r"y_train has shape \(24, 24\)"),
        ({"y_train": np.zeros(NUM_TRAIN)}, "y_train must hold integers"),
        ({"y_train": np.array(["cat"] * NUM_TRAIN)}, "y_train must hold integers"),
        ({"y_train": np.full(NUM_TRAIN, -1)}, "y_train has no label at all"),
        ({"y_train": np.full(NUM_TRAIN, -2)}, r"y_train has the label -2, .* 0 to 3 \(-1: no label\)"),
        ({"y_test": np.full(NUM_TEST, -1)}, "y_test has the label -1, but labels run from 0 to 3"),
        ({"classes": np.array(["a", "b"])}, "y_train has the label [23], but labels run from 0 to 1"),
        ({"classes": np.array([["a", "b"]])}, "classes must be a list of names"),
        ({"y_train": np.zeros(NUM_TRAIN, int), "y_test": np.zeros(NUM_TEST, int)}, "at least two classes"),
        ({"y_train": np.array([{}] * NUM_TRAIN)}, "y_train holds Python objects"),
    ],
)
def test_an_array_that_cannot_be_used_is_named(npz_file, changes, message):
    with pytest.raises(UserError, match=message) as caught:
        open_npz(npz_file(**changes))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("keep", [0, 1, 100, 0.5, 0.9])
def test_a_truncated_file_is_an_error(npz_file, keep):
    path = npz_file()
    content = path.read_bytes()
    path.write_bytes(content[: keep if isinstance(keep, int) else int(keep * len(content))])
    with pytest.raises(UserError, match="cannot be read"):
        open_npz(path)


def test_a_flipped_bit_is_an_error(npz_file):
    path = npz_file()
    content = bytearray(path.read_bytes())
    content[len(content) // 4] ^= 4
    path.write_bytes(content)
    with pytest.raises(UserError, match="x_train cannot be read"):
        open_npz(path)


def test_other_files_are_errors(tmp_path):
    (tmp_path / "text.npz").write_text("not an archive")
    np.save(tmp_path / "one.npy", np.zeros(3))
    torch.save({"x": 1}, tmp_path / "weights.pt")
    for name, message in (
        ("text.npz", "cannot be read"),
        ("one.npy", "holds a single array"),
        ("weights.pt", "x_train, y_train, x_test, y_test missing"),
        ("nowhere.npz", "no such file"),
        (".", "cannot be read"),
        ("", "npz:FILE"),
    ):
        with pytest.raises(UserError, match=message):
            open_npz(tmp_path / name if name else "")
