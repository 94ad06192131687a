"""A frozen network is exported as one that takes images and gives logits."""

import json

import numpy as np
import pytest
import timm
import torch
from safetensors.torch import load_file

from interlude.models import Frozen, ModelConfig, load, save
from interlude.models.adapters import Adapted
from interlude.predictor import Predictor

NET, VIT = "timm:test_efficientnet", "timm:test_vit"


@pytest.fixture
def export(make, tmp_path):
    """`export(NET, frozen=True)`: such a network with a settled scaling, written to `tmp_path`."""

    def export(name, *, size=32, **options):
        model = make(name, size=size, **options).eval()
        torch.nn.init.normal_(model.head.weight)
        torch.nn.init.normal_(model.head.bias)
        width = model.backbone.num_inputs
        model.backbone.settle(torch.randn(50, width) * torch.linspace(0.5, 2, width) + 1)
        for part in model.modules():
            if isinstance(part, Adapted):
                torch.nn.init.normal_(part.up, std=0.1)
        numbers = {"mean": [0.4] * 3, "std": [0.2] * 3, "label_names": ["cat", "dog", "eel"]}
        cfg = ModelConfig(name=name, **options)
        save(tmp_path, model, model_config=cfg, image_size=(size, size), channels=3, **numbers)
        return model

    return export


def read_config(folder):
    return json.loads((folder / "config.json").read_text())


def some_images(size=32):
    return torch.randn(2, 3, size, size, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("cnn", {"head": "mlp", "hidden": 8}),
        ("cnn", {}),
        (NET, {"head": "mlp", "hidden": 8, "input_size": 40}),
        (NET, {}),
        (NET, {"layer": 2}),
        (NET, {"unfreeze": "last-stage"}),
        (VIT, {"layer": 1}),
        (VIT, {"head": "mlp", "unfreeze": "adapters", "adapter_rank": 3}),
        (VIT, {"unfreeze": "adapters"}),
    ],
)
def test_a_frozen_network_comes_back_as_it_was(export, tmp_path, name, options):
    model = export(name, frozen=True, **options)
    loaded, config = load(tmp_path)
    assert isinstance(loaded.backbone, Frozen)
    assert loaded.backbone.takes_vectors
    assert config["image_size"] == [32, 32]
    torch.testing.assert_close(loaded(some_images()), model(some_images()), atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize(
    ("name", "options"),
    [
        (NET, {"layer": 0}),
        (NET, {"layer": 0, "input_size": 32}),
        (NET, {"layer": 0, "unfreeze": "last-stage"}),
        (VIT, {}),
        (VIT, {"unfreeze": "adapters"}),
    ],
)
def test_timm_reads_a_linear_head_with_its_scaling_folded_in(export, tmp_path, name, options):
    model = export(name, frozen=True, **options)
    theirs = timm.create_model(f"local-dir:{tmp_path}", pretrained=True).eval()
    torch.testing.assert_close(theirs(some_images()), model(some_images()), atol=1e-4, rtol=1e-4)
    assert theirs.pretrained_cfg["input_size"] == [3, 32, 32]


@pytest.mark.parametrize("options", [{"head": "mlp"}, {"input_size": 48}, {"layer": 1}])
def test_what_timm_cannot_say_is_written_in_our_form(export, tmp_path, options):
    export(NET, frozen=True, **options)
    assert "pretrained_cfg" not in read_config(tmp_path)
    assert all(name.startswith(("backbone.", "head.")) for name in load_file(tmp_path / "model.safetensors"))


def test_adapters_leave_no_trace_in_the_files(export, tmp_path):
    model = export(VIT, frozen=True, head="mlp", unfreeze="adapters", adapter_rank=3)
    assert not any(name.endswith((".up", ".down")) for name in load_file(tmp_path / "model.safetensors"))
    assert (read_config(tmp_path)["model"]["unfreeze"], read_config(tmp_path)["model"]["adapter_rank"]) == (
        "nothing",
        8,
    )
    assert any(isinstance(part, Adapted) for part in model.modules()), "the network itself stays as it was"


@pytest.mark.parametrize("options", [{}, {"head": "mlp", "hidden": 8}])
def test_a_run_goes_on_from_the_exported_folder_head_and_all(export, make, tmp_path, options):
    model = export(NET, frozen=True, **options)
    for weights in (tmp_path, tmp_path / "model.safetensors"):
        tuned = make(
            NET, size=32, seed=7, frozen=True, unfreeze="last-stage", weights=str(weights), **options
        ).eval()
        torch.testing.assert_close(tuned(some_images()), model(some_images()), atol=1e-4, rtol=1e-4)
        assert tuned.backbone.mean == (0.4,) * 3
        tuned.backbone.settle(torch.zeros(4, tuned.backbone.num_inputs))  # too late: it came with the head
        torch.testing.assert_close(tuned(some_images()), model(some_images()), atol=1e-4, rtol=1e-4)


def test_the_predictor_takes_images(export, tmp_path):
    model = export(NET, frozen=True, head="mlp", input_size=40)
    pixels = np.random.default_rng(0).integers(0, 256, (4, 32, 32, 3), dtype=np.uint8)
    inputs = (torch.from_numpy(pixels).permute(0, 3, 1, 2) / 255 - 0.4) / 0.2
    expected = model(inputs).softmax(-1).detach().numpy()
    np.testing.assert_allclose(Predictor.load(tmp_path).predict_proba(pixels), expected, atol=1e-5)
