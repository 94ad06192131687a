import os
import sqlite3
from collections import namedtuple
from pathlib import Path

import numpy as np
import pytest
import torch

from image_files import noise, write
from interlude.data import store as module
from interlude.data.decode import read_pixels
from interlude.data.store import InColour, Shape, Streamed, cache_folder, open_store
from interlude.errors import RunError, UserError

SHAPE = Shape(3, 8, "crop")


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("INTERLUDE_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def root(tmp_path):
    """Forty images, more than a thread takes at once."""
    for number in range(40):
        write(tmp_path / "images" / f"{number:02d}.png", noise(9, 12, seed=number))
    return tmp_path / "images"


@pytest.fixture
def decoded(monkeypatch):
    """The names of the files that were decoded, in any order."""
    names, decode = [], module.decode

    def spy(content, name, **options):
        names.append(Path(name).name)
        return decode(content, name, **options)

    monkeypatch.setattr(module, "decode", spy)
    return names


def names_in(root):
    return sorted(path.name for path in root.iterdir())


def expected(root, names):
    return torch.stack([torch.from_numpy(read_pixels(root / name, *SHAPE)) for name in names])


def images_of(stored):
    return stored.pixels.index_select(0, torch.from_numpy(stored.rows))


@pytest.mark.parametrize("keep", [True, False])
@pytest.mark.parametrize("threads", [1, 3])
def test_the_images_are_those_of_the_files(root, keep, threads, monkeypatch):
    monkeypatch.setattr(module.machine, "threads", lambda: namedtuple("Cores", "number")(threads))
    names = names_in(root)
    stored = open_store(root, names, SHAPE, keep=keep)
    assert torch.equal(images_of(stored), expected(root, names))
    assert stored.pixels.shape == (40, 3, 8, 8)
    assert torch.equal(stored.pixels[3:5], expected(root, names[3:5]))
    assert stored.problems == []


def test_nothing_is_decoded_twice(root, decoded):
    names = names_in(root)
    first = open_store(root, names, SHAPE)
    assert sorted(decoded) == names
    decoded.clear()
    again = open_store(root, names, SHAPE)
    assert decoded == []
    assert torch.equal(images_of(first), images_of(again))
    assert np.array_equal(first.digests, again.digests)


def test_pixels_are_mapped_not_copied(root):
    stored = open_store(root, names_in(root), SHAPE)
    (file,) = cache_folder().glob("*/pixels")
    assert file.stat().st_size == 40 * 3 * 8 * 8
    content = bytearray(file.read_bytes())
    content[0] ^= 255
    with file.open("r+b") as out:
        out.write(content)
    assert int(stored.pixels[0].flatten()[0]) == content[0]


def test_a_changed_file_is_decoded_again(root, decoded):
    names = names_in(root)
    before = open_store(root, names, SHAPE)
    kept = images_of(before).clone()
    write(root / "07.png", noise(9, 12, seed=99))
    decoded.clear()
    after = open_store(root, names, SHAPE)
    assert decoded == ["07.png"]
    assert torch.equal(images_of(after), expected(root, names))
    assert torch.equal(images_of(before), kept), "a run in progress keeps what it trains on"
    changed = (before.digests != after.digests).any(1)
    assert changed.nonzero()[0].tolist() == [7]


def test_a_file_that_was_only_touched_is_not_decoded(root, decoded):
    names = names_in(root)
    open_store(root, names, SHAPE)
    os.utime(root / "07.png", ns=(1, 1))
    decoded.clear()
    assert torch.equal(images_of(open_store(root, names, SHAPE)), expected(root, names))
    assert decoded == []


def test_new_and_removed_files_change_only_themselves(root, decoded):
    open_store(root, names_in(root), SHAPE)
    (root / "03.png").unlink()
    write(root / "03b.png", noise(9, 9, seed=123))
    decoded.clear()
    names = names_in(root)
    assert torch.equal(images_of(open_store(root, names, SHAPE)), expected(root, names))
    assert decoded == ["03b.png"]


def test_a_bad_file_is_a_problem_and_not_a_stop(root):
    (root / "05.png").write_bytes(b"")
    (root / "06.png").write_bytes((root / "07.png").read_bytes()[:60])
    names = [*names_in(root), "gone.png"]
    for _ in range(2):  # what cannot be read is tried again each time
        stored = open_store(root, names, SHAPE)
        assert [problem.path for problem in stored.problems] == ["05.png", "06.png", "gone.png"]
        assert {problem.kind for problem in stored.problems} == {"unreadable"}
        assert np.flatnonzero(stored.rows < 0).tolist() == [5, 6, 40]
        good = [name for name, row in zip(names, stored.rows, strict=True) if row >= 0]
        assert torch.equal(
            stored.pixels[torch.from_numpy(stored.rows[stored.rows >= 0])], expected(root, good)
        )


def test_a_repaired_file_is_read(root):
    content = (root / "05.png").read_bytes()
    (root / "05.png").write_bytes(b"")
    open_store(root, names_in(root), SHAPE)
    (root / "05.png").write_bytes(content)
    names = names_in(root)
    assert torch.equal(images_of(open_store(root, names, SHAPE)), expected(root, names))


def test_only_unreadable_files_make_an_empty_store(root):
    (root / "00.png").write_bytes(b"")
    stored = open_store(root, ["00.png"], SHAPE)
    assert stored.rows.tolist() == [-1]
    assert stored.pixels.shape == (0, 3, 8, 8)


def test_colour_is_not_lost_in_a_grey_store(root):
    with pytest.raises(InColour):
        open_store(root, names_in(root), SHAPE._replace(channels=1))


def test_each_shape_has_a_store_of_its_own(root):
    names = names_in(root)
    open_store(root, names, SHAPE)
    assert open_store(root, names, SHAPE._replace(side=5)).pixels.shape == (40, 3, 5, 5)
    padded = open_store(root, names, SHAPE._replace(fit="pad"))
    assert not torch.equal(images_of(padded), images_of(open_store(root, names, SHAPE)))
    assert len(list(cache_folder().iterdir())) == 3


def test_streaming_keeps_an_index_and_no_pixels(root, decoded):
    names = names_in(root)
    streamed = open_store(root, names, SHAPE, keep=False)
    assert isinstance(streamed.pixels, Streamed)
    assert sorted(decoded) == names
    assert not list(cache_folder().glob("*/pixels"))
    decoded.clear()
    open_store(root, names, SHAPE, keep=False)
    assert decoded == []
    assert np.array_equal(streamed.digests, open_store(root, names, SHAPE).digests)


def test_streaming_says_which_file_went_bad(root):
    stored = open_store(root, names_in(root), SHAPE, keep=False)
    (root / "09.png").write_bytes(b"")
    with pytest.raises(RunError, match=r"09.png was an image when the run began.*the file is empty"):
        stored.pixels.index_select(0, torch.tensor([1, 9]))


def test_what_was_written_before_a_stop_is_kept(root, decoded, monkeypatch):
    names = names_in(root)
    monkeypatch.setattr(module, "FLUSH_SECONDS", 0)
    monkeypatch.setattr(module.machine, "threads", lambda: namedtuple("Cores", "number")(1))
    read = module._Opening._read

    def stop(self, files):
        if 32 in files:
            raise KeyboardInterrupt
        return read(self, files)

    monkeypatch.setattr(module._Opening, "_read", stop)
    with pytest.raises(KeyboardInterrupt):
        open_store(root, names, SHAPE)
    assert sorted(decoded) == names[:32]
    decoded.clear()
    monkeypatch.setattr(module._Opening, "_read", read)
    assert torch.equal(images_of(open_store(root, names, SHAPE)), expected(root, names))
    assert sorted(decoded) == names[32:]


def test_pixels_without_entry_and_half_a_row_are_passed_over(root):
    names = names_in(root)
    open_store(root, names[:20], SHAPE)
    (file,) = cache_folder().glob("*/pixels")
    with file.open("ab") as out:
        out.write(b"\1" * 300)  # a row and a half
    assert torch.equal(images_of(open_store(root, names, SHAPE)), expected(root, names))


def test_pixels_that_were_cut_off_are_made_again(root, decoded):
    names = names_in(root)
    open_store(root, names, SHAPE)
    (file,) = cache_folder().glob("*/pixels")
    os.truncate(file, 30 * 192 + 100)
    decoded.clear()
    assert torch.equal(images_of(open_store(root, names, SHAPE)), expected(root, names))
    assert sorted(decoded) == names[30:]


def test_a_damaged_index_is_made_again(root):
    names = names_in(root)
    open_store(root, names, SHAPE)
    (index,) = cache_folder().glob("*/index.sqlite")
    index.write_bytes(b"this is no database, and never was one" * 100)
    assert torch.equal(images_of(open_store(root, names, SHAPE)), expected(root, names))


def test_a_store_that_is_mostly_waste_is_made_anew(root):
    names = names_in(root)
    for seed in range(100, 104):
        for name in names:
            write(root / name, noise(9, 12, seed=seed + int(name[:2]) * 7))
        before = open_store(root, names, SHAPE)
        assert torch.equal(images_of(before), expected(root, names))
    (file,) = cache_folder().glob("*/pixels")
    assert file.stat().st_size <= 3 * 40 * 192


def test_where_the_disk_is_short_images_are_streamed_until_there_is_room(root, decoded, monkeypatch, capsys):
    usage, names = namedtuple("Usage", "total used free"), names_in(root)
    with monkeypatch.context() as short:
        short.setattr(module.shutil, "disk_usage", lambda path: usage(1, 1, 1000))
        streamed = open_store(root, names, SHAPE)
    assert isinstance(streamed.pixels, Streamed)
    assert torch.equal(images_of(streamed), expected(root, names))
    assert "40 images of 8 pixels a side need 0.0 GB" in capsys.readouterr().err
    decoded.clear()
    stored = open_store(root, names, SHAPE)
    assert isinstance(stored.pixels, torch.Tensor)
    assert sorted(decoded) == sorted(names)
    assert torch.equal(images_of(stored), expected(root, names))


def test_a_changed_file_whose_time_was_set_back_is_decoded_again(root, decoded):
    names = names_in(root)
    open_store(root, names, SHAPE)
    path, before = root / "07.png", (root / "07.png").stat()
    content = bytearray(path.read_bytes())
    path.write_bytes((root / "08.png").read_bytes()[: len(content)].ljust(len(content), b"\0"))
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert path.stat().st_size == before.st_size
    decoded.clear()
    open_store(root, names, SHAPE)
    assert decoded == ["07.png"]


def test_a_disk_that_fills_up_during_the_work_is_told(root, monkeypatch):
    def full(self):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(module._Pixels, "flush", full)
    with pytest.raises(UserError, match=r"no space left on device.*INTERLUDE_CACHE"):
        open_store(root, names_in(root), SHAPE)


def test_a_place_that_cannot_be_written_is_told_and_streaming_needs_none(root, tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.setenv("INTERLUDE_CACHE", str(tmp_path / "file"))
    names = names_in(root)
    with pytest.raises(UserError, match=r"cannot keep decoded images in .*file"):
        open_store(root, names, SHAPE)
    assert torch.equal(images_of(open_store(root, names, SHAPE, keep=False)), expected(root, names))


def test_a_locked_index_is_no_damaged_one(root, monkeypatch):
    names = names_in(root)
    open_store(root, names, SHAPE)
    (path,) = cache_folder().glob("*/index.sqlite")
    monkeypatch.setattr("interlude.data.index.PATIENCE", 0.1)
    other = sqlite3.connect(path)
    other.execute("BEGIN EXCLUSIVE")
    with pytest.raises(UserError, match="locked"):
        open_store(root, names, SHAPE)
    other.close()
    assert not path.with_suffix(".damaged").exists()
