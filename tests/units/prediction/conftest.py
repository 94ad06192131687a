"""Small untrained models in run folders, with and without a calibration, and a folder of pictures."""

import numpy as np
import pytest
import torch
from PIL import Image

from interlude import models
from interlude.calibration import Usual, calibrate
from interlude.predictor import save_calibration

NAMES = ("cat", "dog", "a|b")


@pytest.fixture(scope="session")
def saved(tmp_path_factory):
    """Save an untrained network in a run folder."""

    def save(name="cnn", *, channels=3, size=16, calibration=True, fit="crop", **options):
        torch.manual_seed(0)
        config = models.ModelConfig(name=name, **options)
        network = models.build(config, num_classes=3, channels=channels, image_size=(size, size))
        torch.nn.init.normal_(network.head.weight)
        folder = tmp_path_factory.mktemp("run")
        models.save(
            folder,
            network,
            model_config=config,
            image_size=(size, size),
            channels=channels,
            mean=[0.4] * channels,
            std=[0.25] * channels,
            label_names=NAMES,
            fit=fit,
        )
        if calibration:
            logits = torch.randn(40, 3)
            known = calibrate(logits, logits.argmax(-1).roll(1), source="test")
            save_calibration(folder, known, Usual.of(torch.rand(99, network.num_features), torch.zeros(99)))
        return folder

    return save


@pytest.fixture
def pictures(tmp_path):
    """A folder with ten pictures of several sizes, `0.png` to `9.png`."""
    folder = tmp_path / "pictures"
    folder.mkdir()
    chance = np.random.default_rng(0)
    for i in range(10):
        pixels = chance.integers(0, 256, (16 + 3 * i, 20, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(folder / f"{i}.png")
    return folder
