"""Starting from files of weights, whoever wrote them."""

import pytest
import timm
import torch
from safetensors.torch import save_file

from interlude.errors import UserError
from interlude.models import load, save
from interlude.models.registry import ModelConfig

VIT = "timm:vit_tiny_patch16_224"


def plain(state):
    return {name: value.contiguous() for name, value in state.items()}


def same(a, b):
    return all(
        torch.equal(x, y) for x, y in zip(a.state_dict().values(), b.state_dict().values(), strict=True)
    )


@pytest.mark.parametrize("suffix", ["safetensors", "pt", "pth"])
def test_our_own_weights_come_back_from_either_kind_of_file(make, tmp_path, suffix):
    model, path = make(seed=1), tmp_path / f"weights.{suffix}"
    state = plain(model.state_dict())
    save_file(state, path) if suffix == "safetensors" else torch.save(state, path)
    assert same(make(weights=str(path)), model)


def test_an_exported_model_is_a_file_of_weights(make, tmp_path):
    cfg, sizes = ModelConfig(name=VIT), {"image_size": (32, 32), "channels": 3}
    model = make(VIT, size=32)
    save(tmp_path, model, model_config=cfg, **sizes, mean=[0.5] * 3, std=[0.5] * 3, label_names=list("abc"))
    assert same(make(VIT, size=32, seed=1, weights=str(tmp_path / "model.safetensors")), model)
    assert same(load(tmp_path)[0], model)


def test_a_head_for_other_classes_is_skipped(make, tmp_path):
    model, path = make(num_classes=7, seed=1), tmp_path / "weights.pt"
    torch.save(model.state_dict(), path)
    loaded = make(num_classes=3, weights=str(path))
    assert same(loaded.backbone, model.backbone)
    assert loaded.head.weight.shape == (3, 64)


def test_a_file_without_a_head_is_enough(make, tmp_path):
    model, path = make("wrn-10-1", seed=1), tmp_path / "weights.pt"
    torch.save(model.backbone.state_dict(), path)
    assert same(make("wrn-10-1", weights=str(path)).backbone, model.backbone)


@pytest.mark.parametrize("num_classes", [3, 10])
def test_timms_own_weights_load_and_the_classifier_where_it_fits(make, tmp_path, num_classes):
    theirs, path = timm.create_model("resnet18", num_classes=10).eval(), tmp_path / "weights.safetensors"
    save_file(theirs.state_dict(), path)
    model = make("timm:resnet18", size=32, num_classes=num_classes, weights=str(path)).eval()
    expected = theirs.state_dict()
    body = model.backbone.model.state_dict()
    assert all(torch.equal(value, expected[name]) for name, value in body.items())
    assert torch.equal(model.head.weight[:3], theirs.fc.weight[:3]) == (num_classes == 10)


def test_colour_weights_serve_grey_images(make, tmp_path):
    theirs, path = timm.create_model("resnet18", num_classes=3).eval(), tmp_path / "weights.pt"
    torch.save(theirs.state_dict(), path)
    grey = torch.randn(2, 1, 32, 32)
    model = make("timm:resnet18", size=32, channels=1, weights=str(path)).eval()
    torch.testing.assert_close(model(grey), theirs(grey.expand(-1, 3, -1, -1)), atol=1e-5, rtol=1e-5)


def mae_file(path, *, size, decoder, prefix="", head=False):
    """A checkpoint as MAE and USB write it: {"model": state}."""
    vit = timm.create_model("vit_tiny_patch16_224", img_size=size, num_classes=5 if head else 0)
    state = {prefix + name: value for name, value in vit.state_dict().items()}
    if decoder:
        state |= {"mask_token": torch.zeros(1, 1, 8), "decoder_embed.weight": torch.zeros(8, 192)}
    torch.save({"model": state, "epoch": 7}, path)
    return vit


@pytest.mark.parametrize(
    ("decoder", "prefix", "head"), [(False, "", False), (True, "", False), (False, "module.", True)]
)
def test_checkpoints_of_mae_and_usb_load_into_a_vit(make, tmp_path, decoder, prefix, head):
    vit = mae_file(tmp_path / "mae.pth", size=32, decoder=decoder, prefix=prefix, head=head)
    model = make(VIT, size=32, weights=str(tmp_path / "mae.pth"))
    theirs, ours = vit.state_dict(), model.backbone.model.state_dict()
    assert all(torch.equal(value, theirs[name]) for name, value in ours.items())


def test_position_embeddings_are_resized_to_the_images(make, tmp_path):
    vit = mae_file(tmp_path / "mae.pth", size=64, decoder=False)
    positions = make(VIT, size=32, weights=str(tmp_path / "mae.pth")).backbone.model.pos_embed
    assert positions.shape == (1, 5, 192)
    assert torch.equal(positions[:, 0], vit.pos_embed[:, 0])
    grid = torch.nn.functional.interpolate(
        vit.pos_embed[:, 1:].detach().reshape(1, 4, 4, 192).permute(0, 3, 1, 2),
        size=(2, 2),
        mode="bicubic",
        antialias=True,
    )
    torch.testing.assert_close(positions[0, 1:].detach(), grid.permute(0, 2, 3, 1).reshape(4, 192))


def test_the_vits_of_usb_take_such_files_too(make, tmp_path):
    vit = timm.create_model("vit_small_patch16_224", patch_size=2, img_size=4, num_classes=0)
    torch.save({"model": vit.state_dict()}, tmp_path / "usb.pth")
    model = make("vit-small-2-32", size=4, weights=str(tmp_path / "usb.pth"))
    assert same(model.backbone.model, vit)


def test_a_network_that_keeps_an_empty_classifier_loads_too(make, tmp_path):
    theirs = timm.create_model("inception_next_atto", num_classes=3).eval()
    torch.save(theirs.state_dict(), tmp_path / "weights.pt")
    model = make("timm:inception_next_atto", size=64, weights=str(tmp_path / "weights.pt")).eval()
    images = torch.randn(2, 3, 64, 64)
    torch.testing.assert_close(model(images), theirs(images), atol=1e-5, rtol=1e-4)


def test_keys_that_do_not_match_are_listed_briefly(make, tmp_path):
    path = tmp_path / "weights.pt"
    state = make().backbone.state_dict()
    shape = torch.zeros(1)
    wrong = {f"old.{i}": shape for i in range(5)} | {k: v for k, v in state.items() if "conv2" not in k}
    torch.save(wrong | {"stem.weight": shape}, path)
    with pytest.raises(UserError) as error:
        make(weights=str(path))
    message = str(error.value)
    assert message.startswith(
        f"{path} does not fit cnn: it lacks stages.0.conv2.weight, stages.1.conv2.weight, "
    )
    assert "it has unknown old.0, old.1, old.2 and 2 more" in message
    assert message.endswith("it has other shapes for stem.weight")
    assert "\n" not in message


def test_weights_of_another_network_do_not_fit(make, tmp_path):
    torch.save(make("wrn-10-1").state_dict(), tmp_path / "wrn.pt")
    for name in ("cnn", "timm:resnet18", VIT):
        with pytest.raises(UserError, match=f"wrn.pt does not fit {name}: it lacks"):
            make(name, size=32, weights=str(tmp_path / "wrn.pt"))


def test_a_missing_file_is_named(make):
    with pytest.raises(UserError, match=r"there is no file of weights nowhere\.pt"):
        make(weights="nowhere.pt")


@pytest.mark.parametrize("suffix", ["safetensors", "pt"])
@pytest.mark.parametrize("kept", [0, 100, 50_000])
def test_a_truncated_file_is_damaged(make, tmp_path, suffix, kept):
    path, state = tmp_path / f"weights.{suffix}", plain(make().state_dict())
    save_file(state, path) if suffix == "safetensors" else torch.save(state, path)
    path.write_bytes(path.read_bytes()[:kept])
    with pytest.raises(UserError, match=r"weights\.\w+ is damaged or not a file of weights"):
        make(weights=str(path))


def test_a_file_that_would_run_code_is_refused(make, tmp_path):
    torch.save({"model": make()}, tmp_path / "whole.pt")
    with pytest.raises(UserError, match="is damaged or not a file of weights"):
        make(weights=str(tmp_path / "whole.pt"))


@pytest.mark.parametrize("content", [{}, {"epoch": 3}, [1, 2]])
def test_a_file_without_tensors_holds_no_weights(make, tmp_path, content):
    torch.save(content, tmp_path / "empty.pt")
    with pytest.raises(UserError, match="holds no weights"):
        make(weights=str(tmp_path / "empty.pt"))


def test_other_kinds_of_files_are_refused(make, tmp_path):
    (tmp_path / "weights.h5").write_bytes(b"")
    with pytest.raises(UserError, match=r"ends with .safetensors, .pt or .pth"):
        make(weights=str(tmp_path / "weights.h5"))
