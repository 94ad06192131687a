"""What every data set promises, whatever file it comes from."""

import importlib
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from interlude.data import DataConfig, SplitRecord, dataset_names, describe, load

sys.path.append(str(Path(__file__).parents[1] / "units" / "data"))
small_files, image_files = map(importlib.import_module, ("small_files", "image_files"))


DIVIDED = {"tmed2"}  # data sets that come with their own labeled and validation images
DRAWN = [name for name in dataset_names() if name not in DIVIDED]


@pytest.fixture(params=dataset_names())
def cfg(request, tmp_path, monkeypatch):
    """The settings that open a small copy of each data set; a new one without small files says so here."""
    name, root = request.param, tmp_path / "data"
    root.mkdir()
    if name == "npz":
        np.savez(root / "small.npz", **small_files.arrays((8, 8, 3), num_classes=4))
        name = f"npz:{root / 'small.npz'}"
    elif name == "folder":
        image_files.class_folders(root / "small", per_class=6, names=("ant", "bee", "cat", "dog"))
        monkeypatch.setenv("INTERLUDE_CACHE", str(tmp_path / "cache"))
        name = f"folder:{root / 'small'}"
    elif name != "digits":
        small_files.write_small(name, root, monkeypatch)
    share = 0 if name in DIVIDED else 0.2
    return DataConfig(name=name, root=str(root), download=False, validation=share)


@pytest.fixture
def labels(cfg):
    """Two of each class, where it is ours to choose."""
    return None if cfg.name in DIVIDED else 2 * load(cfg, labels=None, fold=0).num_classes


def parts_of(split):
    return {
        "labeled": split.labeled,
        "unlabeled": split.unlabeled,
        "validation": split.validation,
        **split.tests,
    }


def test_pixels_are_bytes_with_channels_first(cfg, labels):
    for part, images in parts_of(load(cfg, labels=labels, fold=0)).items():
        pixels = images.take(torch.arange(2))
        assert pixels.dtype == torch.uint8, part
        assert pixels.shape[1] in (1, 3), f"{part} has shape {tuple(pixels.shape)}"
        assert pixels.is_contiguous(), part


def test_every_part_has_images_of_one_size(cfg, labels):
    parts = parts_of(load(cfg, labels=labels, fold=0))
    assert len({(images.channels, *images.image_size) for images in parts.values()}) == 1


def test_labels_are_in_range(cfg, labels):
    split = load(cfg, labels=labels, fold=0)
    for part, images in parts_of(split).items():
        least = -1 if part == "unlabeled" else 0
        assert least <= images.labels_of().min(), part
        assert images.labels_of().max() < split.num_classes, part
    assert len(split.class_names) == split.num_classes


@pytest.mark.parametrize("cfg", DRAWN, indirect=True)
def test_labels_are_balanced(cfg, labels):
    split = load(cfg, labels=labels, fold=0)
    assert (
        torch.bincount(split.labeled.labels_of(), minlength=split.num_classes).tolist()
        == [2] * split.num_classes
    )


def test_validation_images_are_in_no_other_part(cfg, labels):
    split = load(cfg, labels=labels, fold=0)
    validation = set(split.validation.rows.tolist())
    assert validation
    assert not validation & set(split.labeled.rows.tolist())
    assert not validation & set(split.unlabeled.rows.tolist())


def test_labeled_images_are_in_the_pool_unless_told_otherwise(cfg, labels):
    split = load(cfg, labels=labels, fold=0)
    assert set(split.labeled.rows.tolist()) <= set(split.unlabeled.rows.tolist())


def test_mean_and_deviation_are_given_for_each_channel(cfg, labels):
    split = load(cfg, labels=labels, fold=0)
    assert len(split.mean) == len(split.std) == split.labeled.channels
    assert all(0 <= value <= 1 for value in split.mean)
    assert all(0 < value <= 1 for value in split.std)


def test_the_same_fold_gives_the_same_split(cfg, labels):
    first, second = (load(cfg, labels=labels, fold=1) for _ in range(2))
    assert first.record == second.record
    assert first.record.split_hash == second.record.split_hash


@pytest.mark.parametrize("cfg", DRAWN, indirect=True)
def test_another_fold_gives_other_labels_and_the_same_validation(cfg, labels):
    first, second = (load(cfg, labels=labels, fold=fold).record for fold in (0, 1))
    assert first.labeled != second.labeled
    assert first.validation == second.validation
    assert first.split_hash != second.split_hash


@pytest.mark.parametrize("cfg", DRAWN, indirect=True)
def test_any_data_set_can_have_a_pool_of_other_classes(cfg):
    split = load(replace(cfg, out_of_class=0.5), labels=None, fold=0, all_labels=True)
    known = set(split.class_names)
    whole = load(cfg, labels=None, fold=0)
    names = [whole.class_names[label] for label in whole.unlabeled.labels[list(split.record.pool)]]
    assert len(known) == split.num_classes < whole.num_classes
    assert abs(sum(name not in known for name in names) - len(names) / 2) <= 0.5


@pytest.mark.parametrize("cfg", sorted(DIVIDED), indirect=True)
def test_another_fold_of_a_divided_data_set_is_another_division(cfg):
    first, second = (load(cfg, labels=None, fold=fold).record for fold in (0, 1))
    assert first.split_hash != second.split_hash


def test_a_written_record_leads_back_to_the_same_rows(cfg, labels, tmp_path):
    split = load(cfg, labels=labels, fold=2)
    split.record.to_json(tmp_path / "split.json")
    record = SplitRecord.from_json(tmp_path / "split.json")
    assert record == split.record
    again = load(cfg, labels=labels, fold=2, record=record)
    assert again.record == record
    for part, images in parts_of(split).items():
        assert images.content_hash() == parts_of(again)[part].content_hash(), part


def test_a_list_says_what_it_is(cfg):
    assert describe(cfg.name.partition(":")[0])
