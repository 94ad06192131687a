"""A loaded model judges arrays, files and pictures alike, each image alone."""

import json

import numpy as np
import pytest
import torch
from PIL import Image

import interlude
from interlude.data.decode import read_pixels


def test_files_pictures_and_arrays_get_the_same_answer(saved, pictures):
    model = interlude.load(saved())
    paths = sorted(pictures.iterdir())
    files = model.predict_proba(paths)
    opened = model.predict_proba([Image.open(path) for path in paths])
    array = model.predict_proba(np.stack([read_pixels(path, 3, 16) for path in paths]))
    np.testing.assert_array_equal(files, opened)
    np.testing.assert_array_equal(files, array)
    np.testing.assert_array_equal(model.predict_proba(str(paths[3])), model.predict_proba([paths[3]]))


def test_an_array_of_another_size_is_scaled_as_a_file_is(saved, pictures):
    model = interlude.load(saved())
    path = pictures / "9.png"
    np.testing.assert_array_equal(
        model.predict_proba(np.asarray(Image.open(path))[None]), model.predict_proba(path)
    )


def test_grey_files_go_into_a_colour_model_and_colour_files_into_a_grey_one(saved, pictures):
    grey = pictures / "grey.png"
    Image.open(pictures / "1.png").convert("L").save(grey)
    assert interlude.load(saved()).predict_proba(grey).shape == (1, 3)
    assert interlude.load(saved(channels=1)).predict_proba(sorted(pictures.iterdir())).shape == (11, 3)


def test_the_models_own_way_to_make_an_image_square_is_used(saved, pictures):
    path = pictures / "9.png"
    padded = interlude.load(saved(fit="pad"))
    np.testing.assert_array_equal(
        padded.predict_proba(path), padded.predict_proba(read_pixels(path, 3, 16, "pad")[None])
    )
    assert not np.array_equal(padded.predict_proba(path), interlude.load(saved()).predict_proba(path))


def test_an_image_is_judged_the_same_whatever_its_batch_mates(saved):
    model = interlude.load(saved())
    images = np.random.default_rng(0).integers(0, 256, (70, 16, 16, 3), dtype=np.uint8)
    alone = np.concatenate([model.predict_proba(images[i : i + 1]) for i in range(70)])
    np.testing.assert_allclose(model.predict_proba(images), alone, atol=1e-6)
    np.testing.assert_allclose(model.predict_proba(images[::-1]), alone[::-1], atol=1e-6)


def test_probabilities_are_those_at_the_saved_temperature(saved):
    folder = saved()
    model = interlude.load(folder)
    images = np.random.default_rng(0).integers(0, 256, (5, 16, 16, 3), dtype=np.uint8)
    logits = model.judge(images).logits
    temperature = json.loads((folder / "config.json").read_text())["calibration"]["temperature"]
    assert temperature != 1
    np.testing.assert_allclose(
        model.predict_proba(images), torch.softmax(logits / temperature, -1), atol=1e-7
    )


def test_sets_hold_the_predicted_class_and_scores_are_shares(saved, pictures):
    model = interlude.load(saved())
    paths = sorted(pictures.iterdir())
    assert model.predict_sets(paths)[np.arange(10), model.predict(paths)].all()
    assert ((model.ood_score(paths) >= 0) & (model.ood_score(paths) <= 1)).all()


def test_a_model_without_calibration_says_what_it_cannot_give(saved, pictures):
    model = interlude.load(saved(calibration=False))
    model.predict(pictures / "0.png")
    with pytest.raises(interlude.UserError, match="no prediction sets"):
        model.predict_sets(pictures / "0.png")
    with pytest.raises(interlude.UserError, match="unusual"):
        model.ood_score(pictures / "0.png")


def test_what_is_no_image_is_a_user_error(saved, pictures):
    model = interlude.load(saved())
    (pictures / "bad.png").write_bytes(b"nothing")
    with pytest.raises(interlude.UserError, match=r"bad\.png cannot be used: it is not an image"):
        model.predict([pictures / "0.png", pictures / "bad.png"])
    with pytest.raises(interlude.UserError, match="not of dict"):
        model.predict([{}])
    with pytest.raises(interlude.UserError, match="no images"):
        model.predict([])


def test_damaged_records_of_training_images_are_a_user_error(saved):
    folder = saved()
    (folder / "calibration.safetensors").write_bytes(b"x")
    with pytest.raises(interlude.UserError, match="damaged"):
        interlude.load(folder)


def test_timm_still_loads_a_calibrated_model(saved):
    folder = saved("timm:vit_tiny_patch16_224", size=32)
    model = interlude.load(folder)
    import timm  # torchvision was prepared for it when the model was made

    theirs = timm.create_model(f"local-dir:{folder}", pretrained=True).eval()
    images = torch.rand(2, 3, 32, 32)
    with torch.no_grad():
        torch.testing.assert_close(theirs(images), model.model(images), rtol=1e-3, atol=1e-4)
