"""The averaged copy of a network."""

import copy
import gc
import pickle
import weakref

import pytest
import torch
from torch import nn

from interlude.models import ModelConfig, build
from interlude.parts.ema import Ema


def network():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 2))


def train_one_step(model):
    """Move all parameters, and through the pass all statistics."""
    loss = model.train()(torch.randn(8, 3, generator=torch.Generator().manual_seed(1))).square().sum()
    loss.backward()
    with torch.no_grad():
        for weight in model.parameters():
            weight -= 0.1 * weight.grad
            weight.grad = None


def test_it_begins_as_a_copy_in_evaluation_mode_without_gradients():
    model = network()
    ema = Ema(model, 0.9)
    for mine, theirs in zip(ema.model.state_dict().values(), model.state_dict().values(), strict=True):
        assert torch.equal(mine, theirs)
        assert mine.data_ptr() != theirs.data_ptr(), "the average shares memory with the network"
    assert not ema.model.training
    assert not any(weight.requires_grad for weight in ema.model.parameters())
    assert all(weight.requires_grad for weight in model.parameters())


def test_parameters_are_averaged():
    model = network()
    ema = Ema(model, 0.9)
    expected = copy.deepcopy(dict(model.named_parameters()))
    for _ in range(3):
        train_one_step(model)
        ema.update(model)
        for name, weight in model.named_parameters():
            expected[name] = 0.9 * expected[name].detach() + 0.1 * weight.detach()
    for name, weight in ema.model.named_parameters():
        torch.testing.assert_close(weight.detach(), expected[name])


@pytest.mark.parametrize("decay", [0.999, 0.3])
def test_packed_or_not_an_update_has_the_bits_of_a_lerp_of_each_weight(decay):
    model = network()
    ema = Ema(model, decay)
    for _ in range(2):
        train_one_step(model)
        pairs = zip(ema.model.parameters(), model.parameters(), strict=True)
        expected = [old.lerp(new.detach(), 1 - decay) for old, new in pairs]
        ema.update(model)
        assert all(map(torch.equal, ema.model.parameters(), expected))


def test_buffers_are_copied():
    model = network()
    ema = Ema(model, 0.999)
    for _ in range(2):
        train_one_step(model)
        ema.update(model)
    for name, buffer in model.named_buffers():
        assert torch.equal(dict(ema.model.named_buffers())[name], buffer), f"{name} was not copied"
    assert ema.model[1].num_batches_tracked == 2


@pytest.mark.parametrize("decay", [0.5, 0.999])
def test_with_warm_up_early_averages_are_shorter(decay):
    model = nn.Linear(1, 1, bias=False)
    nn.init.zeros_(model.weight)
    ema = Ema(model, decay, warmup=True)
    nn.init.ones_(model.weight)
    expected = 0.0
    for t in range(1, 30):
        ema.update(model)
        share = min(decay, (1 + t) / (10 + t))
        expected = share * expected + (1 - share)
        assert ema.model.weight.item() == pytest.approx(expected, abs=1e-6)


def test_without_warm_up_the_first_update_uses_the_whole_decay():
    model = nn.Linear(1, 1, bias=False)
    nn.init.zeros_(model.weight)
    ema = Ema(model, 0.99)
    nn.init.ones_(model.weight)
    ema.update(model)
    assert ema.model.weight.item() == pytest.approx(0.01, abs=1e-7)


def test_updating_does_not_touch_the_network():
    model = network()
    before = copy.deepcopy(model.state_dict())
    ema = Ema(model, 0.5)
    nn.init.zeros_(ema.model[0].weight)
    ema.update(model)
    for name, value in model.state_dict().items():
        assert torch.equal(value, before[name])


@pytest.mark.parametrize("warmup", [False, True])
def test_a_restored_average_goes_on_as_if_nothing_had_happened(warmup):
    model = network()
    ema = Ema(model, 0.999, warmup=warmup)
    for _ in range(3):
        train_one_step(model)
        ema.update(model)
    again = Ema(network(), 0.999, warmup=warmup)
    again.load_state_dict(ema.state_dict())
    train_one_step(model)
    for each in (ema, again):
        each.update(model)
    for mine, theirs in zip(ema.state_dict().values(), again.state_dict().values(), strict=True):
        assert torch.equal(mine, theirs)
    assert int(again.updates) == 4


def test_an_average_can_be_converted_and_goes_on_counting():
    model = network().double()
    ema = Ema(network(), 0.999, warmup=True).double()
    for _ in range(2):
        ema.update(model)
    assert ema.model[0].weight.dtype == torch.float64
    assert int(ema.updates) == 2


def test_training_mode_of_the_outside_does_not_reach_the_averaged_model():
    ema = Ema(network(), 0.9)
    before = ema.model[1].running_mean.clone()
    ema.model(torch.randn(8, 3))
    assert torch.equal(ema.model[1].running_mean, before)


def test_a_weight_that_two_parts_share_moves_once():
    first, second = nn.Linear(2, 2, bias=False), nn.Linear(2, 2, bias=False)
    second.weight = first.weight
    model = nn.Sequential(first, second)
    ema = Ema(model, 0.9)
    before = first.weight.detach().clone()
    nn.init.ones_(first.weight)
    ema.update(model)
    torch.testing.assert_close(ema.model[0].weight, 0.9 * before + 0.1)


def test_a_network_converted_between_two_updates_is_followed_still():
    model = network()
    ema = Ema(model, 0.5)
    ema.update(model)
    train_one_step(model)
    model.double()
    ema.double()
    ema.update(model)
    assert ema.model[1].running_mean.dtype == torch.float64
    for name, buffer in model.named_buffers():
        assert torch.equal(dict(ema.model.named_buffers())[name], buffer), f"{name} was not copied"


def test_an_average_follows_whichever_network_it_is_given():
    ones, twos = (nn.Linear(1, 1, bias=False) for _ in range(2))
    nn.init.ones_(ones.weight)
    nn.init.constant_(twos.weight, 2.0)
    ema = Ema(ones, 0.5)
    ema.update(twos)
    assert ema.model.weight.item() == 1.5
    ema.update(ones)
    assert ema.model.weight.item() == 1.25


def test_an_average_keeps_neither_a_network_nor_its_weights_alive():
    model = network()
    ema = Ema(model, 0.5)
    ema.update(model)
    gone = weakref.ref(model), weakref.ref(next(model.parameters()))
    del model
    gc.collect()
    assert [part() for part in gone] == [None, None]


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda ema: pickle.loads(pickle.dumps(ema))])
def test_a_copy_of_an_average_goes_its_own_way(copied):
    model = network()
    ema = Ema(model, 0.5)
    ema.update(model)
    before = [weight.clone() for weight in ema.model.parameters()]
    other = copied(ema)
    train_one_step(model)
    other.update(model)
    assert all(map(torch.equal, ema.model.parameters(), before))
    ema.update(model)
    assert all(map(torch.equal, ema.model.parameters(), other.model.parameters()))


def frozen(**options):
    torch.manual_seed(0)
    cfg = ModelConfig(name="cnn", frozen=True, head="mlp", hidden=8, **options)
    return build(cfg, num_classes=3, channels=1, image_size=(8, 8))


def shifted(model):
    """With every parameter that may move moved by one."""
    with torch.no_grad():
        for weight in model.parameters():
            weight.add_(weight.requires_grad)
    return model


@pytest.mark.parametrize("unfreeze", ["nothing", "last-stage"])
def test_what_never_moves_is_shared_and_all_else_is_averaged(unfreeze):
    model = frozen(unfreeze=unfreeze)
    ema = Ema(model, 0.5)
    before = {name: x.clone() for name, x in model.named_parameters()}
    fixed = {x.data_ptr() for x in model.backbone.fixed()}
    ema.update(shifted(model))
    averaged = dict(ema.model.named_parameters())
    for name, x in model.named_parameters():
        if x.data_ptr() in fixed:
            assert averaged[name] is x
        else:
            torch.testing.assert_close(averaged[name], before[name] + 0.5)
    trained = {name for name, x in model.named_parameters() if x.requires_grad}
    assert trained == {name for name, x in before.items() if averaged[name] is not model.get_parameter(name)}
    assert not any(x.requires_grad for x in ema.model.parameters())
    assert all(model.get_parameter(name).requires_grad for name in trained)


def test_the_scaling_reaches_the_average():
    model = frozen()
    ema = Ema(model, 0.5)
    model.backbone.settle(torch.rand(9, 64))
    ema.update(model)
    assert torch.equal(ema.model.backbone.top.scaling.mean, model.backbone.top.scaling.mean)


def test_an_average_of_a_frozen_network_comes_back_from_its_state():
    model = frozen()
    ema = Ema(model, 0.5)
    ema.update(shifted(model))
    torch.manual_seed(1)
    again = Ema(
        build(
            ModelConfig(name="cnn", frozen=True, head="mlp", hidden=8),
            num_classes=3,
            channels=1,
            image_size=(8, 8),
        ),
        0.5,
    )
    again.load_state_dict(ema.state_dict())
    images = torch.randn(2, 1, 8, 8)
    assert torch.equal(again.model(images), ema.model(images))
