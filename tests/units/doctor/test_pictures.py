import pytest
from PIL import Image

from interlude.doctor.scan import is_flat


def test_images_of_a_single_colour_are_told(folder):
    folder.fill()
    folder.add("unlabeled/black.png", Image.new("RGB", (48, 48)))
    folder.add("unlabeled/red.jpg", Image.new("RGB", (48, 48), (200, 30, 40)))
    finding = folder.find("flat")
    assert finding.severity == "warn"
    assert finding.files == ("unlabeled/black.png", "unlabeled/red.jpg")


@pytest.mark.parametrize(("brightest", "flat"), [(108, True), (109, False)])
@pytest.mark.parametrize("mode", ["L", "RGB"])
def test_noise_of_a_few_levels_is_still_a_single_colour(mode, brightest, flat):
    image = Image.new(mode, (20, 20), (100,) * len(mode))
    image.putpixel((3, 3), (100,) * (len(mode) - 1) + (brightest,))
    assert is_flat(image) is flat


def test_a_small_spot_is_not_a_single_colour(folder):
    spot = Image.new("L", (48, 48))
    spot.paste(200, (20, 20, 22, 22))
    folder.fill().add("unlabeled/spot.png", spot)
    assert folder.find("flat") is None


def test_images_of_a_single_colour_are_not_copies_of_each_other(folder):
    folder.fill()
    folder.add("cat/black.png", Image.new("RGB", (48, 48)))
    folder.add("dog/black.png", Image.new("RGB", (48, 48)))
    assert not folder.examine().stops


@pytest.mark.parametrize(
    ("side", "kind"), [(15, "small"), (16, None), (192, None), (193, "large"), (48, None)]
)
def test_images_far_from_the_usual_size_are_told(folder, draw, side, kind):
    folder.fill().add("unlabeled/odd.png", draw(1, side))
    found = {finding.kind for finding in folder.examine().findings}
    assert found == ({kind} if kind else set())


@pytest.mark.parametrize(("side", "told"), [(24, True), (25, False)])
def test_among_larger_images_larger_ones_are_small(folder, draw, side, told):
    for number in range(6):
        folder.add(f"{'cat' if number % 2 else 'dog'}/{number}.png", draw(number, 100))
    folder.add("unlabeled/odd.png", draw(10, side))
    assert (folder.find("small") is not None) is told


def test_where_all_images_are_tiny_none_is_odd(folder, draw):
    for number in range(6):
        folder.add(f"{'cat' if number % 2 else 'dog'}/{number}.png", draw(number, 8))
    assert folder.find("small") is None


def test_the_size_of_an_odd_image_is_told(folder, draw):
    folder.fill().add("unlabeled/odd.png", draw(1, 300).resize((300, 310)))
    assert folder.find("large").details == {"unlabeled/odd.png": "300 x 310"}


@pytest.mark.parametrize(("width", "told"), [(150, True), (140, False)])
def test_long_images_are_told(folder, draw, width, told):
    folder.fill().add("unlabeled/odd.png", draw(1).resize((width, 48)))
    assert (folder.find("long") is not None) is told


def test_where_all_images_are_long_none_is_odd(folder, draw):
    for name in ("cat", "dog", "unlabeled"):
        for number in range(8):
            folder.add(f"{name}/{number}.png", draw(hash_of(name, number)).resize((240, 48)))
    assert folder.find("long") is None


def hash_of(name, number):
    return sum(map(ord, name)) * 100 + number


def test_grey_images_among_colour_are_told(folder, draw):
    folder.fill().add("unlabeled/grey.png", draw(1).convert("L"))
    finding = folder.find("mixed-channels")
    assert finding.files == ("unlabeled/grey.png",)
    assert finding.severity == "note"


def test_colour_images_among_grey_are_told(folder, draw):
    for number in range(6):
        folder.add(f"{'cat' if number % 2 else 'dog'}/{number}.png", draw(number).convert("L"))
    folder.add("unlabeled/colour.png", draw(10))
    assert folder.find("mixed-channels").files == ("unlabeled/colour.png",)
