"""Gradients as vectors, and a network at moved weights."""

import copy

import pytest
import torch
from torch import nn

from interlude.parts import gradients
from interlude.parts.gradients import direction, gradient, num_trainable, perturbed, trainable, with_gradient
from interlude.parts.norm import frozen_statistics


@pytest.fixture
def network():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Tanh(), nn.Linear(4, 2)).double()


@pytest.fixture
def rows():
    return torch.randn(6, 3, generator=torch.Generator().manual_seed(1), dtype=torch.float64)


def vector_like(network):
    return torch.randn(
        num_trainable(network), generator=torch.Generator().manual_seed(2), dtype=torch.float64
    )


def moved_by(network, offset):
    """A second network whose weights were really moved."""
    other, start = copy.deepcopy(network), 0
    with torch.no_grad():
        for weight in other.parameters():
            weight += offset[start : start + weight.numel()].reshape(weight.shape)
            start += weight.numel()
    return other


def test_a_gradient_is_that_of_backward_in_the_order_of_the_parameters(network, rows):
    found = gradient(network(rows).square().mean(), network)
    assert all(weight.grad is None for weight in network.parameters()), "no .grad may be touched"
    network(rows).square().mean().backward()
    torch.testing.assert_close(found, torch.cat([weight.grad.flatten() for weight in network.parameters()]))
    assert len(found) == num_trainable(network) == sum(weight.numel() for weight in network.parameters())


def test_a_weight_out_of_reach_has_a_gradient_of_zero(network, rows):
    found = gradient(network[:1](rows).sum(), network)
    first = sum(weight.numel() for weight in network[0].parameters())
    assert found[:first].any()
    assert not found[first:].any()


def test_a_loss_without_graph_has_a_gradient_of_zero(network):
    found = gradient(torch.tensor(3.0), network)
    assert found.shape == (num_trainable(network),)
    assert not found.any()


def test_frozen_weights_are_left_out(network, rows):
    network[0].requires_grad_(False)
    assert list(trainable(network)) == ["1.weight", "1.bias", "3.weight", "3.bias"]
    assert len(gradient(network(rows).sum(), network)) == num_trainable(network) == 4 + 4 + 8 + 2


def test_a_gradient_is_that_of_the_global_batch(network, rows, monkeypatch):
    monkeypatch.setattr(gradients.distributed, "total", lambda value: value.detach() + 100)
    plain = gradient(torch.zeros(()), network)
    found = gradient(0 * network(rows).sum(), network)
    torch.testing.assert_close(found, plain.double() + 100)


def test_the_loss_can_still_be_descended(network, rows):
    loss = network(rows).square().mean()
    gradient(loss, network)
    loss.backward()


def test_without_its_graph_a_loss_is_descended_through_the_known_gradient(network, rows):
    loss = network(rows).square().mean()
    found = gradient(loss, network, keep_graph=False)
    again = with_gradient(loss, found, network)
    assert torch.equal(again, loss)
    assert torch.equal(gradient(again, network), found), "the gradient is the given one, bit by bit"


def test_a_direction_has_length_one_over_all_weights():
    assert direction(torch.tensor([3.0, 0.0, 4.0])).tolist() == pytest.approx([0.6, 0.0, 0.8])
    assert direction(torch.zeros(3)).tolist() == [0, 0, 0]


def test_a_perturbed_network_is_one_whose_weights_were_moved(network, rows):
    offset = vector_like(network)
    first, second = perturbed(network, offset)(rows[:2], rows[2:])
    expected = moved_by(network, offset)(rows)
    torch.testing.assert_close(first, expected[:2])
    torch.testing.assert_close(second, expected[2:])


def test_the_gradient_at_moved_weights_arrives_at_the_weights_which_stay(network, rows):
    offset, before = vector_like(network), copy.deepcopy(network.state_dict())
    (logits,) = perturbed(network, offset)(rows)
    found = gradient(logits.square().mean(), network)
    other = moved_by(network, offset)
    torch.testing.assert_close(found, gradient(other(rows).square().mean(), other))
    for name, weight in network.named_parameters():
        assert torch.equal(weight, before[name])


def test_the_offset_takes_no_gradient(network, rows):
    offset = vector_like(network).requires_grad_()
    (logits,) = perturbed(network, offset)(rows)
    assert torch.autograd.grad(logits.sum(), offset, allow_unused=True) == (None,)


def test_a_perturbed_pass_leaves_running_statistics_alone_if_told_to(network, rows):
    before = copy.deepcopy(network.state_dict())
    with frozen_statistics(network):
        perturbed(network, vector_like(network))(rows)
    assert all(torch.equal(before[name], value) for name, value in network.state_dict().items())
    perturbed(network, vector_like(network))(rows)
    assert network[1].num_batches_tracked == 1, "otherwise it is a pass like any other"
