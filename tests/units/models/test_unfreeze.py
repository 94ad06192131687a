"""From frozen to fine-tuned: the last stage, and adapters."""

import pytest
import torch
from torch import nn

from interlude.errors import UserError
from interlude.models.adapters import Adapted, adapt, merge

VIT = "timm:test_vit"


def blocks_of(network):
    return {name.split(".")[3] for name in network.unfrozen if ".blocks." in name}


@pytest.mark.parametrize(
    ("name", "inside", "outside"),
    [
        ("cnn", "body.last.conv1.weight", "body.stages.1.conv2.weight"),
        ("wrn-10-1", "body.stages.2.0.conv1.weight", "body.stages.1.0.conv1.weight"),
        ("timm:test_resnet", "body.model.layer4.0.conv1.weight", "body.model.layer3.0.conv1.weight"),
        ("timm:test_efficientnet", "body.model.blocks.4.0.bn1.weight", "body.model.conv_head.weight"),
        (VIT, "body.model.norm.weight", "body.model.cls_token"),
    ],
)
def test_the_last_stage_is_what_follows_the_stage_point(make, name, inside, outside):
    network = make(name, size=32, frozen=True, unfreeze="last-stage").backbone
    assert inside in network.unfrozen
    assert outside not in network.unfrozen
    trained = {name for name, x in network.named_parameters() if x.requires_grad}
    assert trained == network.unfrozen
    assert not network.takes_vectors


def test_the_last_stage_of_a_transformer_is_its_last_block(make):
    assert blocks_of(make(VIT, size=32, frozen=True, unfreeze="last-stage").backbone) == {"5"}


def test_gradient_reaches_the_last_stage_and_statistics_do_not_move(make, images):
    model = make("cnn", frozen=True, unfreeze="last-stage", head="mlp").train()
    before = {name: x.clone() for name, x in model.named_buffers()}
    model(images).square().sum().backward()
    reached = {name for name, x in model.backbone.named_parameters() if x.grad is not None}
    top = {f"top.{name}" for name, _ in model.backbone.top.named_parameters()}
    assert reached == model.backbone.unfrozen | top
    assert all(torch.equal(x, before[name]) for name, x in model.named_buffers())


def test_what_is_unfrozen_cannot_be_skipped_by_vectors(make):
    model = make("cnn", frozen=True, unfreeze="last-stage")
    with pytest.raises(AssertionError, match="vectors skip what is unfrozen"):
        model(torch.zeros(2, 64))


def test_fine_tuning_begins_where_the_frozen_run_ended(make, tmp_path, images):
    frozen = make("cnn", frozen=True, head="mlp")
    frozen.backbone.settle(torch.rand(9, 64))
    torch.save(frozen.state_dict(), tmp_path / "model.pt")
    tuned = make(
        "cnn", seed=4, frozen=True, head="mlp", unfreeze="last-stage", weights=str(tmp_path / "model.pt")
    )
    torch.testing.assert_close(tuned(images), frozen(images))


def test_a_network_without_a_stage_point_says_so(make):
    with pytest.raises(
        UserError, match=r"^unfreeze=last-stage: timm:convmixer_768_32 .* begins; choose another$"
    ):
        make("timm:convmixer_768_32", size=32, frozen=True, unfreeze="last-stage")


def moved(model):
    """With a head and adapters that no longer do nothing."""
    nn.init.normal_(model.head.weight)
    for part in model.modules():
        if isinstance(part, Adapted):
            nn.init.normal_(part.up, std=0.1)
    return model


def test_with_fresh_adapters_the_network_is_as_it_was(make):
    images = torch.randn(3, 3, 32, 32)
    frozen = make(VIT, size=32, frozen=True).eval()
    adapted = make(VIT, size=32, frozen=True, unfreeze="adapters").eval()
    assert torch.equal(adapted.backbone.extract(images), frozen.backbone.extract(images))
    assert not torch.equal(moved(adapted).backbone.extract(images), frozen.backbone.extract(images))


def test_only_adapters_are_trained_and_gradient_reaches_each(make):
    model = moved(make(VIT, size=32, frozen=True, unfreeze="adapters", adapter_rank=2))
    model(torch.randn(3, 3, 32, 32)).square().sum().backward()
    reached = {name for name, x in model.backbone.named_parameters() if x.grad is not None and x.grad.any()}
    assert reached == model.backbone.unfrozen
    assert len(reached) == 6 * 2 * 2
    assert {x.shape for name, x in model.named_parameters() if name.endswith(".down")} == {(2, 64)}


def test_an_adapter_adds_a_scaled_product_of_thin_matrices():
    linear = nn.Linear(5, 3)
    adapted = Adapted(linear, rank=2, alpha=6.0)
    nn.init.normal_(adapted.up)
    rows = torch.randn(4, 5)
    expected = linear(rows) + 3 * rows @ adapted.down.T @ adapted.up.T
    torch.testing.assert_close(adapted(rows), expected)
    torch.testing.assert_close(adapted.merged()(rows), expected)


def test_merged_adapters_leave_the_logits_as_they_are_and_no_trace(make):
    images = torch.randn(3, 3, 32, 32)
    model = moved(make(VIT, size=32, frozen=True, unfreeze="adapters")).eval()
    expected = model(images)
    merge(model.backbone)
    torch.testing.assert_close(model(images), expected)
    assert model.state_dict().keys() == make(VIT, size=32, frozen=True).state_dict().keys()


def test_a_network_without_attention_takes_no_adapters(make):
    with pytest.raises(
        UserError, match="adapters need the attention of a ViT of timm; use unfreeze=last-stage"
    ):
        make("cnn", frozen=True, unfreeze="adapters")


def test_a_layer_whose_weight_is_used_without_calling_it_is_not_adapted():
    class Attention(nn.Module):
        def __init__(self):
            super().__init__()
            self.q_bias = nn.Parameter(torch.zeros(4))
            self.qkv, self.proj = nn.Linear(4, 12), nn.Linear(4, 4)

    body = nn.ModuleDict({"block": nn.ModuleDict({"attn": Attention()})})
    assert adapt(body, rank=2, alpha=1.0) == {"block.attn.proj.down", "block.attn.proj.up"}
