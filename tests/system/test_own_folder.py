"""Training on a user's own folder, from the command line."""

import json

import numpy as np
import pytest
from PIL import Image

OPTIONS = ("--labels", "8", "--model", "cnn", "--out", "run")


@pytest.fixture
def photos(tmp_path, monkeypatch):
    """Two classes that differ in brightness, eight images each, and twelve unlabeled ones."""
    monkeypatch.setenv("INTERLUDE_CACHE", str(tmp_path / "cache"))
    random = np.random.default_rng(0)
    for name, level, count in (("dark", 60, 8), ("light", 190, 8), ("unlabeled", 120, 12)):
        (tmp_path / "photos" / name).mkdir(parents=True)
        for number in range(count):
            pixels = random.normal(level, 30, (20, 24)).clip(0, 255).astype(np.uint8)
            Image.fromarray(pixels).save(tmp_path / "photos" / name / f"{number}.png")
    return tmp_path / "photos"


def summary(folder):
    return json.loads((folder / "summary.json").read_text())


def test_a_folder_without_test_images_trains_to_the_end_and_says_so(train, interlude, photos, tmp_path):
    ended = train("--data", photos, *OPTIONS)
    assert ended.code == 0, ended.err
    assert "no test images, so no figures on any" in ended.out
    assert "used at 20x20" in ended.err
    assert summary(tmp_path / "run")["test"] is None
    assert summary(tmp_path / "run")["tests"] == {}
    judged = interlude("evaluate", "run")
    assert judged.code == 0
    assert "no test images" in judged.out
    judged = interlude("evaluate", "run", "--data", photos, "--json")
    assert json.loads(judged.out)["labeled images"]["images"] == 16
    assert "name it by --data" in interlude("evaluate", "run", "--labels", "labels.csv").err


def test_a_record_names_the_folder_and_not_where_it_lies(train, photos, tmp_path):
    assert train("--data", photos, *OPTIONS).code == 0
    assert json.loads((tmp_path / "run/split.json").read_text())["data"] == "photos"


def test_a_run_that_stored_its_images_goes_on_without_the_store(train, interlude, photos, tmp_path):
    assert train("--data", f"folder:{photos}", *OPTIONS, "--steps", "2").code == 0
    ended = interlude("train", "--out", "run", "--resume", "--data.no-store")
    assert ended.code == 0, ended.err


def test_a_quiet_run_shows_no_decoding(train, photos, monkeypatch):
    monkeypatch.setattr("interlude.data.store.SHOW_AFTER", -1.0)
    assert "decoding photos" in train("--data", photos, *OPTIONS).err
    monkeypatch.setenv("INTERLUDE_CACHE", str(photos.parent / "other"))
    assert "decoding" not in train("--data", photos, *OPTIONS[:-1], "quiet", "--quiet").err


def test_a_mistake_in_the_labels_file_is_one_line(train, photos):
    (photos / "wrong.csv").write_text("name,colour\n1.png,red\n")
    ended = train("--data", photos, "--data.labels-file", photos / "wrong.csv", *OPTIONS)
    assert ended.code == 2
    assert "has no column for the file" in ended.err
    assert len(ended.err.strip().splitlines()) <= 2
