"""Networks of timm as backbones, on small ones of several families."""

import copy

import pytest
import timm
import torch

from interlude.errors import UserError
from interlude.models.check import check_backbone

# what enters the last stage of each, for two images of 64x64
STAGES = {
    "resnet18": (2, 256, 4, 4),
    "mobilenetv2_100": (2, 160, 2, 2),
    "mobilenetv3_small_050": (2, 48, 2, 2),
    "regnetx_002": (2, 152, 4, 4),
    "convnext_atto": (2, 160, 4, 4),
    "vit_tiny_patch16_224": (2, 17, 192),
    "deit_tiny_distilled_patch16_224": (2, 18, 192),
    "mixer_s32_224": (2, 4, 512),
}


@pytest.mark.parametrize("name", STAGES)
def test_networks_of_many_families_pass_the_check(name):
    check_backbone(f"timm:{name}", image_size=(64, 64), rows=2)


@pytest.mark.parametrize("name", STAGES)
def test_midway_gets_what_enters_the_last_stage_or_block(make, name):
    seen = []
    model = make(f"timm:{name}", size=64).eval()
    model(torch.randn(2, 3, 64, 64), midway=lambda maps: seen.append(tuple(maps.shape)) or maps, at="stage")
    assert seen == [STAGES[name]]


def test_where_the_last_entry_is_a_norm_the_stage_begins_after_the_one_before(make):
    seen = []
    model = make("timm:densenet121", size=32).eval()
    model(torch.randn(2, 3, 32, 32), midway=lambda maps: seen.append(tuple(maps.shape)) or maps, at="stage")
    assert seen == [(2, 1024, 2, 2)]


def test_the_embedding_is_what_timm_would_classify(make):
    model = make("timm:mobilenetv3_small_050", size=64).eval()
    inner, images = model.backbone.model, torch.randn(2, 3, 64, 64)
    expected = inner.forward_head(inner.forward_features(images), pre_logits=True)
    assert model.num_features == 1024 != inner.num_features  # a convolution after pooling widens it
    torch.testing.assert_close(model.features(images), expected)


@pytest.mark.parametrize(
    ("name", "layer", "module"),
    [
        ("mobilenetv3_small_050", 1, "blocks.5"),
        ("mobilenetv3_small_050", 2, "blocks.3"),
        ("vit_tiny_patch16_224", 2, "blocks.10"),
    ],
)
def test_an_earlier_layer_is_the_average_over_what_that_stage_gives(make, name, layer, module):
    model = make(f"timm:{name}", size=64, frozen=True, layer=layer).eval()
    body, images, given = model.backbone.body, torch.randn(2, 3, 64, 64), []
    body.model.get_submodule(module).register_forward_hook(lambda *args: given.append(args[-1]))
    vectors = body(images)
    maps = given[0] if given[0].ndim == 4 else given[0][:, 1:].transpose(1, 2)  # less the class token
    torch.testing.assert_close(vectors, maps.flatten(2).mean(2))
    assert model.backbone.num_inputs == vectors.shape[1]


@pytest.mark.parametrize(
    ("name", "layer", "width"),
    [("mobilenetv2_100", 1, 320), ("resnet18", 0, 512), ("vit_tiny_patch16_224", 0, 192)],
)
def test_vectors_are_of_the_last_stage_where_a_wider_layer_follows_it(make, name, layer, width):
    frozen = make(f"timm:{name}", size=64, frozen=True).backbone
    assert (frozen.layer, frozen.num_inputs) == (layer, width)
    assert f"({width} numbers)" in frozen.about_layer()
    assert make(f"timm:{name}", size=64).backbone.layer == 0, "without frozen, the network is timm's"


def test_a_layer_that_a_network_does_not_have_is_an_error(make):
    with pytest.raises(UserError, match=r"model.layer=9: timm:resnet18 has stages 1 to 5 from the last; 0 "):
        make("timm:resnet18", size=64, frozen=True, layer=9)


def test_a_head_made_for_the_last_layer_is_not_put_on_an_earlier_one(make, tmp_path):
    file, name = tmp_path / "weights.pt", "timm:vit_tiny_patch16_224"
    theirs = timm.create_model("vit_tiny_patch16_224", num_classes=3, img_size=64).state_dict()
    torch.save(theirs, file)
    last, earlier = (make(name, size=64, frozen=True, layer=n, weights=str(file)) for n in (0, 1))
    assert torch.equal(last.head.weight, theirs["head.weight"])
    assert not torch.equal(earlier.head.weight, theirs["head.weight"])


def test_a_network_that_does_not_say_where_its_last_stage_begins_fuses_embeddings_only(make):
    model, images = make("timm:convmixer_768_32", size=32).eval(), torch.randn(2, 3, 32, 32)
    model(images, midway=lambda z: z)
    with pytest.raises(
        UserError, match="does not say where its last stage begins; use fusion_point=embedding"
    ):
        model(images, midway=lambda maps: maps, at="stage")
    model(images)


def test_a_stage_that_takes_more_than_one_map_cannot_be_fused(make):
    model = make("timm:hrnet_w18_small", size=64).eval()
    with pytest.raises(UserError, match="use fusion_point=embedding"):
        model(torch.randn(2, 3, 64, 64), midway=lambda maps: maps, at="stage")


def test_a_deep_copy_calls_midway_with_its_own_maps(make):
    model = make("timm:resnet18", size=32).eval()
    twin = copy.deepcopy(model)
    torch.nn.init.zeros_(twin.backbone.model.conv1.weight)
    seen, images = [], torch.randn(2, 3, 32, 32)
    twin(images, midway=lambda maps: seen.append(maps) or maps, at="stage")
    model(images, midway=lambda maps: seen.append(maps) or maps, at="stage")
    assert len(seen) == 2
    assert seen[0].std(0).max() == 0
    assert seen[1].std(0).max() > 0


def test_moved_weights_count_in_evaluation_although_timm_keeps_what_it_made_of_them(make):
    model, images = make("timm:tiny_vit_5m_224", size=64).eval(), torch.randn(2, 3, 64, 64)
    with torch.no_grad():
        before = model(images)
        for name, value in model.named_parameters():
            if name.endswith("attention_biases"):
                value.normal_()
        moved = model(images)
    assert not torch.allclose(moved, before, atol=1e-4)
    model(images)
    copy.deepcopy(model)  # what timm keeps would forbid it


def test_an_error_inside_midway_does_not_linger(make):
    model, images = make("timm:resnet18", size=32).eval(), torch.randn(2, 3, 32, 32)
    expected = model(images)
    with pytest.raises(ZeroDivisionError):
        model(images, midway=lambda maps: 1 / 0, at="stage")
    torch.testing.assert_close(model(images), expected)


def test_layers_follow_timm(make):
    layers = make("timm:resnet18", size=32).layers()
    assert layers["backbone.model.conv1.weight"] == 0
    assert layers["backbone.model.layer1.0.conv1.weight"] == 1
    assert layers["backbone.model.layer4.1.conv1.weight"] == 8
    assert layers["head.weight"] == 9


def test_tables_of_positions_go_undecayed(make):
    model = make("timm:swin_tiny_patch4_window7_224", size=64)
    assert model.undecayed() == {
        name for name, _ in model.named_parameters() if "position_bias_table" in name
    }


def test_grey_images_and_other_sizes_are_passed_on(make):
    model = make("timm:vit_tiny_patch16_224", size=48, channels=1)
    assert model(torch.randn(2, 1, 48, 48)).shape == (2, 3)
    assert model.backbone.model.pos_embed.shape == (1, 10, 192)


def test_drop_path_is_passed_on(make):
    model = make("timm:vit_tiny_patch16_224", size=16, drop_path=0.3)
    assert model.backbone.model.blocks[-1].drop_path1.drop_prob == pytest.approx(0.3)


def test_an_unknown_timm_network_gets_the_nearest_names(make):
    with pytest.raises(UserError, match="unknown timm model 'resnet1888'; did you mean 'resnet18'"):
        make("timm:resnet1888")
    with pytest.raises(UserError, match=r"unknown timm model 'qqqq'; timm.list_models\(\)"):
        make("timm:qqqq")


@pytest.mark.parametrize(("name", "size"), [("inception_v3", 16), ("vit_tiny_patch16_224", 8)])
def test_images_too_small_for_a_network_are_an_error_when_it_is_built(make, name, size):
    with pytest.raises(UserError, match=f"timm cannot make '{name}' for images of size"):
        make(f"timm:{name}", size=size)


def test_a_failed_download_tells_how_to_do_without(make, monkeypatch):
    def offline(*args, **kwargs):
        raise FileNotFoundError("cannot find the requested files in the local cache")

    monkeypatch.setattr(timm, "create_model", offline)
    with pytest.raises(UserError, match="put them in a file and use weights=FILE"):
        make("timm:resnet18", pretrained=True)


def test_an_unknown_tag_is_an_error_of_the_user(make):
    with pytest.raises(UserError, match=r"timm has no weights for 'resnet18\.none'"):
        make("timm:resnet18.none", pretrained=True)
    with pytest.raises(UserError, match=r"Invalid pretrained tag \(none\)"):
        make("timm:resnet18.none")


def test_a_network_without_published_weights_says_so(make):
    with pytest.raises(UserError, match="timm has no weights for 'coatnet_0_224'"):
        make("timm:coatnet_0_224", pretrained=True)
