import pytest

from interlude.data.options import DataConfig
from interlude.data.source import dataset_names, describe, open_source
from interlude.errors import UserError


def test_all_data_sets_are_found():
    expected = {"digits", "npz", "mnist", "fashion-mnist", "svhn", "cifar10", "cifar100", "stl10"}
    assert expected <= set(dataset_names())


def test_every_data_set_is_described_in_one_line():
    assert all(describe(name) for name in dataset_names())


def test_a_misspelt_name_gets_the_nearest():
    with pytest.raises(UserError, match="did you mean 'cifar10'"):
        open_source(DataConfig(name="cifar-10"))


def test_a_file_without_its_prefix_gets_the_prefix():
    with pytest.raises(UserError, match=r"did you mean 'npz:cells\.npz'"):
        open_source(DataConfig(name="cells.npz"))
