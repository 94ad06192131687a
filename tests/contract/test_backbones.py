"""Every registered network keeps the contract of backbones."""

import pytest

from interlude.models import backbone_names
from interlude.models.check import check_backbone

# the smallest images that each takes, where 8x8 is too small
SMALLEST = {"vit-base-16-96": (16, 16)}


@pytest.mark.parametrize("name", backbone_names())
def test_a_registered_backbone_passes_the_check(name):
    check_backbone(name, image_size=SMALLEST.get(name, (8, 8)), rows=2)


@pytest.mark.parametrize("name", ["cnn", "wrn-10-1", "vit-small-2-32"])
def test_it_does_so_for_grey_and_oblong_images(name):
    check_backbone(name, channels=1, image_size=(8, 12), rows=2)
