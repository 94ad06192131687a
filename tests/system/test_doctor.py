"""The verb `doctor` as a person types it."""

import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from PIL import Image

from processes import listening

KEYS = {
    "schema",
    "report",
    "folder",
    "images",
    "stops",
    "severities",
    "roles",
    "classes",
    "findings",
    "excluded",
}


@pytest.fixture
def images(tmp_path):
    """A folder `images` of cats and dogs in which nothing is wrong."""
    rng = np.random.default_rng(0)
    for name, count in (("cat", 4), ("dog", 4), ("unlabeled", 12)):
        (tmp_path / "images" / name).mkdir(parents=True)
        for number in range(count):
            pixels = rng.integers(0, 256, (32, 32, 3), np.uint8)
            Image.fromarray(pixels).save(tmp_path / "images" / name / f"{number}.png")
    return tmp_path / "images"


def break_it(images):
    """The same picture under two labels, and a file that is none."""
    (images / "dog/copy.png").write_bytes((images / "cat/0.png").read_bytes())
    (images / "unlabeled/[bold]new\nline.png").write_bytes(b"")


def test_a_good_folder_ends_well(interlude, images):
    outcome = interlude("doctor", "images")
    assert outcome.code == 0, outcome.err
    assert "images: 20 images, 2 classes; readable: 8 labeled, 12 unlabeled" in outcome.out
    assert "Nothing odd was found." in outcome.out


def test_a_finding_that_stops_training_is_exit_code_1(interlude, images):
    break_it(images)
    outcome = interlude("doctor", "images")
    assert outcome.code == 1
    assert outcome.err.splitlines()[-1] == "error: 1 finding would stop training; see above what to do"
    assert "two labels" in outcome.out
    assert "-> Look at them" in outcome.out
    assert "cat/0.png (cat) = dog/copy.png (dog)" in outcome.out
    assert "\x1b[" not in outcome.out


def test_a_warning_alone_is_exit_code_0(interlude, images):
    (images / "unlabeled/broken.png").write_bytes(b"")
    outcome = interlude("doctor", "images")
    assert outcome.code == 0
    assert "Nothing here stops training. 1 file will be left out of training." in outcome.out


def test_names_are_shown_on_one_line_and_never_as_markup(interlude, images):
    break_it(images)
    assert r"[bold]new\nline.png (the file is empty)" in interlude("doctor", "images").out


def test_names_of_classes_are_no_markup_either(interlude, images):
    (images / "[red]eel").mkdir()
    (images / "dog/3.png").rename(images / "[red]eel/3.png")
    outcome = interlude("doctor", "images")
    assert "1 class with one label only: [red]eel." in outcome.out
    assert "[red]eel        1" in outcome.out


def test_the_findings_are_kept_as_json_outside_of_the_folder(interlude, images, tmp_path):
    break_it(images)
    before = sorted(images.rglob("*"))
    interlude("doctor", "images")
    report = json.loads((tmp_path / "doctor.json").read_text())
    assert report.keys() == KEYS
    assert (report["schema"], report["report"], report["images"]) == (1, "interlude doctor", 22)
    assert report["stops"] is True
    assert report["severities"] == {"stop": 1, "warn": 1, "note": 0}
    assert report["roles"] == {"labeled": 9, "unlabeled": 12, "validation": 0, "test": 0}
    assert report["excluded"].keys() == {"cat/0.png", "dog/copy.png", "unlabeled/[bold]new\nline.png"}
    first = report["findings"][0]
    assert first.keys() == {"kind", "severity", "says", "do", "count", "files", "details", "sets"}
    assert first["sets"] == [["cat/0.png", "dog/copy.png"]]
    assert sorted(images.rglob("*")) == before


def test_json_is_printed_alone_and_no_file_is_written(interlude, images, tmp_path):
    break_it(images)
    outcome = interlude("doctor", "images", "--json")
    assert json.loads(outcome.out).keys() == KEYS
    assert outcome.code == 1
    assert not (tmp_path / "doctor.json").exists()


def test_an_earlier_report_is_replaced_and_nothing_else_is(interlude, images, tmp_path):
    assert interlude("doctor", "images", "--out", "a.json").code == 0
    break_it(images)
    assert interlude("doctor", "images", "--out", "a.json").code == 1
    assert json.loads((tmp_path / "a.json").read_text())["stops"] is True
    (tmp_path / "mine.json").write_text('{"my": "work"}')
    outcome = interlude("doctor", "images", "--out", "mine.json")
    assert outcome.code == 2
    assert (tmp_path / "mine.json").read_text() == '{"my": "work"}'
    assert sorted(path.name for path in tmp_path.glob("*.json*")) == ["a.json", "mine.json"]


def test_nothing_is_written_into_the_folder_of_images(interlude, images, monkeypatch):
    assert interlude("doctor", "images", "--out", "images/report.json").code == 2
    monkeypatch.chdir(images)
    outcome = interlude("doctor", ".")
    assert outcome.code == 0
    assert "doctor.json is not written" in outcome.err
    assert not list(images.glob("*.json"))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["nowhere"], "does not exist"),
        (["empty"], "no image"),
        (["images", "--out", "no/such/place.json"], "does not exist"),
        (["images", "--labels", "none.csv"], "cannot read the label file"),
        (["images", "--colour"], "--colour"),
        ([], "FOLDER"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(interlude, images, tmp_path, options, words):
    (tmp_path / "empty").mkdir()
    outcome = interlude("doctor", *options)
    assert outcome.code == 2
    assert words in outcome.err
    assert len(outcome.err.splitlines()) == 1


def test_a_table_and_its_groups_are_taken(interlude, images, tmp_path):
    rows = [
        f"{name}/{n}.png,{name},{'test' if n == 3 else 'train'},{n % 3}"
        for name in ("cat", "dog")
        for n in range(4)
    ]
    (tmp_path / "t.csv").write_text("\n".join(["file_name,label,split,patient", *rows]))
    outcome = interlude("doctor", "images", "--labels", "t.csv", "--group", "patient", "--json")
    kinds = {finding["kind"] for finding in json.loads(outcome.out)["findings"]}
    assert "group-crossing:labeled-test" in kinds
    assert outcome.code == 1


def test_many_classes_and_files_are_cut_short_on_screen_but_not_in_the_file(interlude, images, tmp_path):
    for number in range(30):
        (images / f"class {number}").mkdir()
        (images / f"class {number}/a.png").write_bytes(b"")
    outcome = interlude("doctor", "images")
    assert "... and 12 more" in outcome.out
    assert "and 27 more" in outcome.out
    report = json.loads((tmp_path / "doctor.json").read_text())
    assert len(report["classes"]) == 32
    assert max(len(finding["files"]) for finding in report["findings"]) == 30


def test_help_names_the_options(interlude):
    outcome = interlude("doctor", "--help")
    assert outcome.code == 0
    for option in ("--labels", "--group", "--out", "--json"):
        assert option in outcome.out


@pytest.mark.slow
def test_ctrl_c_ends_at_once_and_leaves_nothing(images, tmp_path):
    for number in range(3000):
        os.link(images / "cat/0.png", images / f"unlabeled/more{number}.png")
    command = [sys.executable, "-m", "interlude", "doctor", "images"]
    process = listening(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True)
    assert "looking at images" in process.stderr.readline()
    process.send_signal(signal.SIGINT)
    began = time.monotonic()
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert err.splitlines()[-1] == "stopped"
    assert time.monotonic() - began < 30
    assert not (tmp_path / "doctor.json").exists()
