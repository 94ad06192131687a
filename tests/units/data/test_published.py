from urllib.error import URLError

import numpy as np
import pytest
import torch

from interlude.data.options import DataConfig
from interlude.data.source import open_source
from interlude.data.split import load
from interlude.errors import UserError

NAMES = ["mnist", "fashion-mnist", "svhn", "cifar10", "cifar100", "stl10"]
ARCHIVES = {
    "mnist": "MNIST/raw/train-images-idx3-ubyte.gz",
    "fashion-mnist": "FashionMNIST/raw/train-images-idx3-ubyte.gz",
    "svhn": "train_32x32.mat",
    "cifar10": "cifar-10-python.tar.gz",
    "cifar100": "cifar-100-python.tar.gz",
    "stl10": "stl10_binary.tar.gz",
}
UNPACKED = {
    "mnist": "MNIST/raw/train-images-idx3-ubyte",
    "fashion-mnist": "FashionMNIST/raw/train-images-idx3-ubyte",
    "cifar10": "cifar-10-batches-py/data_batch_3",
    "cifar100": "cifar-100-python/train",
    "stl10": "stl10_binary/unlabeled_X.bin",
}


@pytest.fixture(autouse=True)
def requests(monkeypatch):
    """Cut the network; returns the list of addresses that were asked for."""
    asked = []

    def refuse(request, *_, **__):
        asked.append(request.full_url)
        raise URLError("no route to host")

    monkeypatch.setattr("urllib.request.urlopen", refuse)
    return asked


def settings(name, root, **options):
    return DataConfig(name=name, root=str(root), **options)


@pytest.mark.parametrize("name", NAMES)
def test_images_and_labels_are_those_in_the_files(small, tmp_path, requests, name):
    data = small(name)
    source = open_source(settings(name, tmp_path))
    num_labeled = len(data["y_train"])
    assert np.array_equal(source.train.pixels[:num_labeled].numpy(), data["x_train"])
    assert source.train.labels[:num_labeled].tolist() == data["y_train"].tolist()
    assert np.array_equal(source.tests["test"].pixels.numpy(), data["x_test"])
    assert source.tests["test"].labels.tolist() == data["y_test"].tolist()
    assert source.num_classes == (100 if name == "cifar100" else 10)
    assert not requests, "files that are here must not be fetched"


def test_images_without_label_follow_in_the_same_tensor(small, tmp_path):
    data = small("stl10")
    train = open_source(settings("stl10", tmp_path)).train
    assert np.array_equal(train.pixels[60:].numpy(), data["x_unlabeled"])
    assert (train.labels[60:] == -1).all()


def test_unlabeled_copies_of_test_images_are_dropped(small, tmp_path):
    small("stl10")
    split = load(settings("stl10", tmp_path), labels=20, fold=0)
    dropped = set(range(72)) - set(split.unlabeled.rows.tolist())
    assert dropped == {62, 65, 67}
    assert split.notes == ("dropped 3 unlabeled images that are byte-identical to test images",)


def test_an_open_set_study_of_cifar10_knows_the_animals(small, tmp_path):
    small("cifar10")
    split = load(settings("cifar10", tmp_path, out_of_class=0.5), labels=6, fold=0)
    assert split.class_names == tuple(f"class {label}" for label in (2, 3, 4, 5, 6, 7))


@pytest.mark.parametrize("name", sorted(UNPACKED))
@pytest.mark.parametrize("download", [True, False])
def test_an_archive_is_unpacked_without_a_network(small, tmp_path, requests, name, download):
    data = small(name)
    (tmp_path / UNPACKED[name]).unlink()
    source = open_source(settings(name, tmp_path, download=download))
    assert np.array_equal(source.train.pixels[: len(data["x_train"])].numpy(), data["x_train"])
    assert not requests


@pytest.mark.parametrize("name", sorted(UNPACKED))
def test_a_damaged_unpacked_file_is_unpacked_again(small, tmp_path, requests, name):
    data = small(name)
    path = tmp_path / UNPACKED[name]
    path.write_bytes(path.read_bytes()[:-100])
    source = open_source(settings(name, tmp_path))
    assert np.array_equal(source.train.pixels[: len(data["x_train"])].numpy(), data["x_train"])
    assert not requests


@pytest.mark.parametrize("name", NAMES)
def test_without_network_the_error_says_what_to_put_where(tmp_path, name):
    with pytest.raises(UserError) as caught:
        open_source(settings(name, tmp_path))
    message = str(caught.value)
    archive = tmp_path / ARCHIVES[name]
    assert f"cannot open {name}: it is not on this machine" in message
    assert "no route to host" in message
    assert archive.name in message
    assert f"into {archive.parent} " in message
    assert "INTERLUDE_DATA" in message
    assert "--data.root" in message
    assert "\n" not in message


@pytest.mark.parametrize("name", NAMES)
def test_a_half_downloaded_archive_is_fetched_again_and_named_if_that_fails(small, tmp_path, requests, name):
    small(name)
    archive = tmp_path / ARCHIVES[name]
    archive.write_bytes(archive.read_bytes()[:1000])
    if name in UNPACKED:
        (tmp_path / UNPACKED[name]).unlink()
    with pytest.raises(
        UserError, match=f"{archive.name} in {archive.parent} is damaged and the download failed"
    ):
        open_source(settings(name, tmp_path))
    assert any(address.endswith(archive.name) for address in requests), requests


def test_a_damaged_file_is_replaced_by_the_download(small, tmp_path, monkeypatch):
    data = small("svhn")
    path = tmp_path / "train_32x32.mat"
    whole = path.read_bytes()
    path.write_bytes(whole[:1000])
    monkeypatch.setattr("torchvision.datasets.utils._get_redirect_url", lambda url, max_hops: url)
    monkeypatch.setattr("torchvision.datasets.utils._urlretrieve", lambda url, file: path.write_bytes(whole))
    source = open_source(settings("svhn", tmp_path))
    assert np.array_equal(source.train.pixels.numpy(), data["x_train"])


def test_a_damaged_unpacked_file_without_archive_is_named(small, tmp_path):
    small("mnist")
    for archive in tmp_path.rglob("*.gz"):
        archive.unlink()
    path = tmp_path / UNPACKED["mnist"]
    path.write_bytes(path.read_bytes()[:500])
    with pytest.raises(UserError, match=f"{path.name} in {path.parent} is damaged"):
        open_source(settings("mnist", tmp_path))


def test_a_whole_archive_is_not_called_damaged(small, tmp_path):
    small("cifar10")
    (tmp_path / "cifar-10-batches-py" / "batches.meta").unlink()  # torchvision does not unpack this one again
    with pytest.raises(UserError, match=f"cannot unpack cifar10 in {tmp_path} .*; delete what is unpacked"):
        open_source(settings("cifar10", tmp_path))


def test_nothing_is_fetched_when_download_is_off(tmp_path, requests):
    with pytest.raises(UserError, match="download is off"):
        open_source(settings("cifar10", tmp_path, download=False))
    assert not requests


def test_the_folder_may_come_from_the_environment(small, tmp_path, monkeypatch):
    small("svhn")
    monkeypatch.setenv("INTERLUDE_DATA", str(tmp_path))
    assert len(open_source(DataConfig(name="svhn")).train) == 60


def test_a_folder_that_cannot_be_written_is_an_error(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="cannot open cifar10"):
        open_source(settings("cifar10", tmp_path / "file"))


def test_pixels_can_be_indexed_fast(small, tmp_path):
    for name in ("cifar10", "svhn", "stl10"):
        small(name)
        assert open_source(settings(name, tmp_path)).train.pixels.is_contiguous(), name


def test_house_number_zero_has_label_zero(small, tmp_path):
    small("svhn")
    assert open_source(settings("svhn", tmp_path)).train.labels.unique().tolist() == torch.arange(10).tolist()
