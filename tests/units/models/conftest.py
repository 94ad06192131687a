"""What the tests of networks share."""

from collections.abc import Callable

import pytest
import torch

from interlude.compat import prepare_torchvision
from interlude.models import Classifier, ModelConfig, build

prepare_torchvision()  # the tests import timm


@pytest.fixture
def make() -> Callable[..., Classifier]:
    """`make("cnn", size=16, channels=3, num_classes=3, **options)`: a classifier, the same for each seed."""

    def make(
        name: str = "cnn", *, size: int = 16, channels: int = 3, num_classes: int = 3, **options
    ) -> Classifier:
        torch.manual_seed(options.pop("seed", 0))
        precision = options.pop("precision", "fp32")
        cfg = ModelConfig(name=name, **options)
        return build(
            cfg, num_classes=num_classes, channels=channels, image_size=(size, size), precision=precision
        )

    return make


@pytest.fixture
def images() -> torch.Tensor:
    return torch.randn(5, 3, 16, 16, generator=torch.Generator().manual_seed(1))
