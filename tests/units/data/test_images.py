from dataclasses import replace

import numpy as np
import pytest
import torch

from interlude.data.images import Images
from interlude.data.names import Names
from interlude.data.source import channel_statistics


@pytest.fixture
def images():
    pixels = torch.randint(
        0, 256, (20, 3, 4, 5), dtype=torch.uint8, generator=torch.Generator().manual_seed(0)
    )
    return Images(pixels, torch.arange(20))


def test_a_set_knows_its_size(images):
    assert len(images) == 20
    assert images.channels == 3
    assert images.image_size == (4, 5)


def test_taken_rows_are_those_pixels(images):
    rows = torch.tensor([3, 1, 3])
    assert torch.equal(images.take(rows), images.pixels[[3, 1, 3]])
    assert images.labels_of(rows).tolist() == [3, 1, 3]


def test_a_subset_of_a_subset_counts_from_the_inner_one(images):
    inner = images.subset(torch.tensor([10, 12, 14])).subset(torch.tensor([2, 0]))
    assert len(inner) == 2
    assert inner.labels_of().tolist() == [14, 10]
    assert torch.equal(inner.take(torch.tensor([1])), images.pixels[[10]])


def test_a_subset_shares_the_pixels(images):
    assert images.subset(torch.tensor([1])).pixels.data_ptr() == images.pixels.data_ptr()


def test_an_empty_subset_is_allowed(images):
    empty = images.subset(torch.tensor([], dtype=torch.int64))
    assert len(empty) == 0
    assert list(empty.chunks()) == []
    assert empty.content_hash()


def test_a_memory_map_is_read_in_place(tmp_path, images):
    images.pixels.numpy().tofile(tmp_path / "pixels")
    pixels = torch.from_numpy(np.memmap(tmp_path / "pixels", np.uint8, "r+").reshape(20, 3, 4, 5))
    mapped = Images(pixels, images.labels)
    assert mapped.content_hash() == images.content_hash()
    assert mapped.subset(torch.tensor([4, 2])).pixels.data_ptr() == pixels.data_ptr()


def test_the_content_hash_sees_pixels_labels_and_shape(images):
    other_pixels, other_labels = images.pixels.clone(), images.labels.clone()
    other_pixels[7, 1, 2, 3] ^= 1
    other_labels[7] = -1
    variants = [
        images,
        replace(images, pixels=other_pixels),
        replace(images, labels=other_labels),
        replace(images, pixels=images.pixels.reshape(20, 3, 5, 4)),
        images.subset(torch.arange(19)),
        images.subset(torch.arange(20).flip(0)),
    ]
    assert len({variant.content_hash() for variant in variants}) == len(variants)


def test_the_content_hash_of_a_subset_is_that_of_a_copy(images):
    rows = torch.tensor([5, 1, 8])
    copy = Images(images.pixels[rows], images.labels[rows])
    assert images.subset(rows).content_hash() == copy.content_hash()


def test_the_content_hash_does_not_depend_on_chunks_or_strides(images, monkeypatch):
    whole = images.content_hash()
    strided = images.pixels.permute(0, 2, 3, 1).contiguous().permute(0, 3, 1, 2)
    assert Images(strided, images.labels).content_hash() == whole
    monkeypatch.setattr("interlude.data.images.CHUNK_BYTES", 100)
    assert images.content_hash() == whole


def test_statistics_are_those_of_all_pixels(images, monkeypatch):
    monkeypatch.setattr("interlude.data.images.CHUNK_BYTES", 200)
    mean, std = channel_statistics(images)
    values = images.pixels.double() / 255
    assert mean == pytest.approx(values.mean((0, 2, 3)).tolist())
    assert std == pytest.approx(values.std((0, 2, 3), correction=0).tolist())


def test_a_constant_channel_has_a_deviation_to_divide_by():
    mean, std = channel_statistics(
        Images(torch.full((3, 1, 2, 2), 51, dtype=torch.uint8), torch.zeros(3).long())
    )
    assert mean == pytest.approx((0.2,))
    assert std[0] > 0


def test_digests_stand_for_pixels_in_all_fingerprints(images):
    digests = torch.arange(20 * 16, dtype=torch.uint8).reshape(20, 16)
    known = replace(images, digests=digests)
    assert known.content_hash() == replace(known, pixels=images.pixels + 1).content_hash()
    assert known.subset(torch.tensor([3])).image_hashes() == [bytes(digests[3].tolist())]
    other = digests.clone()
    other[4, 2] ^= 1
    assert known.content_hash() != replace(known, digests=other).content_hash()
    rows = torch.tensor([3, 5])
    assert known.subset(rows).content_hash() == replace(known, digests=other).subset(rows).content_hash()


def test_an_image_has_the_name_of_its_file_or_its_number(images):
    rows = torch.tensor([5, 2])
    assert images.subset(rows).names_of() == ["5", "2"]
    named = replace(images, names=Names(f"{number}.png" for number in range(20)))
    assert named.subset(rows).names_of() == ["5.png", "2.png"]
    assert named.names_of()[19] == "19.png"


def test_names_in_little_memory_are_those_of_a_list():
    listed = ["", "a.png", "caf\u00e9/\U0001f431.png", "new\nline", "\udcff\udcfe"]
    names = Names(listed)
    assert [names[number] for number in range(len(names))] == listed
    assert list(names) == listed
    assert len(Names([])) == 0
    with pytest.raises(IndexError):
        names[-1]
