import numpy as np
import pytest
import torch

from interlude.data import to_pixels
from interlude.errors import UserError


@pytest.mark.parametrize(
    ("shape", "result"),
    [
        ((2, 5, 7), (2, 1, 5, 7)),
        ((2, 5, 7, 1), (2, 1, 5, 7)),
        ((2, 5, 7, 3), (2, 3, 5, 7)),
        ((2, 3, 5, 7), (2, 3, 5, 7)),
        ((2, 1, 5, 7), (2, 1, 5, 7)),
        ((2, 3, 5, 3), (2, 3, 3, 5)),
    ],
)
def test_every_layout_becomes_channels_first(shape, result):
    assert to_pixels(np.zeros(shape, np.uint8)).shape == result


def test_nothing_is_copied():
    images = torch.zeros(2, 5, 7, 3, dtype=torch.uint8)
    assert to_pixels(images).data_ptr() == images.data_ptr()


@pytest.mark.filterwarnings("error")
def test_arrays_that_torch_cannot_share_are_copied():
    images = np.arange(2 * 5 * 7, dtype=np.uint8).reshape(2, 5, 7)
    images.flags.writeable = False
    assert np.array_equal(to_pixels(images)[:, 0].numpy(), images)
    assert np.array_equal(to_pixels(images[::-1])[:, 0].numpy(), images[::-1])


def test_an_image_alone_or_of_other_numbers_is_refused():
    for images in (np.zeros((5, 7)), np.zeros((5, 7), np.uint8), torch.zeros(2, 3, 5, 7)):
        with pytest.raises(UserError, match="images must be"):
            to_pixels(images)
