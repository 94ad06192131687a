"""The exported graph takes bytes, gives what the predictor gives, and appears only if it does."""

import json
from dataclasses import replace

import numpy as np
import onnx
import onnxruntime
import pytest

import interlude
from interlude import onnx_export
from interlude.onnx_export import run, to_onnx


def judge(path, images):
    """What onnxruntime says."""
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(None, {"images": images}), strict=True))


@pytest.fixture(scope="module")
def exported(saved, tmp_path_factory):
    """A calibrated model, and the file that it was exported to."""
    model = interlude.load(saved())
    path = tmp_path_factory.mktemp("onnx") / "m.onnx"
    assert to_onnx(model, path) < 1e-5
    return model, path


def test_the_graph_gives_the_predictors_verdicts(exported):
    model, path = exported
    images = np.random.default_rng(1).integers(0, 256, (5, 16, 16, 3), dtype=np.uint8)
    found, wanted = judge(path, images), model.judge(images)
    for name in ("logits", "probabilities"):
        np.testing.assert_allclose(found[name], getattr(wanted, name), rtol=1e-5, atol=1e-5)
    for name in ("in_set", "abstain", "ood"):
        np.testing.assert_array_equal(found[name], getattr(wanted, name))


def test_the_metadata_says_how_to_use_it(exported):
    model, path = exported
    props = {prop.key: prop.value for prop in onnx.load(path).metadata_props}
    assert json.loads(props["label_names"]) == ["cat", "dog", "a|b"]
    assert json.loads(props["image_size"]) == [16, 16]
    assert json.loads(props["calibration"])["threshold"] == model.calibration.threshold


def test_a_graph_that_differs_is_not_written(exported, tmp_path, monkeypatch):
    model, path = exported
    monkeypatch.setattr(onnx_export, "_traced", lambda graph: onnx.load(path))
    with pytest.raises(interlude.RunError, match="nothing was written"):
        to_onnx(replace(model, mean=[0.5, 0.4, 0.4]), tmp_path / "m.onnx")
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "channels", "size"),
    [("wrn-10-1", 1, 16), ("timm:vit_tiny_patch16_224", 3, 32), ("timm:resnet10t", 3, 64)],
)
def test_other_networks_export_as_well(saved, tmp_path, name, channels, size):
    assert to_onnx(interlude.load(saved(name, channels=channels, size=size)), tmp_path / "m.onnx") < 1e-4


def test_an_existing_file_is_not_replaced(saved):
    folder = saved()
    (folder / "model.onnx").touch()
    with pytest.raises(interlude.UserError, match="exists already"):
        run(folder, onnx=True)
    with pytest.raises(interlude.UserError, match="--onnx"):
        run(folder)
