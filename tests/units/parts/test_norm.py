"""Frozen statistics: the batch is normalised by itself, and nothing is remembered."""

import torch
from torch import nn

from interlude.parts.norm import frozen_statistics


def test_the_output_is_that_of_training_and_the_buffers_stay():
    torch.manual_seed(0)
    net, images = nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2)), torch.randn(4, 1, 5, 5)
    before = {name: value.clone() for name, value in net.state_dict().items()}
    with frozen_statistics(net):
        frozen = net(images)
    assert all(torch.equal(before[name], value) for name, value in net.state_dict().items())
    torch.testing.assert_close(frozen, net(images))
    assert not torch.equal(before["1.running_mean"], net[1].running_mean), "after the block they move again"


def test_momentum_and_count_come_back_after_an_error():
    norm = nn.BatchNorm1d(2)
    try:
        with frozen_statistics(norm):
            raise KeyError
    except KeyError:
        assert norm.momentum == 0.1
        assert norm.num_batches_tracked.item() == 0
