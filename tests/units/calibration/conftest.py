"""A made-up classifier whose right temperature is known."""

import pytest
import torch


@pytest.fixture
def world():
    """Logits and labels of `count` images; the logits are `temperature` times those that tell the truth."""

    def make(count, *, seed=0, temperature=1.0, distance=2.0, classes=5):
        chance = torch.Generator().manual_seed(seed)
        labels = torch.randint(classes, (count,), generator=chance)
        seen = distance * torch.eye(classes).double()[labels]
        seen += torch.randn(count, classes, generator=chance, dtype=torch.float64)
        return temperature * distance * seen, labels

    return make
