import torch

from interlude.data.images import Images
from interlude.data.resize import resize


def checkerboard(side):
    pixels = ((torch.arange(side)[:, None] + torch.arange(side)) % 2 * 255).to(torch.uint8)
    return Images(pixels.expand(5, 3, side, side).contiguous(), torch.arange(5))


def test_images_of_the_right_size_are_left_alone():
    images = checkerboard(8)
    assert resize(images, 8) is images


def test_shrinking_averages_instead_of_skipping_pixels():
    small = resize(checkerboard(64), 4).pixels.float()
    assert (small - 127.5).abs().max() < 10, "a checkerboard must become grey"


def test_constant_images_stay_constant_at_any_size():
    images = Images(torch.full((2, 1, 7, 5), 200, dtype=torch.uint8), torch.zeros(2).long())
    for side in (1, 3, 16):
        scaled = resize(images, side)
        assert scaled.image_size == (side, side)
        assert (scaled.pixels == 200).all()


def test_chunks_leave_no_trace(monkeypatch):
    images = checkerboard(6)
    whole = resize(images, 9)
    monkeypatch.setattr("interlude.data.images.CHUNK_BYTES", 1)
    assert torch.equal(resize(images, 9).pixels, whole.pixels)


def test_a_subset_is_scaled_with_its_own_labels():
    scaled = resize(checkerboard(6).subset(torch.tensor([4, 2])), 3)
    assert scaled.labels_of().tolist() == [4, 2]
    assert len(scaled.pixels) == 2
