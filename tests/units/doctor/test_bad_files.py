"""Every kind of file that people have by mistake: each is a row, and none ends the examination."""

import os

import pytest
from PIL import Image

from bad_files import NAMES, ODD, UNREADABLE, random_pixels
from image_files import encoded
from interlude.doctor.scan import look, scan


@pytest.mark.parametrize("name", UNREADABLE)
def test_a_file_that_is_no_picture_is_a_row_with_its_reason(folder, name):
    folder.fill().add(f"unlabeled/{name}", UNREADABLE[name])
    diagnosis = folder.examine()
    (finding,) = diagnosis.findings
    assert (finding.kind, finding.severity) == ("unreadable", "warn")
    assert finding.says == "1 of 29 files cannot be read as an image."
    assert finding.details.keys() == diagnosis.excluded.keys() == {f"unlabeled/{name}"}
    assert "\n" not in finding.details[f"unlabeled/{name}"]
    assert diagnosis.roles["unlabeled"] == 20


def test_the_reasons_say_what_is_wrong(folder):
    folder.fill()
    for name, content in UNREADABLE.items():
        folder.add(f"unlabeled/{name}", content)
    reasons = {path.split("/")[1]: reason for path, reason in folder.find("unreadable").details.items()}
    assert reasons.keys() == UNREADABLE.keys()
    assert "empty" in reasons["empty.png"]
    assert "damaged" in reasons["truncated.png"]
    assert "pixels" in reasons["bomb.png"]


def test_a_large_photo_is_read_in_part_but_judged_whole(folder, draw):
    whole = folder.add("unlabeled/large.jpg", draw(1, 1600).crop((0, 0, 1600, 1200)))
    seen = look(whole)
    assert seen.size == (1600, 1200)
    whole.write_bytes(whole.read_bytes()[:-500])
    assert "damaged" in look(whole)


def test_where_no_file_can_be_read_training_stops(folder):
    folder.add("cat/1.png", b"")
    folder.add("dog/1.png", b"")
    diagnosis = folder.examine()
    assert "unreadable" in {finding.kind for finding in diagnosis.stops}
    assert diagnosis.roles == {"labeled": 0, "unlabeled": 0, "validation": 0, "test": 0}


def test_a_file_that_nobody_may_read_is_a_row(tmp_path, monkeypatch):
    def refuse(*args):
        raise PermissionError(13, "Permission denied")

    (tmp_path / "a.png").write_bytes(encoded(Image.fromarray(random_pixels(9, 9)), "PNG"))
    monkeypatch.setattr(os, "open", refuse)
    assert look(tmp_path / "a.png") == "permission denied"


def test_a_file_that_vanishes_is_a_row(tmp_path):
    assert scan(tmp_path, ["gone.png"], quiet=True).unreadable == {0: "no such file or directory"}


@pytest.mark.parametrize("name", ODD)
def test_a_picture_in_an_unusual_form_is_used_and_told(folder, name):
    content, words = ODD[name]
    folder.fill().add(f"unlabeled/{name}", content)
    assert words in folder.find("remark").says
    diagnosis = folder.examine()
    assert diagnosis.roles["unlabeled"] == 21
    assert not diagnosis.excluded
    assert not diagnosis.stops


@pytest.mark.parametrize("mode", ["P", "1", "L"])
def test_a_picture_in_a_usual_form_is_used_without_a_word(folder, mode):
    folder.fill().add("unlabeled/a.png", Image.fromarray(random_pixels(48, 48)).convert(mode))
    diagnosis = folder.examine()
    assert diagnosis.roles["unlabeled"] == 21
    assert "remark" not in {finding.kind for finding in diagnosis.findings}


def test_an_animation_is_used_and_told(folder, draw):
    folder.fill().add("unlabeled/film.webp", draw(1), save_all=True, append_images=[draw(2)])
    finding = folder.find("remark")
    assert finding.files == ("unlabeled/film.webp",)
    assert "frames" in finding.says


def test_a_wrong_name_is_told(folder, draw):
    folder.fill().add("unlabeled/wrong.png", draw(1), format="JPEG")
    finding = folder.find("remark")
    assert finding.severity == "note"
    assert finding.says == "1 file: named .png, but it is JPEG."


@pytest.mark.parametrize("name", NAMES)
def test_any_name_will_do(folder, name):
    folder.fill().add(f"unlabeled/{name}", b"")
    assert folder.find("unreadable").files == (f"unlabeled/{name}",)


def test_a_name_that_is_no_text_will_do(folder):
    folder.fill()
    with open(os.path.join(os.fsencode(folder.root), b"unlabeled", b"\xff\xfe.png"), "wb"):  # noqa: PTH118, PTH123
        pass
    finding = folder.find("unreadable")
    assert [os.fsencode(path) for path in finding.files] == [b"unlabeled/\xff\xfe.png"]


def test_a_folder_with_the_name_of_an_image_is_told(folder):
    folder.fill().add("unlabeled/a.png/inside.png")
    finding = folder.find("folder")
    assert finding.files == ("unlabeled/a.png",)
    assert folder.examine().roles["unlabeled"] == 21


def test_a_pipe_with_the_name_of_an_image_is_told_and_not_read(folder):
    folder.fill()
    os.mkfifo(folder.root / "unlabeled/pipe.png")
    assert folder.find("no-file").files == ("unlabeled/pipe.png",)
    assert folder.find("unreadable") is None


def test_links_are_told_or_found_to_be_copies(folder, tmp_path):
    folder.fill()
    (folder.root / "unlabeled/nowhere.png").symlink_to("nothing.png")
    (folder.root / "unlabeled/again.png").symlink_to("0.png")
    (tmp_path / "outside.png").write_bytes(b"")
    (folder.root / "unlabeled/outside.png").symlink_to(tmp_path / "outside.png")
    assert set(folder.find("link").files) == {"unlabeled/nowhere.png", "unlabeled/outside.png"}
    assert folder.find("duplicates:unlabeled-unlabeled").count == 2


def test_nothing_in_the_folder_is_changed(folder):
    folder.fill(test=2).add("train/cat/broken.png", b"")

    def state():
        return {path: (path.stat().st_mtime_ns, path.stat().st_size) for path in folder.root.rglob("*")}

    before = state()
    folder.examine()
    assert state() == before


def test_the_same_photo_in_two_files_is_the_same_and_a_smaller_one_is_not(tmp_path, draw):
    photo = draw(1, 1600)
    photo.save(tmp_path / "a.jpg")
    photo.save(tmp_path / "b.jpg", comment="another file")
    photo.resize((800, 800)).save(tmp_path / "c.jpg")
    a, b, c = (look(tmp_path / f"{name}.jpg") for name in "abc")
    assert a.pixels == b.pixels
    assert a.pixels != c.pixels
