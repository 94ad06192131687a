"""A pretrained network that stays as it is, with a trained part on top."""

import json

import pytest
import timm
import torch
import torch.nn.functional as F
from safetensors.torch import save_file

from interlude.errors import UserError
from interlude.models import Frozen

NET = "timm:test_efficientnet"


def stirred(model):
    """With statistics in its norms that are neither 0 nor 1."""
    for part in model.modules():
        if isinstance(part, torch.nn.BatchNorm2d):
            part.running_mean.normal_(std=0.1)
            part.running_var.uniform_(0.5, 2)
    return model


@pytest.fixture
def frozen(make):
    return stirred(make("cnn", frozen=True, head="mlp", hidden=8))


def test_vectors_stand_for_the_images_they_were_extracted_from(frozen, images):
    vectors = frozen.backbone.extract(images)
    assert vectors.shape == (5, frozen.backbone.num_inputs)
    assert frozen.backbone.takes_vectors
    torch.testing.assert_close(frozen(vectors), frozen(images))


def test_extraction_asks_for_no_gradient_and_training_reaches_the_top_and_the_head_only(frozen, images):
    assert not frozen.backbone.extract(images).requires_grad
    frozen(images).square().sum().backward()
    reached = {name for name, x in frozen.named_parameters() if x.grad is not None}
    top = {f"backbone.top.{name}" for name, _ in frozen.backbone.top.named_parameters()}
    assert reached == top | {"head.weight", "head.bias"}
    assert {f"backbone.{name}" for name in frozen.backbone.untrained} == {
        name for name, _ in frozen.named_parameters()
    } - reached


def test_training_mode_leaves_the_body_in_evaluation_and_its_statistics_alone(frozen, images):
    before = [x.clone() for x in frozen.backbone.fixed()]
    assert len(before) == len(frozen.backbone.body.state_dict())
    frozen.train()(images)
    assert frozen.training
    assert frozen.backbone.top.training
    assert not any(part.training for part in frozen.backbone.body.modules())
    assert all(torch.equal(x, y) for x, y in zip(before, frozen.backbone.fixed(), strict=True))


def test_rows_are_apart_though_the_body_has_batch_norm(frozen, images):
    assert not frozen.backbone.mixes_rows()
    assert frozen.separates()
    alone = torch.cat([frozen.train()(image[None]) for image in images])
    torch.testing.assert_close(alone, frozen(images), atol=1e-5, rtol=1e-5)


def test_the_stage_point_is_inside_the_top_and_the_embedding_point_after_it(frozen, images):
    seen = {}
    for at in ("stage", "embedding"):
        frozen(images, midway=lambda z, at=at: seen.setdefault(at, z), at=at)
    torch.testing.assert_close(seen["stage"], frozen.backbone.top.scaling(frozen.backbone.extract(images)))
    torch.testing.assert_close(seen["embedding"], frozen.features(images))
    assert seen["embedding"].shape == (5, 8)


def test_images_are_scaled_inside_the_network(make, images):
    model = make("cnn", frozen=True, input_size=24)
    larger = F.interpolate(images, (24, 24), mode="bilinear")
    torch.testing.assert_close(model.backbone.extract(images), model.backbone.body(larger))
    assert not torch.allclose(model.backbone.extract(images), model.backbone.body(images))


def test_images_that_are_shrunk_do_not_alias(make):
    stripes = torch.zeros(1, 3, 16, 16)
    stripes[..., ::2] = 1
    small = make("cnn", frozen=True, input_size=8).backbone.scaled(stripes)
    torch.testing.assert_close(small[..., 2:-2], torch.full((1, 3, 8, 4), 0.5), atol=0.05, rtol=0)


def test_a_transformer_is_made_for_the_scaled_images(make, images):
    model = make("timm:test_vit", frozen=True, input_size=48)
    assert model.backbone.body.model.pos_embed.shape[1] == 9 + 1
    assert model(images).shape == (5, 3)


def test_the_normalisation_is_that_of_timms_weights(make):
    about = timm.create_model("test_efficientnet").pretrained_cfg
    network = make(NET, size=32, frozen=True).backbone
    assert (network.mean, network.std) == (about["mean"], about["std"])
    grey = make(NET, size=32, frozen=True, channels=1).backbone
    assert grey.mean == pytest.approx((sum(about["mean"]) / 3,))
    assert grey.std == pytest.approx((sum(about["std"]) / 3,))


def test_the_normalisation_written_beside_the_weights_comes_first(make, tmp_path):
    weights = {name: value.contiguous() for name, value in make().backbone.state_dict().items()}
    save_file(weights, tmp_path / "model.safetensors")
    assert make(frozen=True, weights=str(tmp_path)).backbone.mean is None
    (tmp_path / "config.json").write_text(
        json.dumps({"pretrained_cfg": {"mean": [0.1] * 3, "std": [0.2] * 3}})
    )
    network = make(frozen=True, weights=str(tmp_path)).backbone
    assert (network.mean, network.std) == ((0.1,) * 3, (0.2,) * 3)
    (tmp_path / "config.json").write_text(json.dumps({"mean": [0.3] * 3, "std": [0.4] * 3}))
    assert make(frozen=True, weights=str(tmp_path)).backbone.mean == (0.3,) * 3
    (tmp_path / "config.json").write_text("no json")
    assert make(frozen=True, weights=str(tmp_path)).backbone.mean is None


@pytest.mark.parametrize("head", ["linear", "mlp"])
def test_the_body_takes_timms_weights_and_the_top_stays_fresh(make, tmp_path, head):
    theirs = stirred(timm.create_model("test_efficientnet", num_classes=7)).eval()
    save_file(theirs.state_dict(), tmp_path / "weights.safetensors")
    model = make(NET, size=32, frozen=True, layer=0, head=head, weights=str(tmp_path / "weights.safetensors"))
    images = torch.randn(2, 3, 32, 32)
    expected = theirs.forward_head(theirs.forward_features(images), pre_logits=True)
    torch.testing.assert_close(model.backbone.extract(images), expected, atol=1e-5, rtol=1e-4)
    assert not model.backbone.top.scaling.settled


def test_colour_weights_serve_grey_images_of_a_frozen_network(make, tmp_path):
    theirs = stirred(timm.create_model("test_efficientnet", num_classes=7)).eval()
    torch.save(theirs.state_dict(), tmp_path / "weights.pt")
    model = make(NET, size=32, channels=1, frozen=True, layer=0, weights=str(tmp_path / "weights.pt"))
    grey = torch.randn(2, 1, 32, 32)
    colour = grey.expand(-1, 3, -1, -1)
    expected = theirs.forward_head(theirs.forward_features(colour), pre_logits=True)
    torch.testing.assert_close(model.backbone.extract(grey), expected, atol=1e-5, rtol=1e-4)


def test_a_network_of_ours_can_be_frozen_from_its_own_file(make, tmp_path, images):
    plain = stirred(make("cnn", seed=3)).eval()
    torch.save(plain.state_dict(), tmp_path / "weights.pt")
    model = make("cnn", frozen=True, head="mlp", weights=str(tmp_path / "weights.pt"))
    torch.testing.assert_close(model.backbone.extract(images), plain.features(images))


def test_a_linear_head_of_the_same_classes_is_taken_and_its_scale_kept(make, tmp_path, images):
    plain = stirred(make("cnn", seed=3)).eval()
    torch.save(plain.state_dict(), tmp_path / "weights.pt")
    model = make("cnn", frozen=True, weights=str(tmp_path / "weights.pt"))
    model.backbone.settle(torch.randn(9, 64))
    torch.testing.assert_close(model(images), plain(images))


def test_the_whole_of_a_frozen_network_comes_back_from_its_file(make, tmp_path, images):
    model = stirred(make("cnn", frozen=True, head="mlp", hidden=8))
    model.backbone.settle(torch.rand(9, 64))
    torch.save(model.state_dict(), tmp_path / "weights.pt")
    again = make("cnn", seed=5, frozen=True, head="mlp", hidden=8, weights=str(tmp_path / "weights.pt"))
    again.backbone.settle(torch.zeros(9, 64))
    torch.testing.assert_close(again(images), model(images))
    with pytest.raises(UserError, match=r"has other shapes for top\.linear\.weight"):
        make("cnn", frozen=True, head="mlp", hidden=9, weights=str(tmp_path / "weights.pt"))


@pytest.mark.parametrize(
    ("options", "missing"),
    [
        ({"unfreeze": "last-stage"}, "frozen=true"),
        ({"head": "mlp"}, "frozen=true"),
        ({"input_size": 32}, "frozen=true"),
        ({"layer": 1}, "frozen=true"),
        ({"frozen": True, "hidden": 64}, "head=mlp"),
        ({"frozen": True, "dropout": 0.5}, "head=mlp"),
        ({"frozen": True, "adapter_rank": 4}, "unfreeze=adapters"),
        ({"frozen": True, "unfreeze": "last-stage", "adapter_alpha": 4.0}, "unfreeze=adapters"),
    ],
)
def test_an_option_without_effect_is_refused(make, options, missing):
    name = list(options)[-1]
    with pytest.raises(UserError, match=f"model.{name} has no meaning without model.{missing}"):
        make("cnn", **options)


def test_a_table_of_vectors_is_classified_by_a_head_alone(make):
    table = torch.randn(4, 20)
    model = make("vectors", channels=20, size=1, head="mlp", hidden=8)
    assert isinstance(model.backbone, Frozen)
    assert model(table).shape == (4, 3)
    assert torch.equal(model(table[:, :, None, None]), model(table))
    linear = make("vectors", channels=20, size=1)
    torch.nn.init.normal_(linear.head.weight)
    torch.testing.assert_close(linear(table), table @ linear.head.weight.T)


def test_the_model_of_vectors_takes_no_images(make):
    with pytest.raises(UserError, match="takes rows of a table, not images"):
        make("vectors", size=16)
    with pytest.raises(UserError, match="no last stage to train"):
        make("vectors", channels=20, size=1, unfreeze="last-stage")
