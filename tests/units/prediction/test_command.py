"""The verb `predict`: what it writes, refuses and says."""

import csv
import io
import os
import signal
import subprocess
import sys
from typing import NamedTuple

import pytest

from interlude.cli import main
from interlude.prediction import command, stream


class Outcome(NamedTuple):
    """What a command printed and how it ended."""

    code: int
    out: str
    err: str


@pytest.fixture
def predict(capfd):
    """Run `interlude predict ARGS`."""

    def run(*args):
        with pytest.raises(SystemExit) as end:
            main(["predict", *map(str, args)])
        return Outcome(end.value.code or 0, *capfd.readouterr())

    return run


def rows_of(text):
    return list(csv.DictReader(io.StringIO(text, newline="")))


def test_a_folder_becomes_a_table(predict, saved, pictures, tmp_path):
    out = tmp_path / "p.csv"
    (pictures / "bad.png").touch()
    outcome = predict(saved(), pictures, "--out", out)
    assert outcome.code == 0, outcome.err
    rows = rows_of(out.read_text())
    assert [row["file"] for row in rows] == sorted(str(path) for path in pictures.iterdir())
    assert rows[-1]["error"] == "the file is empty"
    assert {row["class"] for row in rows[:-1]} <= {"cat", "dog", "a|b"}
    assert "sets hold the true class of 90%" in outcome.err
    assert "11 files" in outcome.err
    assert "1 could not be read" in outcome.err


def test_in_a_pipe_the_table_goes_to_standard_output(predict, saved, pictures):
    outcome = predict(saved(calibration=False), pictures / "0.png", "--quiet")
    assert outcome.err == ""
    (row,) = rows_of(outcome.out)
    assert (row["set"], row["abstain"], row["ood"], row["error"]) == ("", "", "", "")


def test_a_model_without_calibration_says_so_once(predict, saved, pictures):
    assert predict(saved(calibration=False), pictures).err.count("not calibrated") == 1


def test_a_hyphen_is_a_list_on_standard_input(predict, saved, pictures, monkeypatch):
    names = b"\0".join(os.fsencode(path) for path in sorted(pictures.iterdir())[:2])
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(names)))
    assert len(rows_of(predict(saved(), "-", "--quiet").out)) == 2


def test_an_existing_table_is_kept_unless_forced(predict, saved, pictures, tmp_path):
    out = tmp_path / "p.tsv"
    out.write_text("mine")
    outcome = predict(saved(), pictures, "--out", out)
    assert outcome.code == 2
    assert "exists already" in outcome.err
    assert out.read_text() == "mine"
    assert predict(saved(), pictures, "--out", out, "--force").code == 0
    assert len(out.read_text().splitlines()) == 11


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ([], "no images given"),
        (["pictures", "--out", "p.xlsx"], "must end in .csv, .tsv, .jsonl"),
        (["pictures", "--out", "gone/p.csv"], "does not exist"),
        (["pictures", "--top", "4"], "top must be 1 to 3"),
        (["pictures", "--threads", "-1"], "threads must be"),
        (["empty"], "no images found"),
        (["pictures", "--oot", "p.csv"], "--oot"),
    ],
)
def test_bad_arguments_are_one_line(predict, saved, pictures, tmp_path, monkeypatch, args, message):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty").mkdir()
    outcome = predict(saved(), *args)
    assert outcome.code == 2
    assert message in outcome.err.splitlines()[-1]


def test_a_folder_without_a_model_is_a_user_error(predict, pictures, tmp_path):
    outcome = predict(tmp_path, pictures)
    assert outcome.code == 2
    assert "no exported model" in outcome.err


def test_if_no_file_can_be_read_the_command_fails(predict, saved):
    outcome = predict(saved(), "gone.png")
    assert outcome.code == 1
    assert rows_of(outcome.out)[0]["error"] == "no such file or directory"


@pytest.fixture
def interrupted(monkeypatch):
    """Ctrl-C while the second batch of the next command is in hand, and never again."""

    def judged(predictor, files, *, workers):
        for number, rows in enumerate(stream.judged(predictor, files, workers=workers)):
            if number == 1:
                monkeypatch.undo()
                signal.raise_signal(signal.SIGINT)
            yield rows

    monkeypatch.setattr(command, "judged", judged)


def test_a_signal_leaves_complete_rows(predict, saved, pictures, tmp_path, interrupted):
    out = tmp_path / "p.csv"
    outcome = predict(saved(), *[pictures] * 20, "--out", out)
    assert outcome.code == 130
    assert "stopped after 128 files" in outcome.err
    assert not out.exists()
    assert len(rows_of((tmp_path / "p.csv.part").read_text())) == 128


@pytest.mark.parametrize("suffix", [".csv", ".jsonl"])
def test_the_same_command_goes_on_where_it_was_stopped(
    predict, saved, pictures, tmp_path, interrupted, suffix
):
    model, files = saved(), [*[pictures] * 20, "gone.png"]
    predict(model, *files, "--out", tmp_path / f"p{suffix}")
    with (tmp_path / f"p{suffix}.part").open("a") as part:
        part.write("half a ro")
    again = predict(model, *files, "--out", tmp_path / f"p{suffix}")
    assert again.code == 0, again.err
    assert "going on after the 128 files" in again.err
    assert "201 files" in again.err
    assert "1 could not be read" in again.err
    whole = predict(model, *files, "--out", tmp_path / f"whole{suffix}")
    assert whole.code == 0, whole.err
    assert (tmp_path / f"p{suffix}").read_text() == (tmp_path / f"whole{suffix}").read_text()
    assert not list(tmp_path.glob("*.part*")), "nothing but the table is left"


def test_rows_of_other_files_are_neither_gone_on_with_nor_lost(
    predict, saved, pictures, tmp_path, interrupted
):
    model, out = saved(), tmp_path / "p.csv"
    predict(model, *[pictures] * 20, "--out", out)
    before = (tmp_path / "p.csv.part").read_bytes()
    other = predict(model, pictures, "--out", out)
    assert other.code == 2
    assert "p.csv.part has rows of another model, other images or other columns" in other.err
    assert (tmp_path / "p.csv.part").read_bytes() == before
    assert predict(model, pictures, "--out", out, "--force").code == 0
    assert len(rows_of(out.read_text())) == 10


def test_rows_of_another_model_are_not_gone_on_with(predict, saved, pictures, tmp_path, interrupted):
    files, out = [pictures] * 20, tmp_path / "p.csv"
    predict(saved(), *files, "--out", out)
    assert predict(saved(calibration=False), *files, "--out", out).code == 2


def test_a_few_files_in_a_terminal_are_a_table_for_the_eye(predict, saved, pictures, monkeypatch):
    monkeypatch.setattr(command, "_to_terminal", lambda: True)
    outcome = predict(saved(), pictures / "0.png")
    assert "," not in outcome.out
    assert "probability" in outcome.out


@pytest.mark.slow
def test_a_reader_that_leaves_early_is_no_traceback(saved, pictures):
    command_line = [sys.executable, "-m", "interlude", "predict", saved(), *[pictures] * 200]
    process = subprocess.Popen(command_line, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    process.stdout.readline()
    process.stdout.close()
    assert b"Traceback" not in process.stderr.read()
    process.stderr.close()
    assert process.wait() == 1
