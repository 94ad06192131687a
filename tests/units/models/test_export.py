"""What is written can be read, by us and by timm, and gives the same logits."""

import json

import pytest
import timm
import torch
from safetensors.torch import load_file

from interlude.errors import UserError
from interlude.models import Classifier, ModelConfig, OpenSetClassifier, RefinedClassifier, load, save


@pytest.fixture
def export(make, tmp_path):
    """`export("cnn", size=16)`: a network with random statistics, written to `tmp_path`."""

    def export(name, *, size=32, channels=3, **options) -> Classifier:
        model = make(name, size=size, channels=channels, **options).eval()
        for part in model.modules():
            if isinstance(part, torch.nn.BatchNorm2d):
                part.running_mean.normal_()
        write(model, tmp_path, ModelConfig(name=name, **options), size, channels)
        return model

    return export


def write(model, folder, cfg, size, channels=3):
    numbers = {"mean": [0.4] * channels, "std": [0.2] * channels, "label_names": ["cat", "dog", "eel"]}
    save(folder, model, model_config=cfg, image_size=(size, size), channels=channels, **numbers)


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("cnn", {"channels": 1}),
        ("wrn-10-2", {"standard_preact": True, "norm_momentum": 0.3}),
        ("timm:resnet18", {"norm_momentum": 0.3}),
        ("timm:vit_tiny_patch16_224", {"channels": 1}),
        ("timm:levit_128s", {"size": 224}),
    ],
)
def test_a_network_comes_back_as_it_was(export, tmp_path, name, options):
    model = export(name, **options)
    loaded, config = load(tmp_path)
    images = torch.randn(2, options.get("channels", 3), *config["image_size"])
    torch.testing.assert_close(loaded(images), model(images))
    assert not loaded.training
    momenta = [
        [part.momentum for part in net.modules() if isinstance(part, torch.nn.BatchNorm2d)]
        for net in (model, loaded)
    ]
    assert momenta[0] == momenta[1]


def test_the_config_tells_how_to_prepare_images_and_name_classes(export, tmp_path):
    export("cnn", size=16, channels=1)
    _, config = load(tmp_path)
    assert config["architecture"] == config["model"]["name"] == "cnn"
    assert (config["num_classes"], config["num_features"]) == (3, 64)
    assert config["label_names"] == ["cat", "dog", "eel"]
    assert (config["image_size"], config["channels"]) == ([16, 16], 1)
    assert (config["mean"], config["std"]) == ([0.4], [0.2])


@pytest.mark.parametrize(
    ("name", "size", "channels"),
    [
        ("resnet18", 32, 3),
        ("resnet18", 32, 1),
        ("resnet18", 32, 4),
        ("vit_tiny_patch16_224", 32, 3),
        ("deit_tiny_distilled_patch16_224", 32, 3),
        ("resnetv2_50x1_bit", 32, 3),
    ],
)
def test_timm_reads_its_networks_and_gives_the_same_logits(export, tmp_path, name, size, channels):
    model = export(f"timm:{name}", size=size, channels=channels)
    theirs = timm.create_model(f"local-dir:{tmp_path}", pretrained=True).eval()
    images = torch.randn(2, channels, size, size)
    torch.testing.assert_close(theirs(images), model(images), atol=1e-5, rtol=1e-4)
    assert theirs.pretrained_cfg["label_names"] == ["cat", "dog", "eel"]
    assert theirs.pretrained_cfg["input_size"] == [channels, size, size]
    assert theirs.pretrained_cfg["mean"] == [0.4] * channels


def test_timm_reads_the_vits_of_usb(export, tmp_path):
    model = export("vit-small-2-32", size=4, drop_path=0.4)
    assert load(tmp_path)[0].backbone.model.blocks[-1].drop_path1.drop_prob == pytest.approx(0.4)
    theirs = timm.create_model(f"local-dir:{tmp_path}", pretrained=True).eval()
    images = torch.randn(2, 3, 4, 4)
    torch.testing.assert_close(theirs(images), model(images), atol=1e-5, rtol=1e-4)


def test_a_network_whose_classifier_timm_makes_otherwise_is_written_in_our_form(export, tmp_path):
    export("timm:levit_128s", size=224)  # timm's classifier there begins with a norm
    config = json.loads((tmp_path / "config.json").read_text())
    assert config["architecture"] == "timm:levit_128s"
    assert "pretrained_cfg" not in config


def test_how_the_weights_came_about_is_not_part_of_the_network(make, tmp_path):
    torch.save(make().state_dict(), tmp_path / "start.pt")
    cfg = ModelConfig(weights=str(tmp_path / "start.pt"), compile=True)
    write(make(), tmp_path, cfg, 16)
    (tmp_path / "start.pt").unlink()
    _, config = load(tmp_path)
    assert (config["model"]["weights"], config["model"]["compile"]) == (None, False)


def test_weights_are_written_in_the_usual_memory_order_and_nothing_is_left_over(export, tmp_path):
    export("cnn")
    assert all(value.is_contiguous() for value in load_file(tmp_path / "model.safetensors").values())
    assert {path.name for path in tmp_path.iterdir()} == {"model.safetensors", "config.json"}


def test_writing_again_replaces_the_model(make, tmp_path):
    for seed in (0, 1):
        model = make(seed=seed).eval()
        write(model, tmp_path, ModelConfig(), 16)
    images = torch.randn(2, 3, 16, 16)
    torch.testing.assert_close(load(tmp_path)[0](images), model(images))


def test_exporting_leaves_the_network_as_it_was(make, tmp_path):
    model = make("timm:resnet18", size=32).train()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    write(model, tmp_path, ModelConfig(name="timm:resnet18"), 32)
    assert model.training
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())


def with_prototypes(plain):
    model = RefinedClassifier.around(plain, num_heads=2, num_prototypes=5)
    model.set_prototypes(torch.randn(3, model.num_features))
    return model


def with_open_head(plain):
    model = OpenSetClassifier.around(plain)
    torch.nn.init.normal_(model.open_head.weight)
    return model


@pytest.mark.parametrize("name", ["cnn", "timm:resnet18"])
@pytest.mark.parametrize("kind", [with_prototypes, with_open_head])
def test_a_classifier_of_another_kind_comes_back_as_it_was(make, tmp_path, name, kind):
    model = kind(make(name)).eval()
    write(model, tmp_path, ModelConfig(name=name), 16)
    loaded, config = load(tmp_path)
    assert type(loaded) is type(model)
    assert not loaded.training
    assert config["classifier"] == {"kind": model.kind, **model.sizes()}
    assert "pretrained_cfg" not in config, "timm cannot read this kind"
    assert all(torch.equal(value, model.state_dict()[name]) for name, value in loaded.state_dict().items())
    images = torch.randn(2, 3, 16, 16)
    torch.testing.assert_close(loaded(images), model(images))
    if isinstance(model, OpenSetClassifier):
        torch.testing.assert_close(loaded.open_set_score(images), model.open_set_score(images))
    else:
        assert not torch.allclose(model(images), model.classify(model.features(images)))


def test_a_model_written_before_there_were_kinds_is_linear(export, tmp_path):
    model = export("cnn")
    config = json.loads((tmp_path / "config.json").read_text())
    assert config.pop("classifier") == {"kind": "linear"}
    (tmp_path / "config.json").write_text(json.dumps(config))
    images = torch.randn(2, 3, 32, 32)
    torch.testing.assert_close(load(tmp_path)[0](images), model(images))


def test_parts_of_no_known_kind_are_written_but_not_read(make, tmp_path):
    """A run must not lose its result at the end because its model is unusual."""
    model = make("timm:resnet18")
    model.refiner = torch.nn.Linear(3, 3)
    write(model, tmp_path, ModelConfig(name="timm:resnet18"), 16)
    assert "refiner.weight" in load_file(tmp_path / "model.safetensors")
    with pytest.raises(UserError, match=r"does not fit timm:resnet18: it has unknown refiner"):
        load(tmp_path)


def test_a_class_of_no_known_kind_is_not_read_as_another(make, tmp_path):
    class Doubled(Classifier):
        def classify(self, z):
            return 2 * super().classify(z)

    write(Doubled.around(make("timm:resnet18")), tmp_path, ModelConfig(name="timm:resnet18"), 16)
    with pytest.raises(UserError, match="unknown kind of classifier 'Doubled'"):
        load(tmp_path)


@pytest.mark.parametrize(
    "damage",
    [{"kind": "refined", "heads": 2}, {"kind": "refined", "num_heads": 0}, {"kind": "linear", "a": 1}],
)
def test_sizes_that_a_kind_does_not_take_are_an_error_of_the_user(export, tmp_path, damage):
    export("cnn")
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps(config | {"classifier": damage}))
    with pytest.raises(UserError, match=r"config\.json is damaged: no (refined|linear) classifier with"):
        load(tmp_path)


@pytest.mark.parametrize("damage", [{}, [], "refined", {"kind": "refined", "num_heads": "two"}])
def test_a_damaged_kind_is_an_error_of_the_user(export, tmp_path, damage):
    export("cnn")
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps(config | {"classifier": damage}))
    with pytest.raises(UserError, match=r"config\.json is damaged"):
        load(tmp_path)


def test_a_folder_without_a_model_is_an_error_of_the_user(tmp_path):
    with pytest.raises(UserError, match="there is no exported model in"):
        load(tmp_path / "nowhere")
    with pytest.raises(UserError, match="there is no exported model in"):
        load(tmp_path)


@pytest.mark.parametrize("text", ["{", "[]", "{}", '{"model": {"nmae": "cnn"}}', "\xff"])
def test_a_damaged_config_is_an_error_of_the_user(export, tmp_path, text):
    export("cnn")
    (tmp_path / "config.json").write_text(text, encoding="latin-1")
    with pytest.raises(UserError, match=r"config\.json"):
        load(tmp_path)


@pytest.mark.parametrize(
    "key", ["model", "image_size", "channels", "num_classes", "mean", "std", "label_names"]
)
def test_a_config_that_lacks_something_is_an_error_of_the_user(export, tmp_path, key):
    export("cnn")
    config = json.loads((tmp_path / "config.json").read_text())
    del config[key]
    (tmp_path / "config.json").write_text(json.dumps(config))
    with pytest.raises(UserError, match=f"was not written by interlude: '{key}'"):
        load(tmp_path)


def test_damaged_weights_are_an_error_of_the_user(export, tmp_path):
    export("cnn")
    path = tmp_path / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-1000])
    with pytest.raises(UserError, match="is damaged"):
        load(tmp_path)
    path.unlink()
    with pytest.raises(UserError, match="there is no file of weights"):
        load(tmp_path)


def test_weights_must_have_the_head_that_the_config_promises(export, tmp_path):
    export("cnn")
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps(config | {"num_classes": 4, "label_names": [*"abcd"]}))
    with pytest.raises(
        UserError, match=r"does not fit cnn: it has other shapes for head\.weight, head\.bias"
    ):
        load(tmp_path)
