"""Names and options of networks."""

import pytest
import torch
from torch import nn

from interlude.errors import UserError
from interlude.models import (
    Classifier,
    ModelConfig,
    backbone,
    backbone_names,
    classifier_kind,
    describe,
    find_kind,
)


def test_the_named_networks_are_listed_with_a_line_about_each():
    names = {"cnn", "vit-base-16-96", "vit-small-2-32", "wrn-10-1", "wrn-16-1"}
    names |= {"wrn-28-2", "wrn-28-2-4stage", "wrn-28-8", "wrn-37-2"}
    assert set(backbone_names()) == names
    assert describe().keys() == names | {"wrn-D-K", "timm:NAME", "vectors"}
    assert all(describe().values())


def test_two_networks_cannot_share_a_name():
    with pytest.raises(ValueError, match="two backbones are named 'cnn'"):
        backbone("cnn")(lambda name, **sizes: None)


def test_two_kinds_of_classifier_cannot_share_a_name():
    with pytest.raises(ValueError, match="two kinds of classifier are named 'linear'"):
        classifier_kind("linear")(Classifier)


def test_kinds_of_classifier_are_found_by_name():
    assert find_kind("linear") is Classifier
    assert find_kind("refined").kind == "refined"
    with pytest.raises(UserError, match="unknown kind of classifier 'refind'; did you mean 'refined'"):
        find_kind("refind")


def test_an_unknown_name_gets_the_nearest_names(make):
    with pytest.raises(UserError, match="unknown model 'wrn-28'; did you mean 'wrn-28-8' or 'wrn-28-2'"):
        make("wrn-28")


def test_the_name_of_a_timm_network_without_its_prefix_is_recognised(make):
    with pytest.raises(UserError, match="did you mean 'timm:resnet18'"):
        make("resnet18")


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("cnn", {"drop_path": 0.1}),
        ("wrn-10-1", {"drop_path": 0.0}),
        ("cnn", {"standard_preact": True}),
        ("vit-small-2-32", {"standard_preact": True}),
        ("timm:resnet18", {"standard_preact": True}),
        ("vit-small-2-32", {"norm_momentum": 0.1}),
        ("timm:densenet121", {"drop_path": 0.1}),
        ("cnn", {"layer": 1, "frozen": True}),
    ],
)
def test_an_option_that_a_network_does_not_have_is_an_error(make, name, options):
    with pytest.raises(UserError, match=f"{next(iter(options))} does not apply to the model '{name}'"):
        make(name, **options)


def test_networks_of_ours_have_nothing_to_download(make):
    with pytest.raises(UserError, match=r"pretrained does not apply to the model 'cnn'.*use weights=FILE"):
        make(pretrained=True)


def test_weights_come_from_one_place(make):
    with pytest.raises(UserError, match="exclude each other"):
        make("timm:resnet18", pretrained=True, weights="some.pt")


@pytest.mark.parametrize(
    "options", [{"norm_momentum": 0}, {"norm_momentum": 1.5}, {"drop_path": 1}, {"drop_path": -0.1}]
)
def test_options_have_bounds(options):
    with pytest.raises(UserError, match=f"{next(iter(options))} must be"):
        ModelConfig(**options)


def test_norm_momentum_reaches_every_batch_norm_of_any_network(make):
    for name in ("cnn", "timm:resnet18"):
        model = make(name, size=32, norm_momentum=0.25)
        assert {part.momentum for part in model.modules() if isinstance(part, nn.BatchNorm2d)} == {0.25}


def test_compiling_is_left_to_torch_and_keeps_the_names(make, monkeypatch):
    compiled = []
    monkeypatch.setattr(nn.Module, "compile", lambda self: compiled.append(type(self).__name__))
    assert list(make(compile=True).state_dict()) == list(make().state_dict())
    assert compiled == ["SmallNet"]


@pytest.mark.parametrize("name", ["cnn", "timm:resnet18"])
def test_a_compiled_network_still_calls_midway(make, name):
    model, images = make(name, size=32).eval(), torch.randn(3, 3, 32, 32)

    def fuse(z):
        return torch.lerp(z, z.roll(-1, 0), 0.3)

    plain, fused = model(images), model(images, midway=fuse, at="stage")
    model.backbone.compile(backend="eager")  # traces as the real backend does, but generates no code
    torch.testing.assert_close(model(images), plain)
    torch.testing.assert_close(model(images, midway=fuse, at="stage"), fused)
    torch.testing.assert_close(model(images), plain)
