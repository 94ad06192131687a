"""From training to a table: a run with validation images leaves a calibrated model."""

import json

import numpy as np
from PIL import Image


def test_a_run_with_validation_images_is_calibrated_and_predicts(train, interlude, tmp_path):
    train("--out", "run", "--data.validation", "0.1")
    calibration = json.loads((tmp_path / "run/config.json").read_text())["calibration"]
    assert calibration["images"] > 100
    assert calibration["source"] == "validation images"
    Image.fromarray(np.zeros((20, 30), dtype=np.uint8)).save(tmp_path / "black.png")
    outcome = interlude("predict", "run", "black.png", "--out", "p.jsonl")
    assert outcome.code == 0, outcome.err
    row = json.loads((tmp_path / "p.jsonl").read_text())
    assert row["class"] in row["set"]
    assert 0 <= row["ood"] <= 1
