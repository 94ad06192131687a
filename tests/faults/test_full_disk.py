"""A disk that is full wherever something is written: what is finished stays, and it is told what to do."""

import json
import shutil

import pytest
from commands import QUICK, files_up_to

from image_files import class_folders
from runs import final_bits, saved_step

pytestmark = pytest.mark.slow

FIT = ["fit", "photos", "--out", "fitted", "--lane", "scratch", "--steps", "6", "--repetitions", "1"]
FIT += ["--threads", "1", "--force", "--quiet"]
FROZEN = ["--model", "cnn", "--model.frozen", "--model.input-size", "8", "--data.pool", "60"]
FROZEN += ["--features.weak", "2", "--features.strong", "2", "--features.cache", "vectors"]
SUITE = """
title: tiny
rows: [supervised]
columns: {digits@40: {config: digits, data.validation: 0, steps: 4}}
seeds: [0]
scales: {mini: {}}
"""


@pytest.fixture
def photos(here):
    return class_folders(here.folder / "photos", per_class=5, unlabeled=12)


def test_settings_that_cannot_be_written_leave_a_folder_that_can_be_used(here, whole):
    outcome = here.train("--out", "run", fault=files_up_to(100))
    assert outcome.code == 2
    assert outcome.message == "error: cannot write to run: File too large; choose another --out"
    assert here.train("--out", "run").code == 0
    assert final_bits(here.folder / "run") == final_bits(whole)


def test_a_journal_that_cannot_be_written(here, whole):
    outcome = here.train("--out", "run", "--save-every", "1000", fault=files_up_to(2000))
    assert outcome.code == 1
    assert "metrics.jsonl" in outcome.message or "cannot write to run" in outcome.message
    assert outcome.message.endswith("step 0 is safe, go on with: interlude train --out run --resume")
    assert here.train("--out", "run", "--resume").code == 0
    assert final_bits(here.folder / "run") == final_bits(whole)
    steps = [
        json.loads(line)["step"] for line in (here.folder / "run/metrics.jsonl").read_text().splitlines()
    ]
    assert steps == list(range(1, 25))


def test_a_checkpoint_that_cannot_be_written(here, begun, whole):
    limit = (begun / "checkpoints/last.pt").stat().st_size - 1000
    outcome = here.train("--out", "run", "--resume", fault=files_up_to(limit))
    assert outcome.code == 1
    assert outcome.message.endswith("step 20 is safe, go on with: interlude train --out run --resume")
    assert saved_step(begun) == 20
    assert [path.name for path in (begun / "checkpoints").iterdir()] == ["last.pt"]
    assert here.train("--out", "run", "--resume").code == 0
    assert final_bits(begun) == final_bits(whole)


def test_a_model_that_cannot_be_written(here, whole):
    shutil.copytree(whole, here.folder / "run")
    (here.folder / "run/summary.json").unlink()
    outcome = here.train("--out", "run", "--resume", fault=files_up_to(300_000))
    assert outcome.code == 1
    assert outcome.message.endswith("step 24 is safe, go on with: interlude train --out run --resume")
    assert final_bits(here.folder / "run") == final_bits(whole), "the model that was there is whole"
    assert not (here.folder / "run/summary.json").exists()
    assert here.train("--out", "run", "--resume").code == 0


def test_decoded_images_that_cannot_be_written(here, photos):
    words = ["train", "--data", photos, "--labels", "8", "--steps", "2", "--batch", "4", "--model", "cnn"]
    outcome = here.run(*words, "--out", "run", fault=files_up_to(6000))
    assert outcome.code == 2
    assert "cannot keep decoded images in" in outcome.message
    assert (
        "set INTERLUDE_CACHE to another folder, or decode at every step with --data.no-store"
        in outcome.message
    )
    assert not (here.folder / "run").exists()
    assert here.run(*words, "--out", "run").code == 0


def test_vectors_that_cannot_be_written(here):
    outcome = here.train(*FROZEN, "--out", "run", fault=files_up_to(20_000))
    assert outcome.code == 1
    assert "cannot write vectors to" in outcome.message
    assert "what is there is kept: make room" in outcome.message
    done = here.train(*FROZEN, "--out", "run", "--resume")
    assert done.code == 0, done.err
    kept = json.loads((here.folder / "run/summary.json").read_text())["vectors"]["found"]
    assert kept > 0, "what was extracted before is not extracted again"


def test_a_fit_that_meets_full_disks_ends_when_there_is_room(here, photos):
    for limit in (100, 1500, 4000, 30_000, 300_000):
        outcome = here.run(*FIT, fault=files_up_to(limit))
        assert outcome.code in (1, 2), f"{limit}: {outcome}"
        assert "file too large" in outcome.message.lower() or "cannot keep decoded" in outcome.message
        assert any(
            words in outcome.message for words in ("go on with: interlude", "choose another", "or decode")
        )
    done = here.run(*FIT)
    assert done.code == 0, done.err
    folder = here.folder / "fitted"
    before = (folder / "report.html").read_bytes()
    outcome = here.run("report", "fitted", fault=files_up_to(5000))
    assert outcome.code == 1
    assert outcome.message.startswith("error: fitted/report")
    assert outcome.message.endswith("let larger files be written (ulimit -f), and start again")
    assert (folder / "report.html").read_bytes() == before
    outcome = here.run("predict", "fitted", "photos", "--out", "said.csv", fault=files_up_to(300))
    assert outcome.code == 1
    assert outcome.message.startswith(
        "error: cannot write said.csv: file too large; let larger files be written"
    )


def test_results_of_a_suite_that_cannot_be_written(here):
    (here.folder / "tiny.yaml").write_text(SUITE)
    (here.folder / "results").mkdir()
    results = here.folder / "results/tiny.jsonl"
    results.symlink_to("/dev/full")
    outcome = here.run("bench", "tiny.yaml", "--jobs", "1")
    assert outcome.code == 1
    assert outcome.message.endswith("no space left on device; make room on that disk, and start again")
    results.unlink()
    model = next((here.folder / "runs").rglob("model.safetensors"))
    before = model.stat().st_mtime_ns
    outcome = here.run("bench", "tiny.yaml", "--jobs", "1")
    assert outcome.code == 0, outcome.err
    assert len(results.read_text().splitlines()) == 1
    assert model.stat().st_mtime_ns == before, "what was trained is not trained again"


@pytest.mark.parametrize(
    "words",
    [
        ["doctor", "photos", "--out", "found.json"],
        ["preview", *QUICK, "--out", "found.png"],
    ],
    ids=lambda words: words[0],
)
def test_what_a_command_writes_appears_whole_or_not_at_all(here, photos, words):
    outcome = here.run(*words, fault=files_up_to(20))
    assert outcome.code == 1
    assert "found." in outcome.message
    assert not (here.folder / words[-1]).exists()
