"""What a person may give `interlude fit` by mistake: one line that says what to do, and nothing is lost."""

from pathlib import Path
from zlib import crc32

import pytest
import torch

from image_files import noise, write

QUICK = ["--lane", "scratch", "--steps", "2", "--repetitions", "1", "--threads", "1", "--quiet"]
FROZEN = ["--model", "timm:test_efficientnet", "--steps", "2", "--threads", "1", "--quiet"]


def write_images(folder: Path, number: int) -> None:
    for row in range(number):
        write(folder / f"{row}.png", noise(8, 8, seed=crc32(f"{folder.name} {row}".encode())))


@pytest.fixture
def refused(interlude, tmp_path):
    """Fit what cannot be fitted; the one line that is said. Nothing is left behind."""

    def run(*words: str) -> str:
        before = sorted(tmp_path.rglob("*"))
        outcome = interlude("fit", *words)
        assert outcome.code == 2, outcome.err
        assert sorted(tmp_path.rglob("*")) == before, "something was left behind"
        (line,) = outcome.err.strip().splitlines()
        return line

    return run


@pytest.fixture
def photos(tmp_path: Path) -> str:
    """Two classes and a few unlabeled images."""
    for name, number in (("cat", 4), ("dog", 4), ("unlabeled", 6)):
        write_images(tmp_path / "photos" / name, number)
    return "photos"


def test_a_file_in_the_place_of_the_run_folder_is_kept(refused, photos, tmp_path):
    (tmp_path / "run").write_text("mine")
    assert refused(photos, "--out", "run", *QUICK) == "error: run is a file; choose another --out"
    assert (tmp_path / "run").read_text() == "mine"


@pytest.mark.parametrize("out", ["photos", "photos/run", "photos/cat/run"])
def test_nothing_is_written_among_the_images(refused, photos, tmp_path, out):
    said = refused(photos, "--out", out, *QUICK)
    assert said.endswith(f"is in the image folder, where nothing is written; say --out {tmp_path}/photos-fit")


def test_the_folder_in_which_one_stands_wants_an_out_elsewhere(refused, photos, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path / "photos")
    assert refused(".", *QUICK).endswith(f"say --out {tmp_path}/photos-fit")


def test_a_run_folder_with_other_things_in_it_is_left_alone(refused, photos, tmp_path):
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "chapter.txt").write_text("mine")
    assert "exists already, and no fit was begun in it" in refused(photos, "--out", "thesis", *QUICK)


CONTENTS = {
    "empty.safetensors": b"",
    "garbage.safetensors": bytes(8) + b"abc",
    "garbage.pth": b"PK\x03\x04 no archive",
    "pickled.pt": b"\x80\x04\x95\x17\x00\x00\x00\x00\x00\x00\x00\x8c\x05posix\x94\x8c\x06system\x94\x93\x94.",
}


@pytest.mark.parametrize("name", CONTENTS)
def test_weights_that_cannot_be_read_are_told_before_any_work(refused, photos, tmp_path, name):
    (tmp_path / name).write_bytes(CONTENTS[name])
    said = refused(photos, "--weights", name, "--out", "run", *FROZEN)
    assert said.startswith(f"error: {name} is damaged or not a file of weights: ")
    assert said.endswith("; give another")


def test_weights_of_another_network_are_told_before_any_work(refused, photos, tmp_path):
    torch.save({"features.0.weight": torch.zeros(2)}, tmp_path / "other.pt")
    said = refused(photos, "--weights", "other.pt", "--out", "run", *FROZEN)
    assert said.startswith("error: other.pt does not fit timm:test_efficientnet: it lacks ")


@pytest.mark.parametrize("weights", ["nowhere.pt", "photos", "photos/cat/0.png"])
def test_what_is_no_file_of_weights_is_refused(refused, photos, weights):
    assert "file of weights" in refused(photos, "--weights", weights, "--out", "run", *FROZEN)


@pytest.mark.parametrize("words", [["--lane", "scratch"], ["--model", "cnn"]])
def test_weights_that_nothing_would_take_are_refused(refused, photos, tmp_path, words):
    torch.save({"a": torch.zeros(2)}, tmp_path / "some.pt")
    said = refused(photos, "--weights", "some.pt", *words, "--out", "run", "--quiet")
    assert said.startswith("error: --weights is for a pretrained network: drop it")


@pytest.mark.parametrize("budget", ["0", "0s", "", "ten", "nan", "1e9h"])
def test_a_budget_that_is_none_is_refused(refused, photos, budget):
    said = refused(photos, "--budget", budget, *QUICK)
    assert "a budget must be longer than" in said or "write it as 90s, 10m or 1h30m" in said


def test_a_budget_too_short_for_anything_gives_a_model_and_says_what_it_took(interlude, photos, tmp_path):
    done = interlude("fit", photos, "--budget", "0.1s", "--out", "run", *QUICK)
    assert done.code == 0, done.err
    assert done.out.startswith("no estimate possible: 0 s are left, for one run only; an estimate takes ")
    assert "s of a budget of 0 s (most of it: " in done.out
    assert (tmp_path / "run" / "model.safetensors").is_file()


def test_an_empty_folder_says_what_belongs_there(refused, tmp_path):
    (tmp_path / "empty").mkdir()
    assert refused("empty", *QUICK).startswith(
        "error: there is no image in empty; its names must end in .jpg"
    )


@pytest.mark.parametrize("folders", [["."], ["unlabeled"]])
def test_images_without_any_label_stop_it_and_say_how_to_label(interlude, tmp_path, folders):
    for name in folders:
        write_images(tmp_path / "photos" / name, 6)
    outcome = interlude("fit", "photos", "--out", "run", *QUICK)
    assert outcome.code == 1
    assert "None of the training images has a label" in outcome.out
    assert "give a table (--labels FILE)" in outcome.out


def test_one_class_alone_stops_it_even_by_force(interlude, tmp_path):
    write_images(tmp_path / "photos" / "cat", 6)
    for words, message in (([], "go on by --force"), (["--force"], "give at least two classes")):
        outcome = interlude("fit", "photos", "--out", "run", *words, *QUICK)
        assert outcome.code != 0
        assert message in outcome.err.splitlines()[-1]


TABLES = {
    "empty": b"",
    "not text": bytes(range(256)),
    "a nul": b"file_name,label\n0.png,a\0\n",
    "no lines": b"file_name,label\n",
    "no header": b"0.png,a\n1.png,b\n",
    "no label column": b"file_name,klass\n0.png,a\n",
    "other files": b"file_name,label\nx.png,a\ny.png,b\n",
    "an open quote": b'file_name,label\n"0.png,a\n1.png,b\n',
}


@pytest.mark.parametrize("kind", TABLES)
def test_a_wrong_table_is_told_in_one_line_that_names_it(refused, tmp_path, kind):
    write_images(tmp_path / "flat", 6)
    (tmp_path / "labels.csv").write_bytes(TABLES[kind])
    said = refused("flat", "--labels", "labels.csv", "--out", "run", *QUICK)
    assert "labels.csv" in said or "label" in said


@pytest.mark.parametrize("name", ["new\nline", "ünï 画像 😀"])
def test_a_folder_of_any_name_is_fitted(interlude, tmp_path, name):
    for part in ("cat", "dog"):
        write_images(tmp_path / name / part, 3)
    done = interlude("fit", name, *QUICK)
    assert done.code == 0, done.err
    assert done.out.splitlines()[-1].endswith("-fit/report.html"), "a line for each thing that is said"
    assert done.out.splitlines()[-2].startswith("model: runs/")
    assert (tmp_path / "runs" / f"{name}-fit" / "model.safetensors").is_file()


def test_a_fit_that_was_begun_with_other_options_is_not_mixed_with_these(interlude, photos, tmp_path):
    words = ["fit", photos, "--out", "run", *QUICK]
    assert interlude(*words).code == 0
    (tmp_path / "run" / "fit.json").unlink()  # as if it had been stopped
    before = {path: path.read_bytes() for path in (tmp_path / "run").rglob("*") if path.is_file()}
    outcome = interlude(*words, "--seed", "3", "--budget", "1h")
    assert outcome.code == 2
    assert "begun with another budget and seed; choose another --out, or delete that folder" in outcome.err
    assert {path: path.read_bytes() for path in before} == before
    write_images(tmp_path / "photos" / "bird", 2)
    outcome = interlude(*words)
    assert outcome.code == 2
    assert "images or labels are others than when the fit in run was begun" in outcome.err


def test_patients_of_whom_none_can_be_spared_leave_a_model_without_a_number(interlude, tmp_path):
    write_images(tmp_path / "flat", 10)
    rows = ["a,1", "a,2", "b,1", "b,1", "c,2", "c,2", "a,1", "a,2"]
    lines = [f"{number}.png,{row}" for number, row in enumerate(rows)]
    (tmp_path / "labels.csv").write_text("\n".join(["file_name,label,patient", *lines]))
    words = ["--labels", "labels.csv", "--group", "patient", "--out", "run"]
    done = interlude("fit", "flat", *words, *QUICK)
    assert done.code == 0, done.err
    assert done.out.startswith("no estimate possible: whatever is held out, some class has nothing left")
