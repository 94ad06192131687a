"""The same from Python: `interlude.train(...)` and what it returns."""

import subprocess
import sys

import numpy as np
import pytest
import torch

import interlude

QUICK = {
    "data": "digits",
    "labels": 20,
    "batch": 4,
    "mu": 2,
    "augment": "digits",
    "threads": 1,
    "quiet": True,
}


def test_train_returns_the_model_the_metrics_and_predict(tmp_path):
    result = interlude.train(**QUICK, method="interlude", steps=4, out=str(tmp_path / "run"))
    assert result.metrics["error"] + result.metrics["accuracy"] == pytest.approx(100)
    assert not result.model.training
    images = np.zeros((3, 16, 16), dtype=np.uint8)
    assert result.predict(images).shape == (3,)
    np.testing.assert_allclose(result.predict_proba(images).sum(-1), 1, atol=1e-5)


def test_a_saved_model_predicts_as_the_one_in_memory(tmp_path):
    result = interlude.train(**QUICK, steps=4, out=str(tmp_path / "run"))
    again = interlude.Predictor.load(tmp_path / "run")
    images = np.random.default_rng(0).integers(0, 256, (5, 16, 16), dtype=np.uint8)
    np.testing.assert_array_equal(result.predict_proba(images), again.predict_proba(images))
    assert again.class_names == result.class_names


def test_options_of_a_part_are_a_dict(tmp_path):
    method = {"name": "fixmatch", "threshold": 0.5}
    result = interlude.train(**QUICK, method=method, steps=2, out=str(tmp_path / "run"))
    assert result.summary["method"] == "fixmatch"


def test_python_and_the_command_line_give_the_same_bits(tmp_path):
    one = interlude.train(**QUICK, steps=4, out=str(tmp_path / "one"))
    args = (
        "--data digits --labels 20 --batch 4 --mu 2 --augment digits --threads 1 --quiet --steps 4 --out two"
    )
    subprocess.run([sys.executable, "-m", "interlude", "train", *args.split()], cwd=tmp_path, check=True)
    weights = interlude.Predictor.load(tmp_path / "two").model.state_dict()
    for name, value in one.model.state_dict().items():
        assert torch.equal(value, weights[name]), name


def test_a_wrong_name_is_a_user_error(tmp_path):
    with pytest.raises(interlude.UserError, match="alpha"):
        interlude.train(**QUICK, method={"name": "interlude", "alpa": 0.1}, out=str(tmp_path / "run"))


def test_a_method_in_a_file_of_ones_own_can_be_trained(tmp_path):
    path = tmp_path / "my_method.py"
    path.write_text(
        "from interlude import Method, Objective, register\n\n\n"
        "@register\n"
        "class MyMethod(Method):\n"
        "    unlabeled = ()\n\n"
        "    def step(self, batch, clock):\n"
        "        yield Objective(supervised=self.supervised(self.model(batch.x[0]), batch.y))\n"
    )
    result = interlude.train(**QUICK, method=str(path), steps=2, out=str(tmp_path / "run"))
    assert result.summary["method"] == str(path)


def test_importing_the_package_does_not_import_torch():
    code = "import sys, interlude; assert 'torch' not in sys.modules; assert interlude.train"
    subprocess.run([sys.executable, "-c", code], check=True)
