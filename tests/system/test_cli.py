"""The command line end to end: what it makes, what it prints, and what it says to bad input."""

import json
import subprocess
import sys
import time

import numpy as np
import pytest
import yaml
from safetensors.torch import load_file

import interlude as package


def test_train_leaves_a_complete_run_folder(train, tmp_path):
    outcome = train("--steps", "6", "--out", "run", "--save-every", "2")
    assert outcome.code == 0, outcome.err
    files = {
        str(path.relative_to(tmp_path / "run")) for path in (tmp_path / "run").rglob("*") if path.is_file()
    }
    assert files == {
        ".lock",
        "config.yaml",
        "split.json",
        "metrics.jsonl",
        "summary.json",
        "checkpoints/last.pt",
        "checkpoints/previous.pt",
        "model.safetensors",
        "config.json",
    }


def test_the_summary_holds_the_final_figures_in_percent(train, tmp_path):
    train("--steps", "4", "--out", "run", "--seed", "3")
    summary = json.loads((tmp_path / "run/summary.json").read_text())
    figures = summary["test"]
    assert figures == summary["tests"]["test"]
    assert figures["error"] + figures["accuracy"] == pytest.approx(100)
    assert 0 <= figures["balanced_accuracy"] <= 100
    assert figures["images"] == 360
    assert (summary["seed"], summary["steps"], summary["labels"]) == (3, 4, 20)
    assert summary["version"] == package.__version__


def test_the_result_on_screen_names_the_error_and_the_folder(train):
    outcome = train("--steps", "4", "--out", "run")
    assert "test: error " in outcome.out
    assert "run folder: run" in outcome.out


def test_without_a_terminal_progress_comes_in_plain_lines(train):
    outcome = train("--steps", "4", "--out", "run", "--log-every", "2")
    assert "step 4/4" in outcome.err
    assert "images/s" in outcome.err
    assert "\x1b[" not in outcome.err


def test_quiet_prints_the_result_only(train):
    outcome = train("--steps", "2", "--out", "run", "--quiet")
    assert outcome.err == ""
    assert outcome.out.startswith("test: error ")


def test_config_yaml_is_resolved_and_reads_back_as_the_same_run(train, interlude, tmp_path):
    train("--steps", "2", "--out", "run", "--method.alpha", "0.2")
    stored = (tmp_path / "run/config.yaml").read_text()
    assert yaml.safe_load(stored)["method"]["alpha"] == 0.2
    assert interlude("config", "--config", "run/config.yaml").out == stored


def test_the_command_line_beats_files_and_later_files_beat_earlier_ones(interlude, tmp_path):
    (tmp_path / "a.yaml").write_text("steps: 1\nseed: 1\nbatch: 1\n")
    (tmp_path / "b.yaml").write_text("seed: 2\nbatch: 2\n")
    shown = yaml.safe_load(
        interlude("config", "--config", "a.yaml", "--config", "b.yaml", "--batch", "3").out
    )
    assert (shown["steps"], shown["seed"], shown["batch"]) == (1, 2, 3)


def test_short_and_dotted_forms_mean_the_same_in_files(interlude, tmp_path):
    (tmp_path / "short.yaml").write_text("method: fixmatch\nmethod.threshold: 0.9\nmodel: wrn-10-1\n")
    (tmp_path / "long.yaml").write_text("method: {name: fixmatch, threshold: 0.9}\nmodel: {name: wrn-10-1}\n")
    assert (
        interlude("config", "--config", "short.yaml").out == interlude("config", "--config", "long.yaml").out
    )


def test_an_address_names_labels_and_fold(interlude):
    shown = yaml.safe_load(interlude("config", "--data", "digits@40/fold2").out)
    assert (shown["data"]["name"], shown["labels"], shown["fold"]) == ("digits", 40, 2)


def test_a_recipe_is_found_by_its_name(interlude):
    assert yaml.safe_load(interlude("config", "--config", "digits").out)["labels"] == 40


def test_help_of_train_lists_the_options_of_the_chosen_method_with_defaults(interlude):
    shown = " ".join(interlude("train", "--method", "freematch", "--help").out.split())
    assert "--method.fairness-weight" in shown
    assert "0.05" in shown
    assert "--optimizer.weight-decay" in shown
    assert "--method.alpha" not in shown


@pytest.mark.parametrize("verb", ["train", "evaluate", "preview", "config", "list"])
def test_every_verb_has_help(interlude, verb):
    outcome = interlude(verb, "--help")
    assert outcome.code == 0
    assert f"interlude {verb}" in outcome.out


def test_help_of_the_command_does_not_import_torch():
    code = (
        "import sys\nfrom interlude.cli import main\n"
        "try: main(['--help'])\nexcept SystemExit: assert 'torch' not in sys.modules"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    for verb in ("train", "evaluate", "preview", "config", "list"):
        assert verb in done.stdout


def test_list_names_everything_there_is(interlude):
    shown = interlude("list").out
    for name in ("interlude-plus", "digits", "wrn-28-2", "grayscale-medical", "released"):
        assert name in shown
    assert "wrn-28-2" not in interlude("list", "methods").out


def test_preview_writes_one_picture(interlude, tmp_path):
    outcome = interlude("preview", "--config", "digits", "--out", "sheet.png", "--groups", "2")
    assert outcome.code == 0, outcome.err
    assert (tmp_path / "sheet.png").read_bytes().startswith(b"\x89PNG")


def test_evaluate_gives_the_figures_of_the_summary_again(train, interlude, tmp_path):
    train("--steps", "4", "--out", "run")
    again = json.loads(interlude("evaluate", "run", "--json").out)
    assert again == json.loads((tmp_path / "run/summary.json").read_text())["tests"]


def test_evaluate_scales_other_data_to_the_size_of_the_model(train, interlude):
    train("--data.image-size", "24", "--out", "run")
    own = json.loads(interlude("evaluate", "run", "--json").out)
    assert json.loads(interlude("evaluate", "run", "--data", "digits", "--json").out) == own


@pytest.mark.parametrize(
    ("channels", "classes", "message"), [(3, 10, "3 channels"), (1, 4, "other classes (0, 1, 2, 3)")]
)
def test_evaluate_refuses_data_that_do_not_fit(train, interlude, tmp_path, channels, classes, message):
    images, labels = np.zeros((20, 16, 16, channels), dtype=np.uint8), np.arange(20) % classes
    np.savez(tmp_path / "other.npz", x_train=images, y_train=labels, x_test=images, y_test=labels)
    train("--out", "run")
    outcome = interlude("evaluate", "run", "--data", "npz:other.npz")
    assert outcome.code == 2
    assert message in outcome.err


@pytest.mark.parametrize("args", [["--groups", "0"], ["--step", "-1"]])
def test_preview_of_nothing_is_refused(interlude, args):
    assert interlude("preview", "--config", "digits", *args).code == 2


def test_an_unknown_setting_in_a_file_gets_the_nearest_one(interlude, tmp_path):
    (tmp_path / "typo.yaml").write_text("stepz: 3\n")
    outcome = interlude("config", "--config", "typo.yaml")
    assert outcome.code == 2
    assert "unknown setting in typo.yaml: 'stepz'; did you mean 'steps'" in outcome.err


def test_tensorboard_events_are_written_on_request(train, tmp_path):
    train("--steps", "2", "--out", "run", "--tensorboard")
    assert list((tmp_path / "run").glob("events.out.tfevents.*"))


def test_labels_that_do_not_divide_are_balanced_and_said(train, tmp_path):
    outcome = train("--labels", "23", "--steps", "2", "--out", "run")
    assert "23 labels over 10 classes" in outcome.err
    assert len(json.loads((tmp_path / "run/split.json").read_text())["labeled"]) == 23


def test_a_batch_larger_than_the_data_works_by_repeating(train):
    assert train("--batch", "64", "--steps", "2", "--out", "run").code == 0


def test_fully_supervised_uses_every_label_whatever_was_asked(train, tmp_path):
    train("--method", "fully-supervised", "--steps", "2", "--out", "run")
    assert json.loads((tmp_path / "run/summary.json").read_text())["labels"] == 1437


BAD = {
    "method": (["--method", "fixmach"], "unknown method 'fixmach'; did you mean 'fixmatch'"),
    "data set": (["--data", "cifar11"], "unknown data set 'cifar11'; did you mean 'cifar10'"),
    "model": (["--model", "wrn-28-3x"], "unknown model 'wrn-28-3x'"),
    "policy": (["--augment", "natral"], "'natural'"),
    "option": (["--method.alpa", "0.1"], "Did you mean --method.alpha?"),
    "choice": (["--method.layout", "high"], "high-i3"),
    "recipe": (["--config", "digit"], "did you mean 'digits'"),
    "word for a number": (["--steps", "many"], "many"),
    "half a step": (["--steps", "1.5"], "1.5"),
    "too many labels": (["--labels", "5000"], "5000"),
    "labels below classes": (["--labels", "5"], "10"),
    "alpha": (
        ["--method.alpha", "0.5"],
        "alpha must be >= 0 and < 0.5, got 0.5 (at 0.5 the fusion matrix is singular",
    ),
    "threshold": (["--method.threshold", "1.5"], "threshold must be >= 0 and <= 1, got 1.5"),
    "mu": (["--mu", "0"], "mu must be >= 1, got 0"),
    "steps": (["--steps", "0"], "steps must be >= 1, got 0"),
    "device": (["--device", "gpu"], "cannot use device 'gpu'"),
    "split file": (["--data.split", "nowhere.json"], "nowhere.json"),
    "npz": (["--data", "npz:nowhere.npz"], "nowhere.npz"),
    "nothing to resume": (["--resume", "--out", "nowhere"], "no run to resume in nowhere"),
    "resume without a folder": (["--resume"], "--out RUN --resume"),
}


@pytest.mark.parametrize(("args", "message"), BAD.values(), ids=BAD.keys())
def test_bad_input_gets_one_clear_line_and_exit_code_2(train, tmp_path, args, message):
    outcome = train(*args)
    assert outcome.code == 2
    assert message in outcome.err
    assert outcome.err.count("\n") == 1, f"one line, please: {outcome.err}"
    assert not (tmp_path / "runs").exists(), "a run that cannot start must not leave a folder"


def test_a_folder_that_cannot_be_made_is_said(train, tmp_path):
    (tmp_path / "file").write_text("not a folder")
    outcome = train("--out", "file/run")
    assert outcome.code == 2
    assert "cannot write to file/run" in outcome.err


def test_a_folder_that_exists_is_never_overwritten(train, tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "run/precious.txt").write_text("work of years")
    outcome = train("--steps", "2", "--out", "run")
    assert outcome.code == 2
    assert "--resume" in outcome.err
    assert [path.name for path in (tmp_path / "run").iterdir()] == ["precious.txt"]


def test_a_loss_that_explodes_stops_the_run_and_names_step_and_term(train, tmp_path):
    outcome = train(
        "--steps", "60", "--optimizer.rate", "1e18", "--log-every", "5", "--save-every", "1", "--out", "run"
    )
    assert outcome.code == 1
    assert "at step" in outcome.err
    assert "the loss term '" in outcome.err
    assert "checkpoint" in outcome.err


def test_an_unknown_verb_gets_the_nearest_one(interlude):
    outcome = interlude("trian")
    assert outcome.code == 2
    assert 'Did you mean "train"?' in outcome.err
    assert outcome.err.count("\n") == 1


def test_an_option_given_twice_is_said(train):
    outcome = train("--steps", "3", "--steps", "4")
    assert outcome.code == 2
    assert "--steps specified multiple times" in outcome.err


def test_the_first_help_is_quick():
    """Generous here, because tests run side by side; benchmarks hold the real figure."""
    began = time.monotonic()
    subprocess.run([sys.executable, "-m", "interlude", "--help"], capture_output=True, check=True)
    assert time.monotonic() - began < 5


def test_the_saved_weights_are_the_averaged_ones(train, tmp_path):
    import torch

    train("--steps", "3", "--out", "run")
    saved = load_file(tmp_path / "run/model.safetensors")
    ema = torch.load(tmp_path / "run/checkpoints/last.pt", weights_only=True)["ema"]
    for name, value in saved.items():
        assert torch.equal(value, ema[f"model.{name}"]), name
