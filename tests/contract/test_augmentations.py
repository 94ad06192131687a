"""Every view of every registered policy keeps the contract of augmentations."""

import pytest

from interlude.augment import Augmentation, AugmentConfig, build, check_augmentation, policy_names

VIEWS = ("plain", "flip", "weak", "strong")


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("policy", policy_names())
def test_a_view_keeps_the_contract(policy, view):
    augmentation = build(AugmentConfig(policy))[view]
    assert isinstance(augmentation, Augmentation)
    check_augmentation(augmentation)


def test_a_view_without_operations_keeps_the_contract():
    check_augmentation(build(AugmentConfig(operations=0, cutout=0.0))["strong"])
