"""`interlude fit` as a person uses it: a folder in, a verdict, a model and a report out."""

import csv
import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from sklearn.datasets import load_digits

from processes import listening

pytestmark = pytest.mark.slow

QUICK = ["--lane", "scratch", "--steps", "12", "--repetitions", "1", "--augment", "digits", "--threads", "1"]
QUICK += ["--quiet"]


def interlude(*words: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "interlude", *words]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=300, check=False)


def write_digits(folder: Path, images: int, labels_each: int, classes: int = 10) -> Path:
    """Digits as PNG files, and beside the folder a table with a few labels."""
    folder.mkdir()
    digits = load_digits(n_class=classes)
    seen = dict.fromkeys(range(classes), 0)
    table = folder.with_suffix(".csv")
    with table.open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["file_name", "label"])
        for number in np.random.default_rng(0).permutation(len(digits.images))[:images]:
            name, label = f"{number}.png", int(digits.target[number])
            pixels = np.minimum(digits.images[number] * 16, 255).astype(np.uint8)
            Image.fromarray(pixels).resize((16, 16)).save(folder / name)
            known = seen[label] < labels_each
            seen[label] += known
            rows.writerow([name, f"digit {label}" if known else ""])
    return table


@pytest.fixture(scope="module")
def fitted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which digits were fitted into `run`."""
    here = tmp_path_factory.mktemp("fit")
    write_digits(here / "digits", images=200, labels_each=2)
    done = interlude("fit", "digits", "--labels", "digits.csv", "--out", "run", *QUICK, cwd=here)
    assert done.returncode == 0, done.stderr
    (here / "said.txt").write_text(done.stdout)
    return here


def test_it_ends_with_a_verdict_a_number_with_its_interval_and_where_things_are(fitted: Path) -> None:
    said = (fitted / "said.txt").read_text()
    assert said.startswith("the unlabeled images ")
    assert "95% interval" in said
    assert "report: run/report.html" in said


def test_the_file_and_the_sentence_agree(fitted: Path) -> None:
    verdict = json.loads((fitted / "run" / "fit.json").read_text())["verdict"]
    assert verdict["sentence"] in (fitted / "said.txt").read_text()


def test_every_label_was_held_out_in_every_repetition(fitted: Path) -> None:
    lines = [json.loads(line) for line in (fitted / "run" / "cv.jsonl").read_text().splitlines()]
    found = json.loads((fitted / "run" / "fit.json").read_text())["cross_validation"]
    for name in {line["candidate"] for line in lines}:
        held = [row for line in lines if line["candidate"] == name for row in line["held"]]
        assert sorted(held) == sorted(list(range(20)) * found["repetitions"])


def test_what_is_saved_is_what_the_verdict_keeps(fitted: Path) -> None:
    verdict = json.loads((fitted / "run" / "fit.json").read_text())["verdict"]
    summary = json.loads((fitted / "run" / "summary.json").read_text())
    controls = ("labels only", "labels only, strong views")
    assert (summary["method"] == "supervised") == (verdict["kept"] in controls)


def test_the_model_predicts_new_files(fitted: Path) -> None:
    done = interlude("predict", "run", "digits", "--out", "said.csv", "--quiet", cwd=fitted)
    assert done.returncode == 0, done.stderr
    rows = list(csv.DictReader((fitted / "said.csv").open()))
    assert len(rows) == 200
    assert all(row["class"].startswith("digit ") and not row["error"] for row in rows)


def test_a_second_fit_into_the_same_folder_is_refused(fitted: Path) -> None:
    again = interlude("fit", "digits", "--labels", "digits.csv", "--out", "run", *QUICK, cwd=fitted)
    assert again.returncode == 2
    assert "run holds a finished fit, told in run/report.html; choose another --out" in again.stderr


def test_a_fit_that_goes_on_ends_with_the_same_verdict(fitted: Path) -> None:
    (fitted / "run" / "fit.json").unlink()
    words = ["--labels", "digits.csv", "--out", "run", *QUICK]
    other = interlude("fit", "digits", *words, "--seed", "3", cwd=fitted)
    assert other.returncode == 2
    assert "begun with another seed" in other.stderr
    done = interlude("fit", "digits", *words, cwd=fitted)
    assert done.returncode == 0, done.stderr
    assert done.stdout == (fitted / "said.txt").read_text()


def test_only_labels_that_the_table_calls_sampled_are_judged(tmp_path: Path) -> None:
    table = write_digits(tmp_path / "digits", images=100, labels_each=10, classes=3)
    with table.open(newline="") as file:
        rows = list(csv.DictReader(file))
    labeled = [row for row in rows if row["label"]]
    for number, row in enumerate(labeled):
        row["sampled"] = "yes" if number < 12 else "no"
    with table.open("w", newline="") as file:
        writer = csv.DictWriter(file, ["file_name", "label", "sampled"])
        writer.writeheader()
        writer.writerows(labeled)
    done = interlude("fit", "digits", "--labels", "digits.csv", "--out", "run", *QUICK, cwd=tmp_path)
    assert "judged on the 12 labels that were drawn at random\n" in done.stdout, done.stderr
    told = json.loads((tmp_path / "run" / "fit.json").read_text())
    assert (told["cross_validation"]["images"], told["cross_validation"]["sampled"]) == (12, 12)
    assert np.sum(told["confusion"]["matrix"]) == 12 * told["cross_validation"]["repetitions"]
    assert told["calibration"]["images"] == 12
    assert "judged on the 12 labels" in (tmp_path / "run" / "report.html").read_text()


def test_the_same_command_goes_on_after_ctrl_c_with_the_runs_that_are_finished(tmp_path: Path) -> None:
    write_digits(tmp_path / "digits", images=100, labels_each=4, classes=3)
    words = ["fit", "digits", "--labels", "digits.csv", "--out", "run", *QUICK]
    command = [sys.executable, "-m", "interlude", *words]
    with listening(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True) as running:
        kept = tmp_path / "run" / "cv.jsonl"
        while running.poll() is None and not (kept.exists() and kept.read_text().count("\n") >= 2):
            time.sleep(0.1)
        running.send_signal(signal.SIGINT)
        assert running.stderr is not None
        said = running.stderr.read()
    assert running.returncode == 130
    assert "go on with: interlude fit digits" in said
    before = kept.read_text().splitlines()
    done = interlude(*words, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert kept.read_text().splitlines()[: len(before)] == before


def test_one_label_a_class_gives_a_model_and_no_number(tmp_path: Path) -> None:
    write_digits(tmp_path / "digits", images=60, labels_each=1, classes=3)
    done = interlude(
        "fit", "digits", "--labels", "digits.csv", "--out", "run", *QUICK, "--force", cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("no estimate possible: no class has a second label")
    assert (tmp_path / "run" / "model.safetensors").is_file()


def test_serious_findings_stop_it_and_say_how_to_go_on(tmp_path: Path) -> None:
    write_digits(tmp_path / "digits", images=60, labels_each=4, classes=3)
    first, second = sorted((tmp_path / "digits").iterdir())[:2]
    second.write_bytes(first.read_bytes())
    table = tmp_path / "digits.csv"
    with table.open("w") as file:
        file.write(f"file_name,label\n{first.name},a\n{second.name},b\n")
    done = interlude("fit", "digits", "--labels", "digits.csv", "--out", "run", *QUICK, cwd=tmp_path)
    assert done.returncode == 1
    assert "--force" in done.stderr
    again = interlude("fit", "digits", "--labels", "digits.csv", "--out", "run", *QUICK, cwd=tmp_path)
    assert "--force" in again.stderr, "nothing was begun, so the same command may be given again"


@pytest.mark.parametrize(
    "words",
    [["nowhere"], ["digits", "--budget", "ten"], ["digits", "--lane", "scratch", "--method", "fixmach"]],
)
def test_what_cannot_begin_leaves_nothing_behind(words: list[str], tmp_path: Path) -> None:
    write_digits(tmp_path / "digits", images=20, labels_each=1, classes=3)
    done = interlude("fit", *words, "--out", "run", cwd=tmp_path)
    assert done.returncode == 2
    assert not (tmp_path / "run").exists()
