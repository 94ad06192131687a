"""The average over all pixels."""

import pytest
import torch

from interlude.models.pooling import global_average

ORDERS = [torch.contiguous_format, torch.channels_last]


@pytest.mark.parametrize("order", ORDERS)
def test_each_channel_is_averaged_over_its_pixels(order):
    maps = torch.arange(2 * 3 * 4 * 5.0).view(2, 3, 4, 5)
    expected = [[sum(channel.flatten().tolist()) / 20 for channel in image] for image in maps]
    torch.testing.assert_close(global_average(maps.to(memory_format=order)), torch.tensor(expected))


def test_the_gradient_of_channels_last_maps_is_channels_last():
    seen = []
    maps = torch.randn(2, 3, 4, 4).to(memory_format=torch.channels_last).requires_grad_()
    between = maps * 1.0
    between.register_hook(seen.append)
    global_average(between).square().sum().backward()
    assert seen[0].is_contiguous(memory_format=torch.channels_last)
