"""A run of a frozen network is resumed exactly, whether it learns from vectors or from images."""

import io
from dataclasses import replace

import pytest
import torch

from interlude import checkpoint, testing
from interlude.features.options import FeaturesConfig
from interlude.loop import fit
from interlude.method import find_method
from interlude.models import ModelConfig
from interlude.run import Run


def make_run(**options):
    method = find_method("interlude")
    model = ModelConfig(frozen=True, head="mlp", hidden=8, **options)
    cfg = replace(testing.toy_config(method), model=model, features=FeaturesConfig(weak=2, strong=2))
    return Run(cfg, testing.toy_split(), method)


@pytest.mark.parametrize(
    "options",
    [
        {"name": "cnn", "dropout": 0.5},
        {"name": "cnn", "unfreeze": "last-stage"},
        {"name": "timm:test_vit", "unfreeze": "adapters", "input_size": 32},
    ],
    ids=lambda options: options.get("unfreeze", "nothing"),
)
def test_a_resumed_run_of_a_frozen_network_ends_as_the_whole_run(options):
    whole, half = make_run(**options), make_run(**options)
    whole.prepare()
    fit(whole)
    half.prepare()
    testing.stop_after(half, testing.STEPS // 2)
    file = io.BytesIO()
    torch.save(half.state(), file)
    file.seek(0)
    resumed = testing.scrambled(make_run(**options))
    resumed.load(torch.load(file, weights_only=True))
    fit(resumed)
    for part in ("method", "ema", "optimizer"):
        assert checkpoint.digest(whole.state()[part]) == checkpoint.digest(resumed.state()[part]), part
