"""The public check accepts what is right and names what is wrong."""

import pytest
import torch

from interlude.augment import FlipCrop, Identity, check_augmentation


class Noisy(Identity):
    def apply(self, images, draw):
        return images + torch.randint(3, images.shape, dtype=torch.uint8)


class Unseeded(Identity):
    def draw(self, n, generator):
        return {"level": torch.rand(n)}


class Averaged(Identity):
    def apply(self, images, draw):
        return images // 2 + images.float().mean(0).to(torch.uint8) // 2


class InPlace(Identity):
    def apply(self, images, draw):
        return images.bitwise_not_()


class Same(Identity):
    def apply(self, images, draw):
        return images


class Floating(Identity):
    def apply(self, images, draw):
        return images.float()


class Half(Identity):
    def apply(self, images, draw):
        return images[:, :, ::2]


class OneForAll(Identity):
    def draw(self, n, generator):
        return {"level": torch.rand(1, generator=generator)}


def test_a_sound_augmentation_passes():
    check_augmentation(FlipCrop())


def test_the_check_takes_images_of_ones_own():
    check_augmentation(FlipCrop(), torch.zeros(3, 1, 8, 8, dtype=torch.uint8))


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (Noisy(), "equal draws gave different images"),
        (Unseeded(), "must come from `generator`"),
        (Averaged(), "row i may depend on row i alone"),
        (InPlace(), "modified the images"),
        (Same(), "not a new tensor"),
        (Floating(), "float32 for uint8"),
        (Half(), "apply gave shape"),
        (OneForAll(), "the first axis must be n"),
    ],
    ids=lambda value: type(value).__name__ if not isinstance(value, str) else "",
)
def test_the_check_names_the_fault(wrong, message):
    with pytest.raises(AssertionError, match=message):
        check_augmentation(wrong)
