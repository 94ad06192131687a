import os
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from image_files import bomb, encoded, noise, write
from interlude.compat import prepare_torchvision
from interlude.data import decode as module
from interlude.data.decode import Unreadable, decode, look, open_image, read_pixels, remarks, to_pixels_of


def reason_of(path):
    with pytest.raises(Unreadable) as caught:
        open_image(path)
    assert "\n" not in caught.value.reason
    return caught.value.reason


@pytest.mark.parametrize("suffix", ["png", "bmp", "tif", "tiff", "webp"])
def test_a_colour_image_keeps_its_pixels(tmp_path, suffix):
    image = noise(5, 7)
    path = write(tmp_path / f"a.{suffix}", image, **({"lossless": True} if suffix == "webp" else {}))
    assert open_image(path).mode == "RGB"
    assert np.array_equal(np.asarray(open_image(path)), np.asarray(image))


def test_a_grey_image_stays_grey(tmp_path):
    image = noise(5, 7, channels=1)
    opened = open_image(write(tmp_path / "a.png", image))
    assert opened.mode == "L"
    assert np.array_equal(np.asarray(opened), np.asarray(image))


@pytest.mark.parametrize(
    ("mode", "suffix", "expected"),
    [
        ("1", "png", "L"),
        ("P", "png", "RGB"),
        ("CMYK", "jpg", "RGB"),
        ("CMYK", "tif", "RGB"),
        ("LA", "png", "L"),
    ],
)
def test_every_mode_becomes_grey_or_colour(tmp_path, mode, suffix, expected):
    assert open_image(write(tmp_path / f"a.{suffix}", noise(8, 8).convert(mode))).mode == expected


def test_a_cmyk_image_looks_as_the_original(tmp_path):
    flat = Image.new("RGB", (16, 16), (200, 100, 50))
    opened = np.asarray(open_image(write(tmp_path / "a.jpg", flat.convert("CMYK"), quality=95))).astype(int)
    assert np.abs(opened - [200, 100, 50]).max() < 12


def test_transparent_places_are_white(tmp_path):
    pixels = np.zeros((2, 2, 4), np.uint8)
    pixels[0, 0] = (10, 20, 30, 255)
    pixels[0, 1] = (0, 0, 0, 128)
    opened = np.asarray(open_image(write(tmp_path / "a.png", Image.fromarray(pixels))))
    assert opened[0, 0].tolist() == [10, 20, 30]
    assert opened[1, 1].tolist() == [255, 255, 255]
    assert abs(int(opened[0, 1, 0]) - 127) <= 1


def test_a_transparent_colour_of_a_palette_is_white(tmp_path):
    image = Image.new("P", (4, 4), 3)
    image.putpalette([0, 0, 0] * 256)
    opened = open_image(write(tmp_path / "a.png", image, transparency=3))
    assert np.asarray(opened).min() == 255


@pytest.mark.parametrize("suffix", ["png", "tif"])
@pytest.mark.parametrize("top", [4095, 65535])
def test_sixteen_bits_are_stretched_from_darkest_to_brightest(tmp_path, suffix, top):
    values = np.linspace(top // 4, top, 64).astype(np.uint16).reshape(8, 8)
    opened = np.asarray(open_image(write(tmp_path / f"a.{suffix}", Image.fromarray(values))))
    low, high = int(values.min()), int(values.max())
    by_hand = [[round((int(value) - low) * 255 / (high - low)) for value in row] for row in values]
    assert np.abs(opened.astype(int) - by_hand).max() <= 1
    assert (opened.min(), opened.max()) == (0, 255)


def test_a_float_image_may_hold_what_is_no_number(tmp_path):
    values = np.array([[0.25, 0.5], [np.nan, np.inf]], np.float32)
    opened = np.asarray(open_image(write(tmp_path / "a.tif", Image.fromarray(values))))
    assert opened.tolist() == [[0, 255], [0, 0]]


def test_a_float_image_without_numbers_is_unreadable(tmp_path):
    path = write(tmp_path / "a.tif", Image.fromarray(np.full((2, 2), np.nan, np.float32)))
    assert "none of its pixels is a number" in reason_of(path)


def test_a_constant_deep_image_is_black(tmp_path):
    path = write(tmp_path / "a.png", Image.fromarray(np.full((3, 3), 700, np.uint16)))
    assert not np.asarray(open_image(path)).any()


@pytest.mark.parametrize("suffix", ["jpg", "png", "webp", "tif"])
@pytest.mark.parametrize("orientation", range(1, 9))
def test_images_are_upright(tmp_path, suffix, orientation):
    upright = np.zeros((16, 24), np.uint8)
    upright[:8, :8], upright[8:, 16:] = 255, 128
    # how a camera that is held so stores the picture
    turned = {
        1: upright,
        2: upright[:, ::-1],
        3: upright[::-1, ::-1],
        4: upright[::-1],
        5: upright.T,
        6: upright.T[::-1],
        7: upright[::-1, ::-1].T,
        8: upright.T[:, ::-1],
    }[orientation]
    exif = Image.Exif()
    exif[0x0112] = orientation
    image = Image.fromarray(np.ascontiguousarray(turned)).convert("RGB")
    opened = np.asarray(open_image(write(tmp_path / f"a.{suffix}", image, exif=exif)).convert("L")).astype(
        int
    )
    assert np.abs(opened - upright).mean() < 4


def test_damaged_exif_data_do_not_lose_the_image(tmp_path):
    path = write(tmp_path / "a.jpg", noise(8, 8), exif=b"Exif\0\0MM\0*\xff\xff\xff\xff broken")
    assert open_image(path).size == (8, 8)


@pytest.mark.parametrize("kind", ["GIF", "PNG", "WEBP", "TIFF"])
def test_the_first_frame_of_several_is_taken(tmp_path, kind):
    frames = [Image.new("RGB", (8, 8), colour) for colour in ("red", "blue", "green")]
    content = encoded(frames[0], kind, save_all=True, append_images=frames[1:])
    path = tmp_path / {"GIF": "a.gif", "PNG": "a.png", "WEBP": "a.webp", "TIFF": "a.tif"}[kind]
    path.write_bytes(content)
    opened = open_image(path)
    assert np.asarray(opened)[0, 0].tolist() == pytest.approx([255, 0, 0], abs=3)
    assert "the first of several frames is taken" in remarks(opened)


@pytest.mark.parametrize("suffix", ["jpg", "png", "bmp", "webp", "tif"])
@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
def test_a_truncated_file_is_no_half_image(tmp_path, suffix, share):
    path = write(tmp_path / f"a.{suffix}", noise(64, 64))
    content = path.read_bytes()
    path.write_bytes(content[: int(share * len(content))])
    assert reason_of(path)


def test_reasons_are_plain_words(tmp_path):
    (tmp_path / "empty.png").touch()
    (tmp_path / "text.jpg").write_text("no image at all")
    (tmp_path / "folder.png").mkdir()
    assert reason_of(tmp_path / "empty.png") == "the file is empty"
    assert "not an image" in reason_of(tmp_path / "text.jpg")
    assert "folder" in reason_of(tmp_path / "folder.png")
    assert "no such file" in reason_of(tmp_path / "missing.png")
    assert reason_of(tmp_path / "a\0b.png")


def test_a_pipe_does_not_hold_us_up(tmp_path):
    os.mkfifo(tmp_path / "a.png")
    assert "no ordinary file" in reason_of(tmp_path / "a.png")


def test_the_content_decides_what_a_file_is(tmp_path):
    path = tmp_path / "a.png"
    path.write_bytes(encoded(noise(8, 8), "JPEG"))
    assert open_image(path).size == (8, 8)
    assert remarks(open_image(path)) == ("named .png, but it is JPEG",)
    assert remarks(open_image(write(tmp_path / "b.png"))) == ()


def test_a_decompression_bomb_is_refused_with_its_size(tmp_path):
    (tmp_path / "a.png").write_bytes(bomb(50_000))
    assert "2500000000 pixels" in reason_of(tmp_path / "a.png").replace(",", "")


def test_the_limit_is_ours_not_only_that_of_pillow(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "MAX_PIXELS", 60)
    assert "64 pixels, more than the 60 allowed" in reason_of(write(tmp_path / "a.png"))


def test_a_file_too_large_to_be_an_image_is_not_read(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "MAX_BYTES", 10)
    assert "more than the 10 allowed" in reason_of(write(tmp_path / "a.png"))


def test_no_other_program_is_run_for_a_file(tmp_path):
    (tmp_path / "a.png").write_bytes(b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 8 8\n%%EndComments\n")
    assert "not an image" in reason_of(tmp_path / "a.png")


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_any_bytes_give_an_image_or_a_reason(data):
    kind = data.draw(st.sampled_from(["JPEG", "PNG", "BMP", "WEBP", "TIFF", "GIF"]))
    content = bytearray(encoded(noise(12, 10), kind))
    for _ in range(data.draw(st.integers(1, 8))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    with suppress(Unreadable):
        assert decode(bytes(content), "a.png").mode in ("L", "RGB")


def test_a_crop_is_the_centre_of_the_image():
    wide = np.zeros((10, 30, 3), np.uint8)
    wide[:, 10:20] = 200
    pixels = to_pixels_of(Image.fromarray(wide), 3, 10)
    assert pixels.shape == (3, 10, 10)
    assert (pixels == 200).all()


def test_padding_keeps_all_of_the_image_between_black_bars():
    pixels = to_pixels_of(Image.new("L", (30, 10), 200), 1, 30, "pad")
    assert (pixels[0, 10:20] == 200).all()
    assert not pixels[0, :10].any()
    assert not pixels[0, 20:].any()


def test_squashing_keeps_all_and_changes_proportions():
    half = np.zeros((10, 40), np.uint8)
    half[:, 20:] = 200
    pixels = to_pixels_of(Image.fromarray(half), 1, 10, "squash")
    assert (pixels[0, :, :4] == 0).all()
    assert (pixels[0, :, 6:] == 200).all()


def test_a_crop_is_what_torchvision_makes():
    prepare_torchvision()
    from torchvision.transforms import functional

    image = noise(60, 90)
    theirs = functional.center_crop(functional.resize(image, 20), [20, 20])
    ours = to_pixels_of(image, 3, 20).transpose(1, 2, 0).astype(int)
    assert np.abs(ours - np.asarray(theirs)).max() <= 1


@pytest.mark.parametrize(("mode", "channels"), [("L", 3), ("RGB", 1), ("L", 1), ("RGB", 3)])
def test_an_image_gets_the_channels_asked_for(mode, channels):
    pixels = to_pixels_of(noise(8, 9).convert(mode), channels, 4)
    assert pixels.shape == (channels, 4, 4)
    assert pixels.flags.c_contiguous
    if mode == "L":
        assert (pixels == pixels[:1]).all()


def test_a_large_photograph_read_at_a_fraction_looks_the_same(tmp_path):
    image = noise(12, 16).resize((1024, 768), Image.Resampling.BICUBIC)
    path = write(tmp_path / "a.jpg", image, quality=92)
    quick = read_pixels(path, 3, 32).astype(int)
    full = to_pixels_of(open_image(path), 3, 32).astype(int)
    assert np.abs(quick - full).mean() < 2


def test_a_look_tells_size_and_colour_without_decoding(tmp_path):
    assert look(write(tmp_path / "a.png", noise(5, 7))) == (7, 5, False)
    deep = Image.fromarray(np.zeros((4, 4), np.uint16))
    assert look(write(tmp_path / "b.png", deep)).grey
    (tmp_path / "c.png").touch()
    with pytest.raises(Unreadable, match="empty"):
        look(tmp_path / "c.png")
    assert look(Path(write(tmp_path / "d.png", noise(3, 3, channels=1)))).grey
