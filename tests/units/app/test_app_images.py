"""Images by number, and small versions of them."""

import io

import pytest
from PIL import Image

from interlude.app.images import Album
from interlude.app.labels import Missing
from interlude.errors import UserError


@pytest.fixture
def album(folder, tmp_path):
    return Album(folder, tmp_path / "cache")


def opened(thumbnail):
    return Image.open(io.BytesIO(thumbnail.content))


def test_images_are_listed_by_name_and_hidden_folders_are_passed_over(folder, tmp_path):
    (folder / ".interlude").mkdir()
    Image.new("L", (9, 9)).save(folder / ".interlude" / "0.png")
    assert Album(folder, tmp_path).paths == [f"{letter}.png" for letter in "abcdefghijkl"]


def test_a_large_picture_becomes_small_and_keeps_its_proportions(folder, album, tmp_path):
    Image.new("RGB", (2000, 1000), "red").save(folder / "a.png")
    small = album.thumbnail(0, 160)
    assert small.kind == "image/jpeg"
    assert opened(small).size == (160, 80)


def test_a_tiny_picture_is_sent_as_it_is(folder, album):
    pixels = Image.effect_noise((30, 20), 50)
    pixels.save(folder / "a.png")
    small = album.thumbnail(0, 160)
    assert small.kind == "image/png"
    assert opened(small).tobytes() == pixels.tobytes()


def test_a_small_version_is_made_once_and_again_when_the_file_changes(folder, album, monkeypatch):
    Image.new("RGB", (500, 500), "red").save(folder / "a.png")
    first = album.thumbnail(0, 160)
    monkeypatch.setattr(album, "picture", lambda row, side: pytest.fail("it was kept"))
    assert album.thumbnail(0, 160) == first
    monkeypatch.undo()
    Image.new("RGB", (500, 400), "blue").save(folder / "a.png")
    assert opened(album.thumbnail(0, 160)).size == (160, 128)


def test_without_a_place_to_keep_them_small_versions_are_made_all_the_same(folder, tmp_path):
    Image.new("RGB", (500, 500), "red").save(folder / "a.png")
    (tmp_path / "cache").write_text("a file, no folder")
    assert opened(Album(folder, tmp_path / "cache").thumbnail(0, 160)).size == (160, 160)


@pytest.mark.parametrize("content", [b"", b"no picture"])
def test_a_file_that_cannot_be_read_has_a_sign_in_its_place(folder, album, content):
    (folder / "a.png").write_bytes(content)
    small = album.thumbnail(0, 160)
    assert small.broken
    assert small.kind == "image/svg+xml"


def test_a_file_that_vanished_has_a_sign_in_its_place(folder, album):
    (folder / "a.png").unlink()
    assert album.thumbnail(0, 160).broken


@pytest.mark.parametrize("row", [-1, 12, 10**9])
def test_there_is_no_image_beyond_the_list(album, row):
    with pytest.raises(Missing):
        album.file(row)


def test_a_link_that_leads_out_of_the_folder_later_is_refused(folder, album, tmp_path):
    secret = tmp_path / "secret.png"
    Image.new("L", (9, 9)).save(secret)
    (folder / "a.png").unlink()
    (folder / "a.png").symlink_to(secret)
    with pytest.raises(Missing, match="out of the folder"):
        album.thumbnail(0, 160)


def test_a_folder_without_images_is_said(tmp_path):
    (tmp_path / "empty").mkdir()
    with pytest.raises(UserError, match="there is no image"):
        Album(tmp_path / "empty", tmp_path)


@pytest.mark.parametrize("name", [b"a\xff.png", b" a.png"])
def test_a_name_that_no_table_can_hold_is_left_out(folder, tmp_path, name):
    Image.new("L", (9, 9)).save(bytes(folder) + b"/" + name, "PNG")
    album = Album(folder, tmp_path)
    assert (len(album), album.num_left_out) == (12, 1)


def test_names_have_a_fingerprint(folder, tmp_path, album):
    assert Album(folder, tmp_path).digest() == album.digest()
    (folder / "a.png").rename(folder / "z.png")
    assert Album(folder, tmp_path).digest() != album.digest()
