import io

import numpy as np
import pytest
from PIL import Image, ImageEnhance

from interlude.doctor import alike
from interlude.doctor.alike import (
    ALWAYS,
    NEVER,
    SIDE,
    chance_ratio,
    near_pairs,
    neighbourhoods,
    pairs_within,
    to_unit,
)
from interlude.doctor.scan import thumbnail


def recompress(image, quality=60):
    buffer = io.BytesIO()
    image.save(buffer, "JPEG", quality=quality)
    return Image.open(buffer)


CHANGES = {
    "re-encoded": recompress,
    "half the size": lambda image: image.resize((image.width // 2, image.height // 2)),
    "twice the size": lambda image: image.resize((image.width * 2, image.height * 2)),
    "slightly cropped": lambda image: image.crop((1, 1, image.width - 1, image.height - 1)),
    "darker": lambda image: ImageEnhance.Brightness(image).enhance(0.7),
    "less contrast": lambda image: ImageEnhance.Contrast(image).enhance(0.7),
    "grey": lambda image: image.convert("L"),
}


def thumbnails(images):
    return np.array([thumbnail(image) for image in images])


def found(images):
    pairs, complete = near_pairs(thumbnails(images))
    assert complete
    return pairs.tolist()


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_a_changed_copy_is_found_and_nothing_else(change, draw):
    originals = [draw(number) for number in range(60)]
    copies = [change(image) for image in originals[:5]]
    assert found(originals + copies) == [[number, 60 + number] for number in range(5)]


def test_different_pictures_are_no_copies(draw):
    assert found([draw(number) for number in range(200)]) == []


@pytest.mark.parametrize("count", [0, 1, 2, 3])
def test_very_few_pictures_are_compared_too(count, draw):
    assert found([draw(1)] * count) == [[a, b] for a in range(count) for b in range(a + 1, count)]


def test_plain_pictures_are_copies_of_nothing():
    assert found([Image.new("L", (20, 20), level) for level in (0, 90, 255)]) == []


def test_pictures_with_hardly_anything_on_them_are_copies_of_nothing():
    images = np.full((5, SIDE * SIDE), 100, np.uint8)
    images[:, 7] += np.arange(1, 6, dtype=np.uint8)
    assert near_pairs(images)[0].tolist() == []


def test_what_is_merely_of_a_kind_is_not_a_copy(draw):
    """All pictures share a strong silhouette, as clothes on black do: they correlate by 0.95 and more."""
    outline = np.zeros((SIDE, SIDE))
    outline[3:9, 3:9] = 200
    inside = np.random.default_rng(0).normal(0, 10, (300, SIDE, SIDE))
    alike = np.clip(outline + inside + 30, 0, 255).astype(np.uint8).reshape(300, -1)
    vectors = to_unit(alike)
    assert np.median(vectors @ vectors.T) > 1 - NEVER
    copy = np.clip(alike[7].astype(int) + np.arange(SIDE * SIDE) % 2, 0, 255).astype(np.uint8)
    assert near_pairs(np.vstack([alike, copy]))[0].tolist() == [[7, 300]]


def test_pairs_are_those_of_a_search_by_brute_force(monkeypatch):
    """Many cells and small blocks give what comparing each with each gives."""
    monkeypatch.setattr(alike, "BLOCK", 64)
    rng = np.random.default_rng(1)
    images = rng.integers(0, 256, (1500, SIDE * SIDE), np.uint8)
    images[1200:] = np.clip(images[:300].astype(int) + rng.integers(-9, 10, (300, SIDE * SIDE)), 0, 255)
    _, reach = neighbourhoods(images)
    distance = 1 - to_unit(images) @ to_unit(images).T
    close = np.argwhere(np.triu(distance <= np.minimum(reach[:, None], reach), 1))
    assert len(close) == 300
    assert near_pairs(images)[0].tolist() == close.tolist()


def test_pairs_that_lie_in_two_blocks_of_a_cell_are_found(monkeypatch):
    monkeypatch.setattr(alike, "BLOCK", 16)
    images = np.random.default_rng(1).integers(0, 256, (50, SIDE * SIDE), np.uint8)
    found = pairs_within(np.vstack([images, images]), np.arange(100), np.full(100, NEVER, np.float32))
    assert sorted(np.concatenate(list(found)).tolist()) == [[row, row + 50] for row in range(50)]


def test_the_reach_stays_between_what_is_always_and_what_is_never_a_copy():
    images = np.random.default_rng(1).integers(0, 256, (300, SIDE * SIDE), np.uint8)
    nearly_one = np.clip(images[:1].astype(int) + images // 100, 0, 255).astype(np.uint8)
    assert np.allclose(neighbourhoods(images)[1], NEVER)
    assert np.allclose(neighbourhoods(nearly_one)[1], ALWAYS)


def test_among_more_images_a_copy_must_be_nearer():
    """In 20 dimensions: as many images come that near by chance as may."""
    places = np.arange(1000)
    distance = np.tile((places / 1000) ** (2 / 20), (50, 1))
    assert chance_ratio(distance, 10, 10_000) == alike.RATIO
    ratio = chance_ratio(distance, 10, 10**14)
    assert ratio < alike.RATIO
    by_chance = 10**14 * (ratio * distance[0, 10]) ** (20 / 2)
    assert by_chance == pytest.approx(alike.CHANCE)


def test_the_search_ends_after_a_number_of_pairs(monkeypatch):
    monkeypatch.setattr(alike, "MOST", 10)
    images = np.tile(np.random.default_rng(0).integers(0, 256, SIDE * SIDE, np.uint8), (20, 1))
    pairs, complete = near_pairs(images)
    assert not complete
    assert len(pairs) > 10


def test_the_search_tells_how_far_it_is(draw):
    told = []
    near_pairs(thumbnails([draw(number) for number in range(30)]), told.append)
    assert told[0] == 0
    assert told == sorted(told)
    assert 0.9 < told[-1] < 1
