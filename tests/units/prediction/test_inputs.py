"""Which files the arguments of `predict` mean."""

import io
import os
import sys

import pytest

from interlude.errors import UserError
from interlude.prediction import inputs
from interlude.prediction.inputs import Inputs, walk


@pytest.fixture
def tree(tmp_path, monkeypatch):
    """Files in folders, some of which are not images by name."""
    monkeypatch.chdir(tmp_path)
    for name in ("b.png", "a.JPG", "c/d.tif", "c/notes.txt", ".hidden.png", "e.png/f.webp", "__MACOSX/g.png"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.touch()
    return tmp_path


def test_a_folder_means_the_images_below_it_in_order(tree):
    assert list(walk(".")) == ["./a.JPG", "./b.png", "./c/d.tif", "./e.png/f.webp"]


def test_a_very_large_folder_is_read_in_pieces(tree, monkeypatch):
    monkeypatch.setattr(inputs, "PIECE", 2)
    assert sorted(walk(".")) == ["./a.JPG", "./b.png", "./c/d.tif", "./e.png/f.webp"]


def test_a_link_back_to_a_folder_is_not_followed(tree):
    (tree / "c/up").symlink_to(tree)
    assert Inputs(["c"]).listed().number == 1


def test_files_folders_and_patterns_can_be_mixed(tree):
    assert list(Inputs(["b.png", "c", "*.JPG", "missing.png"])) == [
        "b.png",
        "c/d.tif",
        "a.JPG",
        "missing.png",
    ]
    assert list(Inputs(["**/*.tif"])) == ["c/d.tif"]


def test_a_file_named_like_a_pattern_is_that_file(tree):
    (tree / "[b].png").touch()
    assert list(Inputs(["[b].png"])) == ["[b].png"]


def test_a_pattern_without_a_file_is_a_user_error(tree):
    with pytest.raises(UserError, match=r"no file matches \*\.gif"):
        list(Inputs(["*.gif"]))


def test_a_list_has_a_name_a_line_whatever_its_line_ends(tree):
    (tree / "list").write_bytes(b"\xef\xbb\xbfb.png\r\n\r\nc\nlast.png")
    assert list(Inputs(["@list"])) == ["b.png", "c/d.tif", "last.png"]


def test_names_with_newlines_come_between_nuls(tree, monkeypatch):
    monkeypatch.setattr(inputs, "CHUNK", 9)
    (tree / "list").write_bytes(b"x\ny.png\0b.png\0")
    assert list(Inputs(["@list"])) == ["x\ny.png", "b.png"]


def test_a_list_without_a_file_is_a_user_error(tree):
    with pytest.raises(UserError, match="the list gone cannot be read"):
        list(Inputs(["@gone"]))


def test_standard_input_can_be_gone_through_twice(tree, monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"b.png\n\xff.png\n")))
    given = Inputs(["@-"])
    assert given.listed().number == 2
    assert [os.fsencode(name) for name in given] == [b"b.png", b"\xff.png"]


def test_the_fingerprint_of_a_list_is_that_of_its_names_in_order(tree):
    one, other = Inputs(["b.png", "c"]).listed(), Inputs(["c", "b.png"]).listed()
    assert one == Inputs(["b.png", "c/d.tif"]).listed()
    assert (one.number, one.digest != other.digest) == (other.number, True)
