"""Small files in the formats of the published data sets, so that the real readers run without a network."""

import gzip
import pickle
import tarfile
from hashlib import md5
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from interlude.compat import prepare_torchvision

TRAIN_PER_CLASS, TEST_PER_CLASS, UNLABELED = 6, 2, 12


def write_small(name: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Write a data set into `folder` and teach torchvision its checksums; returns the arrays written."""
    prepare_torchvision()
    return WRITERS[name](folder, monkeypatch)


def draw(count: int, shape: tuple[int, ...], num_classes: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Images and labels, `count` of each class in mixed order."""
    random = np.random.default_rng(seed)
    labels = random.permutation(np.repeat(np.arange(num_classes), count))
    return random.integers(0, 256, (len(labels), *shape), dtype=np.uint8), labels


def arrays(shape: tuple[int, ...], num_classes: int = 10) -> dict[str, np.ndarray]:
    """Training and test images as every writer uses them."""
    x_train, y_train = draw(TRAIN_PER_CLASS, shape, num_classes, seed=1)
    x_test, y_test = draw(TEST_PER_CLASS, shape, num_classes, seed=2)
    return {"x_train": x_train, "y_train": y_train, "x_test": x_test, "y_test": y_test}


def checksum(path: Path) -> str:
    return md5(path.read_bytes()).hexdigest()


def pack(folder: Path, inner: str, archive: str) -> str:
    """Put the folder `inner` into a tar.gz beside it."""
    with tarfile.open(folder / archive, "w:gz") as file:
        file.add(folder / inner, arcname=inner)
    return checksum(folder / archive)


def write_idx(path: Path, array: np.ndarray) -> None:
    header = bytes([0, 0, 8, array.ndim]) + b"".join(size.to_bytes(4, "big") for size in array.shape)
    path.write_bytes(header + array.astype(np.uint8).tobytes())


def mnist_like(kind_name: str):
    def write(folder: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
        from torchvision import datasets

        data = arrays((28, 28))
        raw = folder / kind_name / "raw"
        raw.mkdir(parents=True)
        resources = []
        for part, prefix in (("train", "train"), ("test", "t10k")):
            for key, kind in ((f"x_{part}", "images-idx3"), (f"y_{part}", "labels-idx1")):
                path = raw / f"{prefix}-{kind}-ubyte"
                write_idx(path, data[key])
                packed = path.with_name(f"{path.name}.gz")
                packed.write_bytes(gzip.compress(path.read_bytes()))
                resources.append((packed.name, checksum(packed)))
        monkeypatch.setattr(getattr(datasets, kind_name), "resources", resources)
        return data | {"x_train": data["x_train"][:, None], "x_test": data["x_test"][:, None]}

    return write


def svhn(folder: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    from scipy.io import savemat
    from torchvision.datasets import SVHN

    data = arrays((3, 32, 32))
    folder.mkdir(parents=True, exist_ok=True)
    split_list = dict(SVHN.split_list)
    for part in ("train", "test"):
        path = folder / f"{part}_32x32.mat"
        labels = np.where(data[f"y_{part}"] == 0, 10, data[f"y_{part}"]).astype(np.uint8)
        savemat(path, {"X": data[f"x_{part}"].transpose(2, 3, 1, 0), "y": labels[:, None]})
        split_list[part] = [SVHN.split_list[part][0], path.name, checksum(path)]
    monkeypatch.setattr(SVHN, "split_list", split_list)
    return data


def cifar(kind_name: str, num_classes: int, label_key: str, meta_key: str, batches: list[str]):
    def write(folder: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
        from torchvision import datasets

        kind = getattr(datasets, kind_name)
        data = arrays((3, 32, 32), num_classes)
        inner = folder / kind.base_folder
        inner.mkdir(parents=True)
        parts = np.array_split(np.arange(len(data["y_train"])), len(batches))
        contents = {
            name: {
                "data": data["x_train"][rows].reshape(len(rows), -1),
                label_key: data["y_train"][rows].tolist(),
            }
            for name, rows in zip(batches, parts, strict=True)
        }
        test_name = kind.test_list[0][0]
        flat = data["x_test"].reshape(len(data["x_test"]), -1)
        contents[test_name] = {"data": flat, label_key: data["y_test"].tolist()}
        contents[kind.meta["filename"]] = {meta_key: [f"class {label}" for label in range(num_classes)]}
        sums = {}
        for name, content in contents.items():
            (inner / name).write_bytes(pickle.dumps(content))
            sums[name] = checksum(inner / name)
        monkeypatch.setattr(kind, "train_list", [[name, sums[name]] for name in batches])
        monkeypatch.setattr(kind, "test_list", [[test_name, sums[test_name]]])
        monkeypatch.setattr(kind, "meta", kind.meta | {"md5": sums[kind.meta["filename"]]})
        monkeypatch.setattr(kind, "tgz_md5", pack(folder, kind.base_folder, kind.filename))
        return data

    return write


def stl10(folder: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Three of the unlabeled images are test images, as in the real files."""
    from torchvision.datasets import STL10

    data = arrays((3, 96, 96))
    data["x_unlabeled"] = draw(UNLABELED, (3, 96, 96), 1, seed=3)[0]
    data["x_unlabeled"][[2, 5, 7]] = data["x_test"][[0, 1, 1]]
    inner = folder / STL10.base_folder
    inner.mkdir(parents=True)
    for part in ("train", "test", "unlabeled"):
        data[f"x_{part}"].swapaxes(2, 3).tofile(inner / f"{part}_X.bin")
        if part != "unlabeled":
            (data[f"y_{part}"] + 1).astype(np.uint8).tofile(inner / f"{part}_y.bin")
    for attribute in ("train_list", "test_list"):
        files = [[name, checksum(inner / name)] for name, _ in getattr(STL10, attribute)]
        monkeypatch.setattr(STL10, attribute, files)
    monkeypatch.setattr(STL10, "tgz_md5", pack(folder, STL10.base_folder, STL10.filename))
    return data


WRITERS = {
    "mnist": mnist_like("MNIST"),
    "fashion-mnist": mnist_like("FashionMNIST"),
    "svhn": svhn,
    "cifar10": cifar(
        "CIFAR10", 10, "labels", "label_names", [f"data_batch_{number}" for number in range(1, 6)]
    ),
    "cifar100": cifar("CIFAR100", 100, "fine_labels", "fine_label_names", ["train"]),
    "stl10": stl10,
}
