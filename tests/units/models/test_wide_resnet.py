"""Wide ResNets against the authors' numbers and against the same network written as plain functions."""

import pytest
import torch
import torch.nn.functional as F

from interlude.errors import UserError

EPS = 1e-5


@pytest.mark.parametrize(
    ("name", "num_classes", "count"),
    [
        ("wrn-28-2", 10, 1_467_610),
        ("wrn-28-8", 100, 23_401_012),
        ("wrn-28-2-4stage", 4, 5_927_892),
        ("wrn-37-2", 10, 5_929_434),
    ],
)
def test_networks_of_the_paper_have_the_authors_number_of_parameters(make, name, num_classes, count):
    assert sum(x.numel() for x in make(name, num_classes=num_classes).parameters()) == count


def norm(x, state, name, training):
    weight, bias = state[f"{name}.weight"], state[f"{name}.bias"]
    mean, var = state[f"{name}.running_mean"], state[f"{name}.running_var"]
    if training:
        mean, var = x.mean((0, 2, 3)), x.var((0, 2, 3), correction=0)
    shape = (1, -1, 1, 1)
    return (x - mean.view(shape)) / (var.view(shape) + EPS).sqrt() * weight.view(shape) + bias.view(shape)


def leaky(x):
    return torch.where(x > 0, x, 0.1 * x)


def unit(x, state, name, stride, *, first_stage, standard, training):
    """One residual unit, as the specification (2.7) describes it."""
    activated = leaky(norm(x, state, f"{name}.norm1", training))
    shortcut = state.get(f"{name}.shortcut.weight")
    if shortcut is None:
        into_conv, beside = activated, x
    elif first_stage:
        into_conv, beside = activated, F.conv2d(activated, shortcut, stride=stride)
    else:
        into_conv, beside = activated if standard else x, F.conv2d(x, shortcut, stride=stride)
    y = F.conv2d(into_conv, state[f"{name}.conv1.weight"], stride=stride, padding=1)
    y = leaky(norm(y, state, f"{name}.norm2", training))
    return F.conv2d(y, state[f"{name}.conv2.weight"], padding=1) + beside


def forward(x, state, strides, units, *, midway=lambda x: x, **options):
    x = F.conv2d(x, state["stem.weight"], padding=1)
    for i, stride in enumerate(strides):
        if i == len(strides) - 1:
            x = midway(x)
        for j in range(units):
            x = unit(x, state, f"stages.{i}.{j}", stride if j == 0 else 1, first_stage=i == 0, **options)
    return leaky(norm(x, state, "norm", options["training"])).mean((2, 3))


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("standard", [True, False])
@pytest.mark.parametrize(
    ("name", "strides", "units"),
    [("wrn-10-1", (1, 2, 2), 1), ("wrn-16-2", (1, 2, 2), 2), ("wrn-37-2", (2, 2, 2, 2), 4)],
)
def test_the_network_equals_its_plain_formula(make, images, name, strides, units, standard, training):
    model = make(name, standard_preact=standard).double().train(training)
    for part in model.modules():
        if isinstance(part, torch.nn.BatchNorm2d):
            torch.nn.init.uniform_(part.weight, 0.5, 1.5)
            torch.nn.init.uniform_(part.bias, -0.5, 0.5)
            part.running_mean.uniform_(-0.5, 0.5)
            part.running_var.uniform_(0.5, 1.5)
    state = {key: value.clone() for key, value in model.backbone.state_dict().items()}

    def fuse(x):
        return 0.9 * x + 0.1 * x.roll(-1, 0)

    options = {"standard": standard, "training": training}
    for midway in (None, fuse):
        expected = forward(images.double(), state, strides, units, midway=midway or (lambda x: x), **options)
        torch.testing.assert_close(model.backbone(images.double(), midway=midway), expected)


def test_the_two_preactivations_are_different_functions_of_the_same_weights(make, images):
    authors, original = make("wrn-10-2").eval(), make("wrn-10-2", standard_preact=True).eval()
    original.load_state_dict(authors.state_dict())
    assert not torch.allclose(authors(images), original(images), atol=1e-3)


def test_192_numbers_of_wrn_28_2_are_never_trained(make):
    backbone = make("wrn-28-2").backbone
    numbers = dict(backbone.named_parameters())
    assert sum(numbers[name].numel() for name in backbone.untrained) == 192
    assert not make("wrn-28-2", standard_preact=True).backbone.untrained


def test_norms_have_the_papers_momentum_and_epsilon_unless_told_otherwise(make):
    norms = [part for part in make("wrn-10-2").modules() if isinstance(part, torch.nn.BatchNorm2d)]
    assert {(part.momentum, part.eps) for part in norms} == {(0.001, 1e-5)}
    norms = [
        part
        for part in make("wrn-10-2", norm_momentum=0.1).modules()
        if isinstance(part, torch.nn.BatchNorm2d)
    ]
    assert {part.momentum for part in norms} == {0.1}


def test_convolutions_start_kaiming_normal_by_fan_out(make):
    weight = make("wrn-28-8").backbone.stages[2][1].conv2.weight
    assert weight.std().item() == pytest.approx((2 / (512 * 9)) ** 0.5, rel=0.01)
    assert not any(name.endswith("conv1.bias") or name == "stem.bias" for name in make().state_dict())


def test_only_one_dimensional_parameters_go_undecayed(make):
    """Invariant 22: norms and biases are the 1-D parameters; there is nothing else to exempt."""
    model = make("wrn-10-2")
    one_d = {name for name, x in model.named_parameters() if x.ndim == 1}
    assert one_d == {name for name, _ in model.named_parameters() if "norm" in name or "bias" in name}
    assert model.undecayed() == set()


def test_any_depth_of_the_form_6n_plus_4_can_be_named(make):
    assert len(make("wrn-22-3").backbone.stages[0]) == 3
    assert make("wrn-22-3").num_features == 192


@pytest.mark.parametrize("name", ["wrn-27-2", "wrn-4-2", "wrn-28-0"])
def test_an_impossible_depth_or_width_is_an_error_of_the_user(make, name):
    with pytest.raises(UserError, match=r"6n\+4"):
        make(name)
