"""Stop at any step, in any way, go on, and end with the very same bits."""

import json
import signal

import pytest
import torch

from interlude.method import method_names
from runs import final_bits, wait_for_step

STEPS = 24
KILLED_IN_THE_FAST_TESTS = ("interlude-plus",)


@pytest.mark.parametrize(
    "method",
    [
        name if name in KILLED_IN_THE_FAST_TESTS else pytest.param(name, marks=pytest.mark.slow)
        for name in method_names()
    ],
)
def test_a_killed_run_resumes_to_the_same_bits(train, spawn, tmp_path, method):
    args = ["--method", method, "--steps", str(STEPS), "--save-every", "4"]
    assert train(*args, "--out", "whole").code == 0
    process = spawn(*args, "--out", "killed")
    wait_for_step(tmp_path / "killed", 8, process)
    process.send_signal(signal.SIGKILL)
    process.wait()
    outcome = train(*args, "--out", "killed", "--resume")
    assert outcome.code == 0, outcome.err
    assert final_bits(tmp_path / "killed") == final_bits(tmp_path / "whole")


def test_the_journal_of_a_resumed_run_has_each_step_once(train, spawn, tmp_path):
    args = ["--steps", str(STEPS), "--save-every", "4", "--log-every", "1"]
    process = spawn(*args, "--out", "run")
    wait_for_step(tmp_path / "run", 8, process)
    process.kill()
    process.wait()
    assert train(*args, "--out", "run", "--resume").code == 0
    lines = [json.loads(line) for line in (tmp_path / "run/metrics.jsonl").read_text().splitlines()]
    assert [line["step"] for line in lines] == list(range(1, STEPS + 1))


def test_a_finished_run_resumes_to_itself(train, tmp_path):
    train("--steps", "4", "--out", "run")
    before = final_bits(tmp_path / "run")
    outcome = train("--steps", "4", "--out", "run", "--resume")
    assert outcome.code == 0
    assert final_bits(tmp_path / "run") == before


def test_resume_needs_nothing_but_the_folder(train, interlude, tmp_path):
    train("--steps", "4", "--out", "run")
    assert interlude("train", "--out", "run", "--resume").code == 0


def test_the_labeled_images_are_read_from_the_run_and_never_drawn_again(train, interlude, tmp_path):
    train("--steps", "4", "--out", "run")
    path = tmp_path / "run/split.json"
    split = json.loads(path.read_text())
    (tmp_path / "run/checkpoints/last.pt").unlink()
    split["labeled"] = [row + 1 for row in split["labeled"]]
    del split["split_hash"]
    path.write_text(json.dumps(split))
    assert interlude("train", "--out", "run", "--resume").code == 0
    assert json.loads((tmp_path / "run/split.json").read_text())["labeled"] == split["labeled"]


def test_a_split_file_that_names_missing_images_is_refused(train, interlude, tmp_path):
    train("--steps", "4", "--out", "run")
    path = tmp_path / "run/split.json"
    split = json.loads(path.read_text())
    split["labeled"][-1] = 10**6
    del split["split_hash"]
    path.write_text(json.dumps(split))
    outcome = interlude("train", "--out", "run", "--resume")
    assert outcome.code == 2
    assert "1000000" in outcome.err


@pytest.mark.parametrize(
    "args", [["--steps", "9"], ["--seed", "9"], ["--method.alpha", "0.2"], ["--labels", "30"]]
)
def test_resume_with_another_setting_is_refused(train, tmp_path, args):
    train("--out", "run")
    outcome = train(*args, "--out", "run", "--resume")
    assert outcome.code == 2
    assert args[0].removeprefix("--") in outcome.err


def test_resume_with_another_method_is_refused(train):
    train("--steps", "4", "--out", "run")
    outcome = train("--steps", "4", "--method", "fixmatch", "--out", "run", "--resume")
    assert outcome.code == 2
    assert "'interlude', not 'fixmatch'" in outcome.err


def test_the_checkpoint_of_another_run_is_refused(train, tmp_path):
    train("--steps", "4", "--out", "run")
    train("--steps", "4", "--seed", "1", "--out", "other")
    (tmp_path / "other/checkpoints/last.pt").replace(tmp_path / "run/checkpoints/last.pt")
    outcome = train("--steps", "4", "--out", "run", "--resume")
    assert outcome.code == 2
    assert "another method, configuration or split" in outcome.err


@pytest.mark.parametrize("damage", ["truncated", "flipped", "empty"])
def test_a_damaged_checkpoint_is_noticed_and_the_one_before_is_used(train, tmp_path, damage):
    args = ["--steps", "8", "--save-every", "4"]
    train(*args, "--out", "whole")
    train(*args, "--out", "run")
    path = tmp_path / "run/checkpoints/last.pt"
    content = bytearray(path.read_bytes())
    middle = len(content) // 2
    if damage == "flipped":  # more bytes than the file ever pads with
        content[middle : middle + 64] = bytes(byte ^ 1 for byte in content[middle : middle + 64])
    path.write_bytes(content if damage == "flipped" else content[: middle if damage == "truncated" else 0])
    outcome = train(*args, "--out", "run", "--resume")
    assert outcome.code == 0, outcome.err
    assert "damaged" in outcome.err
    assert final_bits(tmp_path / "run") == final_bits(tmp_path / "whole")


def test_two_damaged_checkpoints_end_the_run_with_a_message(train, tmp_path):
    train("--steps", "8", "--save-every", "4", "--out", "run")
    for path in (tmp_path / "run/checkpoints").iterdir():
        path.write_bytes(b"not a checkpoint")
    outcome = train("--steps", "8", "--save-every", "4", "--out", "run", "--resume")
    assert outcome.code == 1
    assert "no checkpoint of run can be read" in outcome.err


def test_how_the_machine_is_used_may_change_on_resume_and_changes_no_bit(train, tmp_path):
    args = ["--steps", "8", "--save-every", "4"]
    assert train(*args, "--out", "whole").code == 0
    assert train(*args, "--out", "other", "--no-overlap", "--no-keep-memory").code == 0
    (tmp_path / "other/checkpoints/previous.pt").replace(tmp_path / "other/checkpoints/last.pt")
    assert train(*args, "--out", "other", "--resume", "--overlap", "--keep-memory").code == 0
    assert final_bits(tmp_path / "other") == final_bits(tmp_path / "whole")


def test_checkpoints_load_without_running_code(train, tmp_path):
    train("--steps", "2", "--out", "run")
    state = torch.load(tmp_path / "run/checkpoints/last.pt", weights_only=True)
    assert state["step"] == 2
