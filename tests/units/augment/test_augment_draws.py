"""What is drawn: the right numbers, equally often, from the generator alone."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from interlude.augment import AugmentConfig, Cutout, FlipCrop, build, take

VECTORS = json.loads((Path(__file__).parents[2] / "data" / "vectors.json").read_text())
MANY = 20_000


def draw(augmentation, n=MANY):
    return augmentation.draw(n, torch.Generator().manual_seed(0))


def counts(values, low, high):
    return torch.bincount(values.flatten().long() - low, minlength=high - low + 1)


def assert_even(values, low, high):
    """All whole numbers of the range occur, each within five standard deviations of its share."""
    found = counts(values, low, high)
    assert len(found) == high - low + 1, f"values outside {low}..{high}"
    share = found.sum() / len(found)
    assert ((found - share).abs() < 5 * share.sqrt()).all(), f"uneven: {found.tolist()}"


def randaugment(policy="natural"):
    return build(AugmentConfig(policy))["strong"].parts[1]


def test_half_of_the_natural_images_are_flipped():
    assert abs(draw(build()["weak"])["flip"].float().mean() - 0.5) < 0.02


@pytest.mark.parametrize("policy", ["digits", "grayscale-medical"])
@pytest.mark.parametrize("view", ["flip", "weak", "strong"])
def test_images_whose_sides_matter_are_never_flipped(policy, view):
    assert not draw(build(AugmentConfig(policy))[view])["flip"].any()


def test_half_of_the_gentle_strong_views_are_mere_crops_and_none_is_painted_over():
    strong = build(AugmentConfig("gentle"))["strong"]
    drawn = draw(strong)
    assert abs(drawn["applied"].float().mean() - 0.5) < 0.02
    assert drawn["applied"].shape[1] == 1
    crop, _, cutout = strong.parts
    images = torch.randint(256, (len(drawn["side"]), 3, 8, 8), dtype=torch.uint8)
    assert torch.equal(cutout.apply(images, drawn), images)
    mere = ~drawn["applied"][:, 0]
    assert torch.equal(strong.apply(images, drawn)[mere], crop.apply(images, drawn)[mere])


def test_all_81_crops_of_a_small_image_are_equally_likely():
    down, across, _ = torch.from_numpy(FlipCrop().cuts(draw(FlipCrop()), 32, 32)).unbind(1)
    assert_even(down, -4, 4)
    assert_even(across, -4, 4)
    assert_even(down * 9 + across, -40, 40)


def test_a_crop_may_begin_as_far_off_as_each_side_is_padded():
    ends = {"crop": torch.tensor([[0.0, 0.0], [0.999, 0.999]]), "flip": torch.tensor([False, True])}
    assert FlipCrop().cuts(ends, 16, 32).tolist() == [[-2, -4, 0], [2, 4, 1]]


def test_levels_are_one_to_nine_equally_often():
    assert_even(draw(randaugment())["level"], 1, 9)


def test_operations_are_drawn_equally_often_and_with_replacement():
    operation = draw(randaugment())["operation"]
    assert operation.shape == (MANY, 2)
    assert_even(operation, 0, 13)
    assert abs((operation[:, 0] == operation[:, 1]).float().mean() - 1 / 14) < 0.01


def test_natural_applies_half_of_the_operations_and_usb_all():
    assert abs(draw(randaugment())["applied"].float().mean() - 0.5) < 0.02
    assert draw(randaugment("usb"))["applied"].all()


def test_signs_are_even():
    sign = draw(randaugment())["sign"]
    assert set(sign.unique().tolist()) == {-1, 1}
    assert abs(sign.float().mean()) < 0.03


@pytest.mark.parametrize(
    ("name", "low", "high"),
    [("Brightness", 0.05, 0.95), ("Posterize", 4, 8), ("Rotate", -30, 30), ("ShearX", -0.3, 0.3),
     ("Solarize", 0, 256), ("TranslateY", -0.3, 0.3)],
)  # fmt: skip
def test_magnitudes_of_usb_fill_their_range(name, low, high):
    augmentation = randaugment("usb")
    numbers = draw(augmentation)
    index = [operation.name for operation in augmentation.operations].index(name)
    magnitude = augmentation.magnitude(numbers)[numbers["operation"].numpy() == index]
    assert low <= magnitude.min() < low + 0.01 * (high - low)
    assert high - 0.01 * (high - low) < magnitude.max() <= high
    assert abs(magnitude.mean() - (low + high) / 2) < 0.03 * (high - low)


@pytest.mark.parametrize("level", range(1, 10))
def test_levels_mean_what_the_released_code_makes_of_them(level):
    wanted = VECTORS["randaugment_levels"]["levels"][str(level)]
    augmentation = randaugment()
    names = [operation.name for operation in augmentation.operations]
    one = torch.ones(1, len(names))
    numbers = {"operation": torch.arange(len(names))[None], "level": level * one, "sign": one}
    ours = dict(zip(names, augmentation.magnitude(numbers)[0].tolist(), strict=True))

    for name in ("Brightness", "Color", "Contrast", "Sharpness"):
        assert ours[name] == pytest.approx(wanted["enhance"], abs=1e-12)
    for name in ("ShearX", "ShearY"):
        assert ours[name] == pytest.approx(wanted["shear"], abs=1e-12)
    assert ours["Rotate"] == wanted["rotate_deg"]
    assert int(ours["Posterize"]) == wanted["posterize_bits"]
    inverted = [value for value in range(256) if value >= ours["Solarize"]]
    assert inverted == list(range(wanted["solarize_threshold"], 256))
    for size in (32, 96, 112):
        assert _shift("TranslateX", ours["TranslateX"], size) == wanted[f"translate_px_{size}"]
        assert _shift("TranslateY", -ours["TranslateY"], size) == -wanted[f"translate_px_{size}"]


def _shift(name, share, size):
    """By how many pixels an image of this size is moved."""
    operation = next(o for o in randaugment().operations if o.name == name)
    images = torch.zeros(1, 1, size, size, dtype=torch.uint8)
    matrix = operation.plan(images, np.array([share]))[0]
    return matrix[0 if name == "TranslateX" else 1, 2]


@pytest.mark.parametrize("case", VECTORS["cutout"]["cases"], ids=lambda case: str(case["center"]))
def test_the_cutout_covers_the_box_of_the_released_code(case):
    across, down = case["center"]
    draw = {"centre": torch.tensor([[down / 32, across / 32]]), "side": torch.zeros(1)}
    view = Cutout().apply(torch.zeros(1, 1, 32, 32, dtype=torch.uint8), draw)[0, 0]
    rows, columns = (view == 127).nonzero().unbind(1)
    left, top, right, bottom = case["box"]
    assert len(rows) == case["gray_pixels"]
    assert (columns.min(), rows.min()) == (left, top)
    assert (columns.max(), rows.max()) == (min(right, 31), min(bottom, 31))


def test_a_cutout_without_a_side_paints_nothing():
    images = torch.full((4, 3, 8, 8), 9, dtype=torch.uint8)
    for augmentation in (Cutout(0, 0), Cutout(0, 0, whole_pixels=False)):
        assert torch.equal(augmentation.apply(images, draw(augmentation, 4)), images)


def test_taking_rows_indexes_every_number_of_a_draw():
    numbers = draw(build()["strong"], 5)
    chosen = take(numbers, torch.tensor([4, 0, 0]))
    assert chosen.keys() == numbers.keys()
    for name, values in chosen.items():
        assert torch.equal(values, torch.stack([numbers[name][4], numbers[name][0], numbers[name][0]]))


def test_draws_do_not_touch_the_global_generator():
    before = torch.get_rng_state()
    draw(build()["strong"], 8)
    assert torch.equal(torch.get_rng_state(), before)
