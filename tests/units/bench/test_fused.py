"""Fusion at evaluation: what the released code does to a test image depends on the image after it."""

import json
from types import SimpleNamespace

import pytest
import torch

from interlude.bench import fused
from interlude.data import Images
from interlude.training import train


class Reader(torch.nn.Module):
    """A network whose embedding of an image is its first two pixels, and whose logits are those."""

    def forward(self, images, midway=None, at="embedding"):
        z = images.flatten(1)[:, :2]
        return midway(z) if midway else z


def method(alpha, neighbour="next"):
    return SimpleNamespace(alpha=alpha, neighbour=neighbour, fusion_point="embedding")


def pictures(labels, strength):
    """Images of two classes; the logit of the class is ahead by this much of its neighbour's."""
    pixels = torch.zeros(len(labels), 1, 2, 2, dtype=torch.uint8)
    for row, (label, ahead) in enumerate(zip(labels, strength, strict=True)):
        pixels[row, 0, 0, label] = ahead
    return Images(pixels, torch.tensor(labels))


def error(images, how):
    predictor = SimpleNamespace(model=Reader(), mean=(0.0,), std=(1.0,))
    return fused.fused_error(predictor, images, how)


def test_a_row_takes_a_share_of_the_next_and_the_last_one_of_the_first():
    rows = torch.tensor([[1.0], [2.0], [4.0]])
    assert fused.fuse(method(0.25), rows).flatten().tolist() == [1.25, 2.5, 3.25]
    assert fused.fuse(method(0.25, "previous"), rows).flatten().tolist() == [1.75, 1.75, 3.5]


def test_a_weak_image_is_outvoted_by_its_neighbour_of_another_class():
    mixed = pictures([0, 1, 0, 1], [10, 200, 10, 200])
    ordered = pictures([0, 0, 1, 1], [10, 10, 200, 200])
    assert error(mixed, None) == 0
    assert error(mixed, method(0.4)) == 50
    assert error(ordered, method(0.4)) == 25, "sorted by class only the last of a class has such a neighbour"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "run"
    train(
        config="digits", method={"name": "interlude", "alpha": 0.4, "fusion_point": "stage"}, steps=15,
        out=str(folder), quiet=True, threads=1,
    )  # fmt: skip
    return folder


def test_a_finished_run_is_judged_alone_and_in_three_orders(folder):
    fused.write_fused(folder)
    errors = json.loads((folder / "fused.json").read_text())
    assert set(errors) == {"alone", "stored", "sorted", "shuffled"}
    summary = json.loads((folder / "summary.json").read_text())
    assert errors["alone"] == pytest.approx(summary["test"]["error"], abs=1e-3)
    assert len(set(errors.values())) > 1


def test_a_run_is_judged_once(folder):
    (folder / "fused.json").write_text("{}")
    fused.write_fused(folder)
    assert (folder / "fused.json").read_text() == "{}"


def test_a_method_that_fuses_nothing_has_nothing_to_show(tmp_path):
    train(config="digits", method="supervised", steps=2, out=str(tmp_path / "run"), quiet=True, threads=1)
    fused.write_fused(tmp_path / "run")
    assert json.loads((tmp_path / "run/fused.json").read_text()) == {}
