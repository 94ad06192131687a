"""Torchvision's files of weights in networks of timm."""

import pytest
import torch
import torchvision
from safetensors.torch import save_file

from interlude.errors import UserError
from interlude.models.torchvision_weights import SAME, in_timms_names

THEIRS = {"mobilenetv2_100": "mobilenet_v2", "mnasnet_100": "mnasnet1_0"}


def torchvisions(name):
    torch.manual_seed(0)
    network = getattr(torchvision.models, THEIRS.get(name, name))().eval()
    for part in network.modules():
        if isinstance(part, torch.nn.BatchNorm2d):
            part.running_mean.normal_(std=0.1)
            part.running_var.uniform_(0.5, 2)
    return network


@pytest.mark.parametrize("name", SAME)
def test_the_logits_are_torchvisions_own(make, tmp_path, name):
    theirs = torchvisions(name)
    save_file(theirs.state_dict(), tmp_path / "weights.safetensors")  # which forgets the order
    weights = str(tmp_path / "weights.safetensors")
    model = make(f"timm:{name}", size=64, num_classes=1000, weights=weights).eval()
    images = torch.randn(2, 3, 64, 64)
    with torch.no_grad():
        torch.testing.assert_close(model(images), theirs(images), atol=1e-5, rtol=1e-4)


def test_weights_of_another_network_do_not_pass_for_its_own(make, tmp_path):
    state = torchvisions("mobilenetv2_100").state_dict()
    save_file(state, tmp_path / "weights.safetensors")
    with pytest.raises(UserError, match="does not fit timm:mnasnet_100: it has other shapes for"):
        make("timm:mnasnet_100", size=64, weights=str(tmp_path / "weights.safetensors"))


def test_a_tensor_of_another_shape_is_reported(make, tmp_path):
    state = torchvisions("mobilenetv2_100").state_dict()
    state["features.3.conv.0.0.weight"] = torch.zeros(1)
    save_file(state, tmp_path / "weights.safetensors")
    with pytest.raises(UserError, match="has other shapes for"):
        make("timm:mobilenetv2_100", size=64, weights=str(tmp_path / "weights.safetensors"))


def test_weights_with_timms_names_stay_as_they_are(make):
    model = make("timm:mobilenetv2_100", size=64).backbone.model
    weights = dict(model.state_dict())
    assert in_timms_names(model, "mobilenetv2_100", weights) is weights
