import numpy as np
import pytest
from PIL import Image
from small_files import frame, write_csv

from interlude.data.echo import open_picture, read_table, stretch, to_images, to_square
from interlude.errors import UserError


def test_a_picture_of_the_right_size_is_left_alone():
    pixels = frame(1)
    assert np.array_equal(to_square(Image.fromarray(pixels)), pixels)


@pytest.mark.parametrize(
    ("width", "height", "inner_width", "inner_height"),
    [(200, 151, 112, 84), (151, 200, 84, 112), (50, 50, 112, 112), (112, 60, 112, 60), (1000, 3, 112, 1)],
)
def test_the_longest_side_is_scaled_and_the_rest_is_black(width, height, inner_width, inner_height):
    square = to_square(Image.new("L", (width, height), 200))
    expected = np.zeros((112, 112), np.uint8)
    expected[:inner_height, :inner_width] = 200
    assert np.array_equal(square, expected)


def test_colours_become_grey():
    square = to_square(Image.new("RGB", (112, 112), (255, 0, 0)))
    assert (square == 76).all()  # 0.299 of 255


def test_levels_are_spread_over_all():
    levels = stretch(np.arange(50, 101, dtype=np.uint8))
    assert levels.tolist() == [min(255, (value - 50) * 256 // 50) for value in range(50, 101)]


def test_levels_that_are_spread_already_stay():
    levels = np.arange(256, dtype=np.uint8)
    assert np.array_equal(stretch(levels), levels)


def test_a_picture_of_one_level_is_black():
    assert not stretch(np.full((2, 2), 9, np.uint8)).any()


def test_three_channels_take_the_memory_of_one():
    images = to_images(np.stack([frame(1), frame(2)]), [0, 3])
    assert images.channels == 3
    assert images.pixels.untyped_storage().nbytes() == 2 * 112 * 112


def test_a_damaged_picture_is_named(tmp_path):
    (tmp_path / "a.png").write_bytes(b"\x89PNG nothing")
    with pytest.raises(UserError, match=r"a\.png cannot be read as a picture"):
        open_picture(tmp_path / "a.png")


def test_a_table_without_a_column_says_what_it_has(tmp_path):
    write_csv(tmp_path / "a.csv", ("file", "views"), [("a.png", "plax")])
    with pytest.raises(UserError, match=r"a\.csv: no column view; it has file, views"):
        read_table(tmp_path / "a.csv", ("file", "view"))


@pytest.mark.parametrize(
    ("content", "message"),
    [(b"", "no column file, view; it has none"), (b"\xff\xfe", "no CSV"), (b"file,view\na.png\n", "shorter")],
)
def test_a_file_that_is_no_table_is_refused(tmp_path, content, message):
    (tmp_path / "a.csv").write_bytes(content)
    with pytest.raises(UserError, match=message):
        read_table(tmp_path / "a.csv", ("file", "view"))


def test_a_byte_order_mark_is_not_part_of_a_column(tmp_path):
    (tmp_path / "a.csv").write_bytes(b"\xef\xbb\xbffile,view\na.png,plax\n")
    assert read_table(tmp_path / "a.csv", ("file", "view")) == [{"file": "a.png", "view": "plax"}]
