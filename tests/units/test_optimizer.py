"""Which parameters are decayed, how fast each moves, and the rate of a step."""

import pytest
import torch
from torch import nn

from interlude.errors import UserError
from interlude.method import Method, Task
from interlude.models import ModelConfig, build
from interlude.optimizer import Optimizer, OptimizerConfig, parameter_groups

PLAIN = OptimizerConfig(rate=0.1, momentum=0.0, weight_decay=0.0)


class Deep(nn.Module):
    """Three layers that are named, and a token that takes no decay."""

    def __init__(self):
        super().__init__()
        self.token = nn.Parameter(torch.ones(1, 1, 4))
        self.first = nn.Linear(4, 4)
        self.second = nn.Linear(4, 4)
        self.norm = nn.LayerNorm(4)
        self.head = nn.Linear(4, 2)

    def forward(self, images):
        return self.head(self.norm(self.second(self.first(images + self.token[0]))))

    def layers(self):
        depth = {"token": 0, "first": 1, "second": 2, "norm": 2, "head": 3}
        return {name: depth[name.partition(".")[0]] for name, _ in self.named_parameters()}

    def undecayed(self):
        return {"token"}


class Flat(Deep):
    """The same without named layers."""

    def layers(self):
        return {}


class WithOwnHead(Method):
    """A method that trains something of its own, at its own speed."""

    def __init__(self, cfg, model, task):
        super().__init__(cfg, model, task)
        self.projector = nn.Linear(4, 3)

    def lr_scale(self, name):
        return 10.0 if name.startswith("projector.") else 1.0


def method_over(model, kind=Method):
    task = Task(2, torch.zeros(1), labeled=None, unlabeled=(), sweep=None)
    return kind(kind.Config(), model, task)


def group_of(groups, parameter):
    (found,) = [group for group in groups if any(parameter is other for other in group["params"])]
    return found


def moved(before, method):
    return {name for name, weight in method.named_parameters() if not torch.equal(before[name], weight)}


def snapshot(method):
    return {name: weight.detach().clone() for name, weight in method.named_parameters()}


def some_loss(method):
    return method.model(torch.randn(5, 4, generator=torch.Generator().manual_seed(0))).square().sum()


def test_what_is_not_decayed_is_one_dimensional_or_named():
    method = method_over(Deep())
    groups = parameter_groups(OptimizerConfig(weight_decay=0.01), method)
    free = {id(p) for group in groups if group["weight_decay"] == 0 for p in group["params"]}
    names = {name for name, parameter in method.named_parameters() if id(parameter) in free}
    assert names == {
        "model.token",
        "model.first.bias",
        "model.second.bias",
        "model.norm.weight",
        "model.norm.bias",
        "model.head.bias",
    }
    assert {group["weight_decay"] for group in groups} == {0, 0.01}


@pytest.mark.parametrize("name", ["cnn", "wrn-28-2"])
def test_of_a_convolutional_network_exactly_the_one_dimensional_parameters_are_not_decayed(name):
    model = build(ModelConfig(name=name), num_classes=3, channels=3, image_size=(32, 32), precision="fp32")
    method = method_over(model)
    for group in parameter_groups(OptimizerConfig(), method):
        assert all((p.ndim == 1) == (group["weight_decay"] == 0) for p in group["params"])


def test_of_a_transformer_the_tokens_are_not_decayed_either():
    with torch.device("meta"):
        model = build(
            ModelConfig(name="vit-base-16-96"),
            num_classes=3,
            channels=3,
            image_size=(96, 96),
            precision="fp32",
        )
    method = method_over(model)
    groups = parameter_groups(OptimizerConfig(), method)
    free = {id(p) for group in groups if group["weight_decay"] == 0 for p in group["params"]}
    wide = {name.rpartition(".")[2] for name, p in method.named_parameters() if id(p) in free and p.ndim > 1}
    assert wide == {"pos_embed", "cls_token"}


def test_every_trained_parameter_is_in_exactly_one_group():
    method = method_over(Deep(), WithOwnHead)
    method.model.second.weight.requires_grad_(False)
    groups = parameter_groups(OptimizerConfig(layer_decay=0.5), method)
    found = [id(p) for group in groups for p in group["params"]]
    expected = [id(p) for p in method.parameters() if p.requires_grad]
    assert sorted(found) == sorted(expected)


def test_a_layer_moves_more_slowly_than_the_one_above_it():
    method = method_over(Deep())
    groups = parameter_groups(OptimizerConfig(layer_decay=0.5), method)
    model = method.model
    weights = (model.head.weight, model.second.weight, model.norm.bias, model.first.weight, model.token)
    scales = [group_of(groups, weight)["scale"] for weight in weights]
    assert scales == [1, 0.5, 0.5, 0.25, 0.125]


def test_a_part_of_the_method_itself_has_its_own_factor_and_no_layer_decay():
    method = method_over(Deep(), WithOwnHead)
    groups = parameter_groups(OptimizerConfig(layer_decay=0.5), method)
    assert group_of(groups, method.projector.weight)["scale"] == 10
    assert group_of(groups, method.projector.bias)["scale"] == 10
    assert group_of(groups, method.model.head.weight)["scale"] == 1


def test_layer_decay_of_a_network_without_layers_is_refused():
    with pytest.raises(UserError, match="layer_decay needs a network that names its layers"):
        parameter_groups(OptimizerConfig(layer_decay=0.5), method_over(Flat()))


def test_the_factors_scale_the_step_of_each_parameter():
    method = method_over(Deep())
    optimizer = Optimizer(OptimizerConfig(rate=0.1, momentum=0, weight_decay=0, layer_decay=0.5), method, 10)
    before = snapshot(method)
    loss = some_loss(method)
    gradients = torch.autograd.grad(loss, list(method.parameters()), retain_graph=True)
    optimizer.step(0, loss)
    scales = {"token": 0.125, "first": 0.25, "second": 0.5, "norm": 0.5, "head": 1.0}
    for (name, weight), gradient in zip(method.named_parameters(), gradients, strict=True):
        expected = before[name] - 0.1 * scales[name.split(".")[1]] * gradient
        torch.testing.assert_close(weight.detach(), expected)


def test_parameters_without_gradient_do_not_move():
    method = method_over(Deep(), WithOwnHead)
    optimizer = Optimizer(OptimizerConfig(rate=0.1, weight_decay=0.5), method, 10)
    optimizer.step(0, some_loss(method) + method.projector.weight.square().sum())
    before = snapshot(method)
    optimizer.step(1, some_loss(method))  # nothing for the projector, which has momentum by now
    stayed = set(before) - moved(before, method)
    assert stayed == {"projector.weight", "projector.bias"}


@pytest.mark.parametrize("name", ["sgd", "adamw"])
def test_both_optimisers_descend(name):
    method = method_over(Deep())
    optimizer = Optimizer(OptimizerConfig(name=name, rate=0.01), method, 20)
    losses = []
    for step in range(20):
        losses.append(some_loss(method).item())
        optimizer.step(step, some_loss(method))
    assert losses[-1] < 0.5 * losses[0]


@pytest.mark.parametrize("name", ["sgd", "adamw"])
def test_weight_decay_shrinks_matrices_only(name):
    method = method_over(Deep())
    optimizer = Optimizer(OptimizerConfig(name=name, rate=0.1, momentum=0, weight_decay=0.5), method, 10)
    before = snapshot(method)
    optimizer.step(
        0, sum((weight * 0).sum() for weight in method.parameters())
    )  # gradients that are all zero
    for parameter, weight in method.named_parameters():
        shrunk = weight.ndim == 2
        torch.testing.assert_close(weight.detach(), before[parameter] * (1 - 0.1 * 0.5 if shrunk else 1))


def test_momentum_is_nesterovs():
    method = method_over(Deep())
    optimizer = Optimizer(OptimizerConfig(rate=0.1, momentum=0.9, weight_decay=0), method, 10**9)
    start, velocity = method.model.head.bias.detach().clone(), 0.0
    for step in range(3):
        optimizer.step(step, method.model.head.bias.sum())  # a gradient of one
        velocity = 0.9 * velocity + 1
        start = start - 0.1 * (1 + 0.9 * velocity)
        torch.testing.assert_close(method.model.head.bias.detach(), start)


def test_the_rate_of_a_step_follows_the_schedule_and_the_objective():
    method = method_over(Deep())
    optimizer = Optimizer(PLAIN, method, 100)
    assert optimizer.rate(0) == pytest.approx(0.1)
    assert optimizer.rate(100) == pytest.approx(0.1 * 0.19509, rel=1e-4)
    before = method.model.head.bias.detach().clone()
    optimizer.step(100, method.model.head.bias.sum(), scale=0.5)
    torch.testing.assert_close(
        before - method.model.head.bias.detach(), torch.full((2,), 0.05 * 0.19509), rtol=1e-4, atol=0
    )


def test_gradients_of_one_step_do_not_leak_into_the_next():
    method = method_over(Deep())
    optimizer = Optimizer(PLAIN, method, 10**9)
    before = method.model.head.bias.detach().clone()
    for step in range(3):
        optimizer.step(step, method.model.head.bias.sum())
    torch.testing.assert_close(before - method.model.head.bias.detach(), torch.full((2,), 0.3))


def test_parameters_of_one_group_may_first_move_at_different_steps():
    method = method_over(Deep())
    optimizer = Optimizer(OptimizerConfig(rate=0.1), method, total=4)
    first, second = method.model.first.weight, method.model.second.weight
    optimizer.step(0, first.square().sum())
    before = second.detach().clone()
    optimizer.step(1, first.square().sum() + second.square().sum())
    assert not torch.equal(before, second)


def test_momentum_that_starts_at_zero_is_torch_s_own():
    mine, theirs = nn.Linear(3, 2), nn.Linear(3, 2)
    theirs.load_state_dict(mine.state_dict())
    method = method_over(Deep())
    method.model, method.projector = Flat(), mine
    optimizer = Optimizer(OptimizerConfig(rate=0.1, weight_decay=0.0), method, total=10**9)
    reference = torch.optim.SGD(theirs.parameters(), lr=0.1, momentum=0.9, nesterov=True)
    for step in range(3):
        optimizer.step(step, mine.weight.pow(4).sum())
        reference.zero_grad()
        theirs.weight.pow(4).sum().backward()
        reference.step()
    torch.testing.assert_close(mine.weight, theirs.weight)


def test_a_second_network_has_layer_decay_and_undecayed_tokens_too():
    cfg = ModelConfig(name="vit-small-2-32")
    make = {"num_classes": 2, "channels": 1, "image_size": (4, 4)}
    method = method_over(build(cfg, **make))
    method.teacher = build(cfg, **make)
    groups = parameter_groups(OptimizerConfig(layer_decay=0.5), method)
    for network in (method.model, method.teacher):
        token = group_of(groups, network.backbone.get_parameter("model.cls_token"))
        assert token["weight_decay"] == 0
        assert token["scale"] == 0.5**13


def tuned(**options):
    cfg = ModelConfig(name="timm:test_vit", frozen=True, head="mlp", hidden=8, **options)
    return method_over(build(cfg, num_classes=2, channels=3, image_size=(32, 32)))


def test_of_a_frozen_network_the_top_and_the_head_are_trained_at_full_rate():
    method = tuned()
    groups = parameter_groups(OptimizerConfig(layer_decay=0.5), method)
    found = {id(p) for group in groups for p in group["params"]}
    top = [*method.model.backbone.top.parameters(), *method.model.head.parameters()]
    assert found == {id(p) for p in top}
    assert {group["scale"] for group in groups} == {1.0}


def test_an_unfrozen_last_stage_moves_more_slowly_by_its_factor_and_by_layer_decay():
    method = tuned(unfreeze="last-stage")
    body = method.model.backbone.body.model
    for layer_decay, expected in ((1.0, 0.2), (0.5, 0.1)):
        groups = parameter_groups(OptimizerConfig(unfrozen=0.2, layer_decay=layer_decay), method)
        assert group_of(groups, body.blocks[-1].mlp.fc1.weight)["scale"] == pytest.approx(expected)
        assert group_of(groups, body.norm.weight)["scale"] == pytest.approx(0.2)  # in the layer of the head
        assert group_of(groups, method.model.backbone.top.linear.weight)["scale"] == 1
        assert group_of(groups, method.model.head.weight)["scale"] == 1


def test_adapters_are_new_and_move_at_full_rate():
    method = tuned(unfreeze="adapters")
    groups = parameter_groups(OptimizerConfig(unfrozen=0.2), method)
    assert {group["scale"] for group in groups} == {1.0}
    assert group_of(groups, method.model.backbone.body.model.blocks[0].attn.qkv.up)


def test_a_body_that_knows_no_layers_is_one_layer_below_the_head():
    cfg = ModelConfig(name="cnn", frozen=True, unfreeze="last-stage")
    method = method_over(build(cfg, num_classes=2, channels=3, image_size=(8, 8)))
    groups = parameter_groups(OptimizerConfig(unfrozen=1.0, layer_decay=0.5), method)
    assert group_of(groups, method.model.backbone.body.last.conv1.weight)["scale"] == 0.5
    assert group_of(groups, method.model.head.weight)["scale"] == 1


def of_two_types():
    """A layer and another one in double precision, and what is to become small."""
    torch.manual_seed(0)
    one, other = nn.Linear(3, 2), nn.Linear(3, 2).double()
    return nn.ModuleList([one, other]), lambda: one.weight.pow(4).sum() + other.weight.pow(4).sum()


def test_parameters_of_several_types_move_as_by_torch():
    (mine, my_loss), (theirs, their_loss) = of_two_types(), of_two_types()
    method = method_over(Deep())
    method.model, method.projector = Flat(), mine
    optimizer = Optimizer(OptimizerConfig(rate=0.1, weight_decay=0.0), method, total=10**9)
    reference = torch.optim.SGD(theirs.parameters(), lr=0.1, momentum=0.9, nesterov=True)
    for step in range(3):
        optimizer.step(step, my_loss())
        reference.zero_grad()
        their_loss().backward()
        reference.step()
    for weight, expected in zip(mine.parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(weight, expected)
