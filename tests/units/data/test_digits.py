import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits

from interlude.data.options import DataConfig
from interlude.data.source import open_source
from interlude.data.sources.digits import table


@pytest.fixture(scope="module")
def digits():
    return open_source(DataConfig(name="digits"))


def test_a_fifth_is_sealed_for_testing(digits):
    assert digits.sizes() == {"train": 1437, "test": 360}


def test_every_class_gives_a_fifth(digits):
    train, test = (torch.bincount(part.labels_of()) for part in (digits.train, digits.tests["test"]))
    share = test / (train + test)
    assert share.min() > 0.19
    assert share.max() < 0.21


def test_no_test_image_is_trained_on(digits):
    assert not set(digits.train.image_hashes()) & set(digits.tests["test"].image_hashes())


def test_pixels_use_the_whole_range(digits):
    assert digits.train.pixels.shape[1:] == (1, 16, 16)
    assert digits.train.pixels.min() == 0
    assert digits.train.pixels.max() == 255


def test_the_data_never_change(digits):
    assert digits.content_hash() == "ddd80f86323d317404dfdf7350e56feb"


def test_the_file_is_read_as_scikit_learn_reads_it():
    bunch = load_digits()
    values, labels = table()
    np.testing.assert_array_equal(values.numpy(), bunch.images)
    np.testing.assert_array_equal(labels.numpy(), bunch.target)
