"""The tensors of a network in pieces of memory."""

import copy
import pickle

import pytest
import safetensors.torch
import torch
from torch import nn

from interlude.models import ModelConfig, build
from interlude.parts.packing import Packed, packed


@pytest.fixture
def network():
    """A convolution in channels-last order, a norm with statistics and a count, a weight of odd size."""
    torch.manual_seed(0)
    return nn.Sequential(nn.Conv2d(3, 5, 3), nn.BatchNorm2d(5), nn.Conv2d(5, 2, 1)).to(
        memory_format=torch.channels_last
    )


def test_packing_changes_no_number_no_object_and_no_order_of_axes(network):
    before = [(x, x.detach().clone(), x.stride()) for x in network.state_dict(keep_vars=True).values()]
    Packed(network)
    for x, (old, values, strides) in zip(network.state_dict(keep_vars=True).values(), before, strict=True):
        assert x is old
        assert torch.equal(x, values)
        assert x.stride() == strides


def test_what_is_done_to_the_pieces_is_done_to_every_tensor(network):
    pieces = Packed(network)
    for piece in (*pieces.parameters, *pieces.buffers):
        piece.fill_(7)
    assert all((x == 7).all() for x in network.state_dict().values())


def test_parameters_are_one_piece_and_buffers_one_for_each_type(network):
    pieces = Packed(network)
    assert [piece.dtype for piece in pieces.parameters] == [torch.float32]
    assert [piece.dtype for piece in pieces.buffers] == [torch.float32, torch.int64]


def test_every_tensor_begins_where_a_tensor_of_its_own_might(network):
    Packed(network)
    assert all(x.data_ptr() % 64 == 0 for x in network.state_dict().values())


def test_gradients_and_training_go_on(network):
    images = torch.randn(4, 3, 8, 8)
    other = copy.deepcopy(network)
    Packed(network)
    for model in (network, other):
        optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)
        for _ in range(2):
            model(images).square().sum().backward()
            optimizer.step()
    for mine, plain in zip(network.state_dict().values(), other.state_dict().values(), strict=True):
        assert torch.equal(mine, plain)


def test_pieces_are_kept_as_long_as_every_tensor_is_in_them(network):
    pieces = packed(network)
    with torch.no_grad():
        network[0].weight.add_(1)
    assert packed(network) is pieces


@pytest.mark.parametrize(
    "leave",
    [
        lambda network: network.double(),
        lambda network: setattr(network[2], "bias", nn.Parameter(torch.ones(2))),
        lambda network: network[1].load_state_dict(copy.deepcopy(network[1].state_dict()), assign=True),
        lambda network: Packed(network[1]),
    ],
    ids=["converted", "exchanged", "assigned", "packed with others"],
)
def test_tensors_that_have_left_are_noticed(network, leave):
    pieces = packed(network)
    leave(network)
    fresh = packed(network)
    assert fresh is not pieces
    fresh.parameters[0].fill_(3)
    assert all((weight == 3).all() for weight in network.parameters())


def test_a_network_without_tensors_has_nothing_that_could_leave():
    network = nn.Identity()
    assert packed(network, owned=True) is packed(network, owned=True) is packed(network)


def test_a_copy_has_memory_of_its_own(network):
    Packed(network)
    again = copy.deepcopy(network)
    Packed(again).parameters[0].fill_(3)
    assert not any((weight == 3).any() for weight in network.parameters())


def test_a_packed_network_can_be_saved(network, tmp_path):
    Packed(network)
    state = network.state_dict()
    safetensors.torch.save_file({name: x.contiguous() for name, x in state.items()}, tmp_path / "weights")
    torch.save(state, tmp_path / "state")
    for read in (safetensors.torch.load_file(tmp_path / "weights"), torch.load(tmp_path / "state")):
        assert all(torch.equal(read[name], x) for name, x in state.items())
    assert len(pickle.dumps(network)) < 10_000


def test_what_never_moves_in_a_frozen_network_stays_where_it_is():
    cfg = ModelConfig(name="cnn", frozen=True, head="mlp", hidden=8)
    network = build(cfg, num_classes=3, channels=1, image_size=(8, 8))
    before = {x.data_ptr() for x in network.backbone.fixed()}
    Packed(network)
    assert {x.data_ptr() for x in network.backbone.fixed()} == before
