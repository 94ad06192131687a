"""Realisations: drawn once, all different, and named after all that they depend on."""

import subprocess
import sys
from dataclasses import replace

import pytest
import torch

from interlude.augment import AugmentConfig, FlipCrop, Identity, build
from interlude.features.views import described, realisations

SHAPE = (3, 8, 8)


def of(kind, count=4, *, seed=0, **options):
    return realisations(kind, build(AugmentConfig(**options))[kind], count=count, seed=seed, shape=SHAPE)


def results(views):
    images = torch.randint(256, (1, *SHAPE), dtype=torch.uint8, generator=torch.Generator().manual_seed(5))
    return [view.augmentation.apply(images, view.draw_for(1)) for view in views]


@pytest.mark.parametrize(("kind", "count"), [("plain", 1), ("flip", 2), ("weak", 4), ("strong", 4)])
def test_there_are_as_many_as_asked_for_unless_no_more_differ(kind, count):
    made = results(of(kind))
    assert len(made) == count
    assert all(not torch.equal(one, other) for i, one in enumerate(made) for other in made[:i])


def test_more_realisations_leave_the_first_as_they_were():
    few, many = of("strong", 2), of("strong", 5)
    assert [view.name for view in few] == [view.name for view in many[:2]]


@pytest.mark.parametrize("seed", range(10))
def test_a_few_realisations_are_as_mixed_as_many_would_be(seed):
    draws = [view.draw for view in of("strong", 8, seed=seed, policy="gentle")]
    changed = [bool(draw["applied"]) for draw in draws]
    flipped = [bool(draw["flip"]) for draw in draws]
    for first in (2, 4, 6, 8):
        assert abs(sum(changed[:first]) - first / 2) <= 1
        assert abs(sum(flipped[:first]) - first / 2) <= 1
    both = sum(a and b for a, b in zip(changed, flipped, strict=True))
    assert 1 <= both <= 3, "flips go with the operations"
    used = [int(draw["operation"]) for draw, counts in zip(draws, changed, strict=True) if counts]
    assert len(set(used)) == len(used), "an operation twice before all were used"


def test_strong_realisations_keep_the_share_of_operations_that_their_policy_has():
    draws = [view.draw for view in of("strong", 10, policy="digits")]
    assert sum(int(draw["applied"].sum()) for draw in draws) / 20 == pytest.approx(0.8, abs=0.06)


def test_one_realisation_treats_all_images_alike():
    (view, *_) = of("strong")
    image = torch.randint(256, (1, *SHAPE), dtype=torch.uint8)
    three = view.augmentation.apply(image.expand(3, -1, -1, -1), view.draw_for(3))
    assert torch.equal(three[0], three[1])
    assert torch.equal(three[0], three[2])


@pytest.mark.parametrize("other", [{"seed": 1}, {"policy": "usb"}, {"operations": 1}, {"cutout": 0.2}])
def test_another_policy_or_seed_has_other_names(other):
    assert not {view.name for view in of("strong")} & {view.name for view in of("strong", **other)}


def test_the_image_itself_has_one_name_under_every_policy_and_seed():
    assert of("plain")[0].name == of("plain", seed=3, policy="digits")[0].name


def test_a_setting_of_an_augmentation_is_in_its_description():
    assert described(FlipCrop()) != described(replace(FlipCrop(), reflect=False))
    assert described(Identity()) == "Identity()"


def test_a_description_is_the_same_in_another_process():
    script = (
        "from interlude.augment import build; from interlude.features.views import described; "
        "print(described(build()['strong']))"
    )
    other = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout
    assert other.strip() == described(build()["strong"])
    assert " at 0x" not in other
