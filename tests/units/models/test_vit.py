"""The two vision transformers of USB."""

import pytest
import torch

from interlude.errors import UserError


@pytest.fixture(scope="module")
def vit():
    from interlude.models import ModelConfig, build

    return build(ModelConfig(name="vit-small-2-32"), num_classes=10, channels=3, image_size=(32, 32)).eval()


def test_it_has_the_size_that_usb_gives_it(vit):
    inner = vit.backbone.model
    assert (len(inner.blocks), inner.embed_dim, inner.blocks[0].attn.num_heads) == (12, 384, 6)
    assert inner.patch_embed.patch_size == (2, 2)
    assert inner.pos_embed.shape == (1, 16 * 16 + 1, 384)
    assert sum(x.numel() for x in vit.parameters()) == 21_402_250


def test_it_drops_paths_up_to_a_fifth(vit, make):
    def last_rate(model):
        return model.backbone.model.blocks[-1].drop_path1.drop_prob

    assert last_rate(vit) == pytest.approx(0.2)
    assert last_rate(make("vit-small-2-32", size=4, drop_path=0.05)) == pytest.approx(0.05)


def test_tokens_and_patches_are_layer_0_and_block_i_is_layer_i_plus_1(vit):
    layers = vit.layers()
    assert layers.keys() == {name for name, _ in vit.named_parameters()}
    inner = "backbone.model."
    stem = ("cls_token", "pos_embed", "patch_embed.proj.weight", "patch_embed.proj.bias")
    assert {layers[inner + name] for name in stem} == {0}
    for i in range(12):
        assert {layer for name, layer in layers.items() if f".blocks.{i}." in name} == {i + 1}


def test_the_final_norm_and_the_head_are_the_last_layer(vit):
    layers = vit.layers()
    last = {name for name, layer in layers.items() if layer == 13}
    assert last == {"backbone.model.norm.weight", "backbone.model.norm.bias", "head.weight", "head.bias"}


def test_only_its_tokens_go_undecayed_beyond_the_one_dimensional(vit):
    assert vit.undecayed() == {"backbone.model.pos_embed", "backbone.model.cls_token"}


@torch.no_grad()
def test_the_embedding_is_the_normalised_class_token(vit):
    images = torch.randn(2, 3, 32, 32)
    inner = vit.backbone.model
    tokens = inner.blocks(
        inner.pos_drop(
            torch.cat([inner.cls_token.expand(2, -1, -1), inner.patch_embed(images)], 1) + inner.pos_embed
        )
    )
    torch.testing.assert_close(vit.features(images), inner.norm(tokens[:, 0]), atol=1e-4, rtol=1e-4)


@torch.no_grad()
def test_midway_at_the_stage_acts_on_all_tokens_that_enter_the_last_block(vit):
    images = torch.randn(2, 3, 32, 32)
    inner, seen = vit.backbone.model, []
    z = vit.features(images, midway=lambda tokens: seen.append(tokens) or tokens + 1, at="stage")
    assert seen[0].shape == (2, 257, 384)
    torch.testing.assert_close(z, inner.norm(inner.blocks[-1](seen[0] + 1))[:, 0], atol=1e-4, rtol=1e-4)


def test_the_image_size_must_be_a_multiple_of_the_patch(make):
    assert make("vit-small-2-32", size=6).backbone.model.pos_embed.shape[1] == 10
    with pytest.raises(UserError, match="patches of 2 px, which do not divide 7x7"):
        make("vit-small-2-32", size=7)
