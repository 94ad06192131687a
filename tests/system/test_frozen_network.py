"""Training on vectors of a frozen network from the command line: what is made, kept and said."""

import json

import pytest

from interlude.features.extract import Extractor
from interlude.signals import Stopped

FROZEN = ["--model", "cnn", "--model.frozen", "--model.input-size", "8", "--data.pool", "60"]
DRAWS = ["--features.weak", "2", "--features.strong", "2", "--features.cache", "vectors"]


@pytest.fixture
def train_frozen(train):
    def run(*args):
        return train(*FROZEN, *DRAWS, *args)

    return run


def summary(folder):
    return json.loads((folder / "summary.json").read_text())


def test_a_second_run_finds_the_vectors_of_the_first(train_frozen, tmp_path):
    first, second = train_frozen("--out", "one"), train_frozen("--out", "two", "--batch", "5")
    assert (first.code, second.code) == (0, 0), first.err + second.err
    assert summary(tmp_path / "one")["vectors"]["extracted"] == 360 + 60 * (1 + 2 + 2)
    assert summary(tmp_path / "two")["vectors"]["extracted"] == 0
    assert summary(tmp_path / "one")["extraction_seconds"] > 0


def test_the_result_on_screen_compares_with_the_controls(train_frozen):
    outcome = train_frozen("--out", "run")
    assert "controls on the same vectors (test, accuracy): nearest class mean" in outcome.out
    assert "the best of them" in outcome.out
    assert "extracting vectors: vector" in outcome.err


def test_quiet_shows_no_extraction(train_frozen):
    assert train_frozen("--out", "run", "--quiet").err == ""


def test_a_run_stopped_while_extracting_is_gone_on_with(train_frozen, interlude, monkeypatch, tmp_path):
    def stop(self, jobs, in_time):
        raise Stopped("stopped; 32 of 420 vectors are extracted and kept", 2)

    with monkeypatch.context() as patch:
        patch.setattr(Extractor, "_run", stop)
        outcome = train_frozen("--out", "run")
    assert outcome.code == 130
    assert outcome.err.strip().endswith("kept; go on with: interlude train --out run --resume")
    outcome = interlude("train", "--out", "run", "--resume")
    assert outcome.code == 0, outcome.err
    assert summary(tmp_path / "run")["steps"] == 2


def test_the_folder_of_the_vectors_may_change_on_resume(train_frozen, interlude):
    train_frozen("--out", "run")
    outcome = interlude("train", "--out", "run", "--resume", "--features.cache", "elsewhere")
    assert outcome.code == 0, outcome.err


def test_what_the_budget_chose_is_in_the_config_of_the_run(train, tmp_path):
    outcome = train(*FROZEN, "--features.cache", "vectors", "--features.weak", "1", "--out", "run")
    assert outcome.code == 0, outcome.err
    assert "strong realisations of each of 60 images" in outcome.err
    assert "strong: null" not in (tmp_path / "run/config.yaml").read_text()


def test_a_damaged_cache_says_what_to_delete(train_frozen, tmp_path):
    train_frozen("--out", "one")
    (about,) = (tmp_path / "vectors").glob("*/about.json")
    about.write_text("{")
    outcome = train_frozen("--out", "two")
    assert outcome.code == 2
    assert "delete that folder" in outcome.err
    assert str(about.parent.name) in outcome.err
    assert not (tmp_path / "two").exists()
