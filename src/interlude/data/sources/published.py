"""The published benchmarks that torchvision can fetch: digits, clothes, house numbers, CIFAR and STL-10."""

from collections.abc import Sequence
from dataclasses import replace
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import torch

from interlude.compat import prepare_torchvision
from interlude.data.download import Archive, fetch, root
from interlude.data.images import UNKNOWN, Images
from interlude.data.options import DataConfig
from interlude.data.source import Source, dataset

DIGITS = tuple(str(digit) for digit in range(10))
STL_CLASSES = ("airplane", "bird", "car", "cat", "deer", "dog", "horse", "monkey", "ship", "truck")
STL_SHAPE = (3, 96, 96)
ANIMALS = (2, 3, 4, 5, 6, 7)  # bird, cat, deer, dog, frog, horse: what Oliver et al. (2018) label of CIFAR-10


@dataset("mnist")
def mnist(cfg: DataConfig) -> Source:
    """handwritten digits, 60,000 + 10,000 grey images of 28x28"""
    return _mnist_like(cfg, "MNIST", DIGITS, mean=0.1307, std=0.3081)


@dataset("fashion-mnist")
def fashion_mnist(cfg: DataConfig) -> Source:
    """clothes, 60,000 + 10,000 grey images of 28x28"""
    return _mnist_like(cfg, "FashionMNIST", _torchvision("FashionMNIST").classes, mean=0.2860, std=0.3530)


@dataset("svhn")
def svhn(cfg: DataConfig) -> Source:
    """house numbers, 73,257 + 26,032 colour images of 32x32"""
    kind = _torchvision("SVHN")
    archives = [
        Archive(root(cfg), file, md5) for part, (_, file, md5) in kind.split_list.items() if part != "extra"
    ]
    train, test = fetch(kind, cfg, archives, [{"split": "train"}, {"split": "test"}])
    return _source(
        _images(train.data, train.labels),
        _images(test.data, test.labels),
        DIGITS,
        mean=(0.4377, 0.4438, 0.4728),
        std=(0.1980, 0.2010, 0.1970),
    )


@dataset("cifar10")
def cifar10(cfg: DataConfig) -> Source:
    """objects and animals in 10 classes, 50,000 + 10,000 colour images of 32x32"""
    source = _cifar(cfg, "CIFAR10", mean=(0.4914, 0.4822, 0.4465), std=(0.2471, 0.2435, 0.2616))
    return replace(source, known_classes=ANIMALS)


@dataset("cifar100")
def cifar100(cfg: DataConfig) -> Source:
    """objects and animals in 100 classes, 50,000 + 10,000 colour images of 32x32"""
    return _cifar(cfg, "CIFAR100", mean=(0.5071, 0.4867, 0.4408), std=(0.2675, 0.2565, 0.2761))


@dataset("stl10")
def stl10(cfg: DataConfig) -> Source:
    """objects and animals, 5,000 + 100,000 without label + 8,000 colour images of 96x96"""
    kind = _torchvision("STL10")
    archive = Archive(root(cfg), kind.filename, kind.tgz_md5)
    (test,) = fetch(kind, cfg, [archive], [{"split": "test"}])
    mean = tuple(value / 255 for value in (112.4, 109.1, 98.6))
    std = tuple(value / 255 for value in (68.4, 66.6, 68.5))
    train = _stl_train(root(cfg) / kind.base_folder)
    return _source(train, _images(test.data, test.labels), STL_CLASSES, mean=mean, std=std)


def _stl_train(folder: Path) -> Images:
    """The 5,000 labeled and 100,000 other images in one tensor.

    Read here, because torchvision holds three copies (8 GB) for a while when it joins them.
    """
    files = [
        np.memmap(folder / f"{part}_X.bin", np.uint8, "r").reshape(-1, *STL_SHAPE)
        for part in ("train", "unlabeled")
    ]
    labels = torch.full((sum(map(len, files)),), UNKNOWN)
    numbers = np.fromfile(folder / "train_y.bin", np.uint8).astype(np.int64)
    labels[: len(files[0])] = torch.from_numpy(numbers) - 1  # the file counts from one
    pixels = torch.empty(len(labels), *STL_SHAPE, dtype=torch.uint8)
    start = 0
    for file in files:
        pixels.numpy()[start : start + len(file)] = file.swapaxes(2, 3)  # stored column by column
        start += len(file)
    return Images(pixels, labels)


def _mnist_like(cfg: DataConfig, kind_name: str, names: Sequence[str], *, mean: float, std: float) -> Source:
    kind = _torchvision(kind_name)
    folder = root(cfg) / kind_name / "raw"
    archives = [Archive(folder, file, md5) for file, md5 in kind.resources]
    unpacked = [folder / file.removesuffix(".gz") for file, _ in kind.resources]
    damaged = [path for path in unpacked if path.exists() and not _is_whole(path)]
    train, test = fetch(kind, cfg, archives, [{"train": True}, {"train": False}], damaged=damaged)
    return _source(
        _images(train.data[:, None], train.targets),
        _images(test.data[:, None], test.targets),
        names,
        mean=(mean,),
        std=(std,),
    )


def _is_whole(path: Path) -> bool:
    """Whether an idx file is as long as its header says."""
    content = path.read_bytes()
    num_axes = content[3] if len(content) > 3 else 0
    axes = [int.from_bytes(content[4 + 4 * axis : 8 + 4 * axis], "big") for axis in range(num_axes)]
    return num_axes > 0 and len(content) == 4 + 4 * num_axes + prod(axes)


def _cifar(cfg: DataConfig, kind_name: str, *, mean: tuple[float, ...], std: tuple[float, ...]) -> Source:
    kind = _torchvision(kind_name)
    archive = Archive(root(cfg), kind.filename, kind.tgz_md5)
    train, test = fetch(kind, cfg, [archive], [{"train": True}, {"train": False}])
    return _source(
        _images(train.data.transpose(0, 3, 1, 2), train.targets),
        _images(test.data.transpose(0, 3, 1, 2), test.targets),
        train.classes,
        mean=mean,
        std=std,
    )


def _images(pixels: Any, labels: Any) -> Images:
    pixels, labels = torch.as_tensor(pixels), torch.as_tensor(np.asarray(labels).astype(np.int64))
    return Images(pixels.contiguous(), labels)


def _source(
    train: Images, test: Images, names: Sequence[str], *, mean: tuple[float, ...], std: tuple[float, ...]
) -> Source:
    return Source(train, {"test": test}, num_classes=len(names), class_names=tuple(names), mean=mean, std=std)


def _torchvision(name: str) -> Any:
    """A class of torchvision.datasets, which is heavy to import."""
    prepare_torchvision()
    from torchvision import datasets

    return getattr(datasets, name)
