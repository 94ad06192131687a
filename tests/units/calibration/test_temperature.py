"""The temperature: found, held back where images are few, never harmful on the images it is found from."""

import math

import numpy as np
import pytest
import torch

from interlude.calibration import fit_temperature, log_loss
from interlude.calibration.temperature import LARGEST, SPREAD


def test_many_images_give_the_true_temperature(world):
    logits, labels = world(20_000, temperature=2.5)
    assert fit_temperature(logits, labels) == pytest.approx(2.5, rel=0.03)


def test_it_is_the_best_of_a_fine_grid(world):
    logits, labels = world(30, seed=3, temperature=3.0)
    grid = np.exp(np.linspace(-3, 3, 3001))
    probabilities = np.exp(logits.numpy()[None] / grid[:, None, None])
    probabilities /= probabilities.sum(-1, keepdims=True)
    losses = -np.log(probabilities[:, np.arange(30), labels.numpy()]).sum(-1)
    best = grid[np.argmin(losses + np.log(grid) ** 2 / (2 * SPREAD**2))]
    assert fit_temperature(logits, labels) == pytest.approx(best, rel=2e-3)


@pytest.mark.parametrize("seed", range(8))
def test_the_log_loss_is_never_worse_than_without(world, seed):
    logits, labels = world(12, seed=seed, temperature=0.5 + seed / 2)
    assert log_loss(logits, labels, fit_temperature(logits, labels)) <= log_loss(logits, labels)


def test_twenty_right_images_do_not_ask_for_certainty():
    logits = 4 * torch.eye(5).repeat(4, 1)
    temperature = fit_temperature(logits, torch.arange(5).repeat(4))
    assert 0.3 < temperature < 1


def test_it_stays_within_its_bounds():
    logits = torch.tensor([[1000.0, 0.0]]).repeat(5000, 1)
    labels = torch.arange(5000) % 2
    assert fit_temperature(logits, labels) == pytest.approx(LARGEST)


def test_few_images_from_an_overconfident_network_already_help(world):
    gains = []
    for seed in range(10):
        logits, labels = world(20, seed=seed, temperature=3.0)
        new, new_labels = world(2000, seed=100 + seed, temperature=3.0)
        found = fit_temperature(logits, labels)
        gains.append(log_loss(new, new_labels) - log_loss(new, new_labels, found))
    assert sum(gain > 0 for gain in gains) >= 9
    assert math.fsum(gains) / 10 > 0.2
