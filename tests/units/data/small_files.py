"""Small files in the formats of the published data sets, so that the real readers run without a network."""

import csv
import gzip
import pickle
import tarfile
from hashlib import md5
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

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


VIEWS = ("PLAX", "PSAX", "A4C", "A2C")
COUNTS = {"train": (5, 2, 4, 3), "val": (2, 2, 2, 2), "test": (3, 2, 2, 2)}  # of each view, in every fold
OTHER_VIEW = "A4CorA2CorOther"


def frame(seed: int, height: int = 112, width: int = 112) -> np.ndarray:
    """A grey picture of coarse squares, black and white among them."""
    coarse = np.random.default_rng(seed).integers(0, 256, (8, 8), dtype=np.uint8)
    coarse[0, :2] = 0, 255
    return np.kron(coarse, np.ones((-(-height // 8), -(-width // 8)), np.uint8))[:height, :width]


def write_csv(path: Path, columns: tuple[str, ...], rows: list[tuple[str, ...]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([columns, *rows])


def tmed2(folder: Path, monkeypatch: pytest.MonkeyPatch | None = None) -> dict[str, Any]:
    """The PNG + CSV release: in each fold other images of one cohort; returns the folds and the pool."""
    base = folder / "tmed2"
    sources = (
        "view_and_diagnosis_labeled_set/labeled",
        "view_labeled_set/labeled",
        "unlabeled_set/unlabeled",
    )
    for source in sources:
        (base / source).mkdir(parents=True)
    totals = [sum(counts) for counts in zip(*COUNTS.values(), strict=True)]
    cohort = {}  # view -> its pictures as (source folder, file, pixels)
    for label, view in enumerate([*VIEWS, OTHER_VIEW]):
        cohort[view] = []
        for number in range([*totals, 3][label]):
            source, file, pixels = sources[number % 2], f"{label}s1_{number}.png", frame(100 * label + number)
            Image.fromarray(pixels).save(base / source / file)
            cohort[view].append((source, file, pixels))
    pool = [frame(1000 + number) for number in range(UNLABELED)]
    for number, pixels in enumerate(pool):
        Image.fromarray(pixels).save(base / sources[2] / f"9{number:02}s1_0.png")
    folds = [write_fold(base, cohort, fold) for fold in range(3)]
    return {"folds": folds, "pool": np.stack(pool)}


def write_fold(base: Path, cohort: dict[str, Any], fold: int) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """The CSV file of a fold; returns pixels and labels of each part in the order of the file."""
    parts: dict[str, list[Any]] = {part: [] for part in COUNTS}
    rows = []
    for label, view in enumerate(VIEWS):
        order = np.roll(np.arange(len(cohort[view])), fold)
        for part, counts in COUNTS.items():
            chosen, order = order[: counts[label]], order[counts[label] :]
            for source, file, pixels in (cohort[view][index] for index in chosen):
                parts[part].append((pixels, label))
                rows.append((file, source, view, "no_AS", part, part))
    rows += [
        (file, source, OTHER_VIEW, "Not_Provided", part, part)
        for part, (source, file, _) in zip(COUNTS, cohort[OTHER_VIEW], strict=True)
    ]
    columns = ("query_key", "SourceFolder", "view_label", "diagnosis_label")
    columns += ("view_classifier_split", "diagnosis_classifier_split")
    write_csv(base / "DEV56" / f"TMED2_fold{fold}_labeledpart.csv", columns, rows)
    return {
        part: (np.stack([pixels for pixels, _ in rows]), np.array([label for _, label in rows]))
        for part, rows in parts.items()
    }


def tmed2_arrays(folder: Path, data: dict[str, Any]) -> None:
    """The prepared dictionaries of the same images, pickled as the benchmark's authors have them."""
    names = {"train": "DEV56/train", "val": "DEV56/val", "test": "this_seed_shared_testset/test"}
    files = {
        f"data_seed{fold}/{names[part]}.npy": content
        for fold, parts in enumerate(data["folds"])
        for part, content in parts.items()
    }
    files["all_shared_unlabeledset/u_train.npy"] = (data["pool"], np.full(len(data["pool"]), -1))
    for name, (pixels, labels) in files.items():
        path = folder / "tmed2" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(pickle.dumps({"images": np.stack([pixels] * 3, -1), "labels": labels}))


def write_metaimage(path: Path, pixels: np.ndarray, *, spacing: str = "0.3 0.3 1", **changes: str) -> None:
    """A header and its bytes; keyword arguments change lines of the header, None takes one away."""
    path.parent.mkdir(parents=True, exist_ok=True)
    depth = len(pixels) if pixels.ndim == 3 else 1
    header = {
        "ObjectType": "Image",
        "NDims": "3",
        "DimSize": f"{pixels.shape[-1]} {pixels.shape[-2]} {depth}",
        "ElementSpacing": spacing,
        "ElementType": "MET_UCHAR",
        "ElementDataFile": path.with_suffix(".raw").name,
    } | changes
    lines = [f"{key} = {value}" for key, value in header.items() if value is not None]
    path.write_text("\n".join(lines) + "\n")
    path.with_suffix(".raw").write_bytes(pixels.tobytes())


def camus(folder: Path) -> None:
    """Two patients, each with both views, their masks and a sequence."""
    for part, patient in (("training", "patient0001"), ("testing", "patient0001")):
        place = folder / "camus" / part / patient
        for view in ("2CH", "4CH"):
            for what in ("ED", "ES", "ED_gt", "ES_gt", "sequence"):
                write_metaimage(place / f"{patient}_{view}_{what}.mhd", frame(7, 80, 40), spacing="0.2 0.1 1")


def unity(folder: Path) -> None:
    """Five frames, one of them of a view that TMED-2 does not have."""
    rows = []
    for number, view in enumerate(("plax", "a4c", "a2c", "a3c", "PLAX")):
        code = f"{number:02}" * 32
        file = f"01-{code}-0000.png"
        path = folder / "unity" / "png-cache" / "01" / code[:2] / code[2:4] / file
        path.parent.mkdir(parents=True)
        Image.fromarray(frame(number, 60, 80)).save(path)
        rows.append((file, view))
    write_csv(folder / "unity" / "view_index.csv", ("file", "view"), rows)


WRITERS = {
    "mnist": mnist_like("MNIST"),
    "fashion-mnist": mnist_like("FashionMNIST"),
    "svhn": svhn,
    "cifar10": cifar(
        "CIFAR10", 10, "labels", "label_names", [f"data_batch_{number}" for number in range(1, 6)]
    ),
    "cifar100": cifar("CIFAR100", 100, "fine_labels", "fine_label_names", ["train"]),
    "stl10": stl10,
    "tmed2": tmed2,
}
