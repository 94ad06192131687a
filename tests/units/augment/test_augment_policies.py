"""Policies by name, and what the user may change about them."""

import pytest
import torch
from pillow_reference import pictures

from interlude.augment import AugmentConfig, Policy, build, describe, policy, policy_names
from interlude.augment import policies as module
from interlude.errors import UserError


def draw(augmentation, n):
    return augmentation.draw(n, torch.Generator().manual_seed(0))


def view(augmentation, images):
    return augmentation.apply(images, draw(augmentation, len(images)))


def test_the_four_policies_have_names():
    assert {"natural", "usb", "digits", "grayscale-medical"} <= set(policy_names())


def test_every_policy_says_what_it_is_for():
    assert list(describe()) == list(policy_names())
    assert all(describe().values()), f"a policy without a docstring: {describe()}"


@pytest.mark.parametrize("name", policy_names())
def test_a_policy_offers_every_view_word(name):
    assert set(build(AugmentConfig(name))) == {"plain", "flip", "weak", "strong"}


def test_an_unknown_policy_is_answered_with_the_nearest_name():
    with pytest.raises(UserError, match="unknown augmentation policy 'natrual'; did you mean 'natural'"):
        build(AugmentConfig("natrual"))


@pytest.mark.parametrize("name", policy_names())
def test_a_plain_view_is_the_image(name):
    images = pictures(3, 32, 32)
    assert torch.equal(view(build(AugmentConfig(name))["plain"], images), images)


def test_a_flip_view_is_the_image_or_its_mirror_image():
    images = pictures(3, 32, 32).repeat(4, 1, 1, 1)
    flip = build()["flip"]
    mirrored = draw(flip, len(images))["flip"]
    wanted = torch.where(mirrored[:, None, None, None], images.flip(-1), images)
    assert torch.equal(view(flip, images), wanted)


@pytest.mark.parametrize("name", ["digits", "grayscale-medical"])
def test_a_flip_view_is_the_image_where_sides_matter(name):
    images = pictures(1, 32, 32)
    assert torch.equal(view(build(AugmentConfig(name))["flip"], images), images)


@pytest.mark.parametrize(
    ("name", "forbidden"),
    [
        ("digits", {"Solarize", "Posterize", "Equalize", "Color"}),
        ("grayscale-medical", {"Solarize", "Posterize", "Equalize", "Color"}),
    ],
)
def test_a_gentle_policy_leaves_out_what_would_change_the_class(name, forbidden):
    operations = build(AugmentConfig(name))["strong"].parts[1].operations
    assert not forbidden & {operation.name for operation in operations}
    assert all(operation.high <= 30 for operation in operations), "a six must not become a nine"


def test_digits_move_over_a_black_border():
    bright = torch.full((64, 1, 16, 16), 200, dtype=torch.uint8)
    edges = view(build(AugmentConfig("digits"))["weak"], bright)
    assert set(edges.unique().tolist()) == {0, 200}


def test_the_user_can_turn_flips_on_and_off():
    assert not draw(build(AugmentConfig("natural", flip=False))["strong"], 100)["flip"].any()
    assert draw(build(AugmentConfig("grayscale-medical", flip=True))["weak"], 100)["flip"].any()


def test_the_user_can_choose_the_number_of_operations():
    assert draw(build(AugmentConfig(operations=5))["strong"], 7)["operation"].shape == (7, 5)


def test_no_operations_and_no_cutout_leave_a_weak_view():
    images = pictures(3, 32, 32)
    bare = build(AugmentConfig(operations=0, cutout=0.0))["strong"]
    assert torch.equal(view(bare, images), view(build()["weak"], images))


def test_the_user_can_choose_the_side_of_the_cutout():
    black = torch.zeros(200, 1, 32, 32, dtype=torch.uint8)
    painted = (view(build(AugmentConfig(operations=0, cutout=0.25))["strong"], black) == 127).sum((1, 2, 3))
    assert painted.max() == 9 * 9


def test_a_cutout_of_random_size_keeps_its_spread_under_another_largest_side():
    cutout = build(AugmentConfig("usb", cutout=0.2))["strong"].parts[2]
    assert (cutout.smallest, cutout.largest) == (0.0, 0.2)


@pytest.mark.parametrize("wrong", [{"operations": -1}, {"cutout": 1.5}, {"cutout": -0.1}])
def test_impossible_options_are_refused(wrong):
    with pytest.raises(UserError, match=next(iter(wrong))):
        AugmentConfig(**wrong)


def test_a_policy_of_ones_own_is_found_by_its_name(monkeypatch):
    monkeypatch.setattr(module, "_policies", dict(module._policies))

    @policy("mine")
    def mine() -> Policy:
        return Policy()

    assert "mine" in policy_names()
    assert set(build(AugmentConfig("mine"))) == {"plain", "flip", "weak", "strong"}
