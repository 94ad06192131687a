"""A small frozen network, toy pictures, and an extractor that counts what it is asked for."""

import pytest
import torch

from interlude import augment
from interlude.features.batches import FeatureBatches
from interlude.features.extract import Extractor
from interlude.features.options import FeaturesConfig
from interlude.models import ModelConfig, build
from interlude.testing import toy_split

CPU = torch.device("cpu")


@pytest.fixture
def network():
    torch.manual_seed(0)
    cfg = ModelConfig(name="cnn", frozen=True)
    return build(cfg, num_classes=3, channels=1, image_size=(8, 8)).eval().backbone


@pytest.fixture
def make_extractor(network, tmp_path):
    """An extractor into a temporary folder; with the same folder another one sees the same cache."""

    def make(network=network, folder="vectors", name="cnn"):
        return Extractor(
            network, tmp_path / folder, name=name, shape=(1, 8, 8), mean=(0.3,), std=(0.35,), device=CPU
        )

    return make


@pytest.fixture
def make_batches(make_extractor):
    """Batches of vectors of the toy pictures."""

    def make(*, extractor=None, split=None, weak=3, strong=4, seed=0, batch=4, mu=2, **policy):
        return FeatureBatches(
            split or toy_split(),
            augment.build(augment.AugmentConfig(**policy)),
            extractor or make_extractor(),
            FeaturesConfig(weak=weak, strong=strong),
            batch=batch,
            mu=mu,
            seed=seed,
            device=CPU,
        )

    return make
