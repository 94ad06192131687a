"""Scikit-learn's handwritten digits: small, and always at hand."""

from importlib.util import find_spec
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from interlude.data.images import Images
from interlude.data.options import DataConfig
from interlude.data.resize import resize
from interlude.data.source import Source, channel_statistics, dataset

SIDE = 16  # pixels a side; the 8 of the original leave a network nothing to pool
LEVELS = 16  # the original values are 0..16


@dataset("digits")
def digits(cfg: DataConfig) -> Source:
    """handwritten digits of scikit-learn, 1,437 + 360 grey images of 16x16, no download"""
    values, labels = table()
    images = resize(Images((values * (255 / LEVELS)).round().to(torch.uint8)[:, None], labels), SIDE)

    # every fifth image in order of class: a fifth of each class, by a rule that no library can change
    by_class = labels.argsort(stable=True)
    is_test = torch.zeros_like(labels, dtype=torch.bool)
    is_test[by_class[::5]] = True
    train, test = (Images(images.pixels[part], labels[part]) for part in (~is_test, is_test))

    mean, std = channel_statistics(train)
    names = tuple(str(digit) for digit in range(10))
    return Source(train, {"test": test}, num_classes=10, class_names=names, mean=mean, std=std)


def table() -> tuple[Tensor, Tensor]:
    """Values (N, 8, 8) and labels, from scikit-learn's file: to import scikit-learn would take seconds."""
    package = find_spec("sklearn")
    assert package is not None, "scikit-learn is a dependency"
    assert package.origin is not None
    rows = np.loadtxt(Path(package.origin).parent / "datasets/data/digits.csv.gz", delimiter=",")
    return torch.from_numpy(rows[:, :-1]).reshape(-1, 8, 8), torch.from_numpy(rows[:, -1]).long()
