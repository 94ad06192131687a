import zlib

import numpy as np
import pytest
from small_files import frame, write_metaimage

from interlude.data.metaimage import read_metaimage
from interlude.errors import UserError


def test_a_picture_is_read_line_by_line_with_its_pixel_size(tmp_path):
    pixels = np.arange(6, dtype=np.uint8).reshape(2, 3)
    write_metaimage(tmp_path / "a.mhd", pixels, spacing="0.3 0.15 1")
    picture = read_metaimage(tmp_path / "a.mhd")
    assert picture.pixels.tolist() == [[0, 1, 2], [3, 4, 5]]
    assert (picture.pixel_width, picture.pixel_height) == (0.3, 0.15)


def test_of_a_stack_the_first_is_read(tmp_path):
    stack = np.stack([frame(1, 9, 5), frame(2, 9, 5)])
    write_metaimage(tmp_path / "a.mhd", stack)
    assert np.array_equal(read_metaimage(tmp_path / "a.mhd").pixels, stack[0])


def test_packed_bytes_are_unpacked(tmp_path):
    pixels = frame(1, 9, 5)
    write_metaimage(tmp_path / "a.mhd", pixels, CompressedData="True")
    (tmp_path / "a.raw").write_bytes(zlib.compress(pixels.tobytes()))
    assert np.array_equal(read_metaimage(tmp_path / "a.mhd").pixels, pixels)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"DimSize": None}, "the header has no DimSize"),
        ({"ElementDataFile": None}, "the header has no ElementDataFile"),
        ({"DimSize": "5 nine 1"}, "sizes that are no numbers"),
        ({"DimSize": "5 9 2"}, r"a\.raw has 45 bytes, but a\.mhd announces 90"),
        ({"DimSize": "45"}, "is no picture"),
        ({"ElementSpacing": "0.1 0"}, "is no picture"),
        ({"ElementType": "MET_SHORT"}, "only pictures of one byte a pixel .* this has MET_SHORT"),
        ({"ElementDataFile": "gone.raw"}, r"gone\.raw cannot be read"),
        ({"CompressedData": "True"}, r"a\.raw is damaged"),
    ],
)
def test_a_file_that_is_no_picture_is_refused(tmp_path, changes, message):
    write_metaimage(tmp_path / "a.mhd", frame(1, 9, 5), **changes)
    with pytest.raises(UserError, match=message) as caught:
        read_metaimage(tmp_path / "a.mhd")
    assert "\n" not in str(caught.value)


def test_a_header_of_bytes_is_refused(tmp_path):
    (tmp_path / "a.mhd").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(UserError, match="is no MetaImage header"):
        read_metaimage(tmp_path / "a.mhd")
