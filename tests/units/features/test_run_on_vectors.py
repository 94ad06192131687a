"""A run on vectors of a frozen network: same methods, same loop, same files as a run on images."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from interlude import checkpoint, models
from interlude.errors import UserError
from interlude.features.batches import FeatureBatches
from interlude.features.extract import Extractor
from interlude.features.options import FeaturesConfig
from interlude.loop import fit, trained_on_labels
from interlude.method import find_method, method_names
from interlude.methods.fixmatch import FixMatch
from interlude.methods.fixmatch_saa import FixMatchSAA
from interlude.methods.interlude import InterLUDE
from interlude.methods.supervised import Supervised
from interlude.models import Frozen, ModelConfig
from interlude.predictor import Predictor
from interlude.run import Run, settle_views
from interlude.testing import assert_finite, stop_after, toy_config, toy_split


def frozen_config(method=InterLUDE, **model):
    return replace(
        toy_config(method),
        model=ModelConfig(**({"name": "cnn", "frozen": True, "head": "mlp", "hidden": 16} | model)),
        features=FeaturesConfig(weak=2, strong=3),
    )


@pytest.fixture(autouse=True)
def own_cache(monkeypatch, tmp_path):
    monkeypatch.setenv("INTERLUDE_CACHE", str(tmp_path / "vectors"))


def frozen_run(method=InterLUDE, *, prepared=True, **model):
    run = Run(frozen_config(method, **model), toy_split(), method)
    if prepared:
        run.prepare()
    return run


def test_a_frozen_network_is_given_vectors():
    run = frozen_run()
    assert isinstance(run.batches, FeatureBatches)
    batch = run.batch(0)
    assert all(view.ndim == 2 for view in (*batch.x, *batch.u))


def test_a_network_of_which_a_part_is_trained_is_given_images():
    run = frozen_run(unfreeze="last-stage", head="linear", hidden=512)
    assert all(view.ndim == 4 for view in run.batch(0).u)
    assert run.method.model.backbone.top.scaling.settled


@pytest.mark.parametrize("name", method_names())
def test_every_method_that_needs_no_pixels_trains_on_vectors(name):
    method = find_method(name)
    if method.needs_pixels:
        with pytest.raises(UserError, match="cannot learn from vectors of a frozen network"):
            frozen_run(method)
        return
    run = frozen_run(method)
    fit(run)
    assert_finite(run, "after a few steps on vectors")


def test_a_method_that_needs_pixels_is_refused_before_anything_is_extracted(monkeypatch):
    monkeypatch.setattr(FeatureBatches, "extract", lambda *args: pytest.fail("extracted"))
    with pytest.raises(UserError, match="fixmatch-saa cannot learn from vectors of a frozen network: it "):
        frozen_run(FixMatchSAA)


def test_a_method_that_needs_pixels_is_refused_before_the_speed_is_tried(monkeypatch):
    monkeypatch.setattr(Extractor, "pace", lambda *args, **options: pytest.fail("tried the speed"))
    cfg = replace(frozen_config(FixMatchSAA), features=FeaturesConfig())
    with pytest.raises(UserError, match="fixmatch-saa cannot learn from vectors of a frozen network: it "):
        settle_views(cfg, toy_split(), FixMatchSAA)


def test_preparing_scales_every_copy_of_the_network():
    run = frozen_run(FixMatch)
    clean = torch.cat(list(run.batches.clean(run.split.unlabeled)))
    for part in (*run.method.modules(), *run.ema.modules()):
        if isinstance(part, Frozen):
            torch.testing.assert_close(part.top.scaling.mean, clean.mean(0), rtol=1e-4, atol=1e-5)


def test_the_frozen_network_does_not_move():
    run = frozen_run()
    before = checkpoint.digest(run.method.model.backbone.body.state_dict())
    fit(run)
    assert checkpoint.digest(run.method.model.backbone.body.state_dict()) == before


def test_a_resumed_run_equals_the_whole_run():
    whole, half = frozen_run(), frozen_run()
    fit(whole)
    stop_after(half, 3)
    resumed = frozen_run()
    resumed.load(half.state())
    fit(resumed)
    assert checkpoint.digest(whole.state()["method"]) == checkpoint.digest(resumed.state()["method"])
    assert checkpoint.digest(whole.state()["ema"]) == checkpoint.digest(resumed.state()["ema"])


def test_an_exported_model_judges_images_as_the_run_judges_their_vectors(tmp_path):
    run = frozen_run()
    fit(run)
    images, split = run.split.tests["test"], run.split
    models.save(
        tmp_path / "model",
        run.ema.model,
        model_config=run.cfg.model,
        image_size=images.image_size,
        channels=images.channels,
        mean=split.mean,
        std=split.std,
        label_names=split.class_names,
    )
    pixels = images.take(torch.arange(len(images)))
    of_images = Predictor.load(tmp_path / "model").predict_proba(pixels)
    of_vectors = run.predict(images).numpy()
    np.testing.assert_allclose(of_images, of_vectors, atol=5e-3)
    assert (of_images.argmax(1) == of_vectors.argmax(1)).mean() > 0.8


def test_images_are_normalised_as_the_frozen_network_expects(monkeypatch):
    build = models.build

    def with_statistics(*args, **options):
        model = build(*args, **options)
        model.backbone.mean, model.backbone.std = (0.11,), (0.22,)
        return model

    monkeypatch.setattr(models, "build", with_statistics)
    assert (frozen_run().split.mean, frozen_run().split.std) == ((0.11,), (0.22,))
    unfrozen = Run(toy_config(FixMatch), toy_split(), FixMatch)
    assert unfrozen.split.mean == (0.3,)


def test_controls_are_judged_on_all_that_is_judged():
    run = frozen_run()
    fit(run)
    run.split = replace(run.split, validation=run.split.tests["test"])
    about = run.about_vectors(trained_on_labels(run))
    assert about["vectors"]["extracted"] == 9 + (6 + 18) * (1 + 2 + 3)
    figures = about["controls"]["figures"]
    assert set(figures) == {
        "nearest class mean",
        "logistic regression",
        "label spreading",
        "the same head on labels alone",
    }
    assert all(set(of) == {"test", "validation"} for of in figures.values())
    assert about["controls"]["comparison"]["best"] in figures


def test_the_control_of_labels_alone_is_a_supervised_run_of_as_many_steps():
    run, supervised = frozen_run(FixMatch), frozen_run(Supervised)
    alone = trained_on_labels(run)
    fit(supervised)
    assert (run.step, alone.step) == (0, run.cfg.steps)
    weights, expected = alone.method.model.state_dict(), supervised.method.model.state_dict()
    for name in ("head.weight", "backbone.top.linear.weight"):
        torch.testing.assert_close(weights[name], expected[name], msg=name)


def test_a_run_on_images_has_nothing_to_say_of_vectors():
    run = Run(toy_config(FixMatch), toy_split(), FixMatch)
    run.prepare()
    assert run.about_vectors() == {}


def test_open_settings_are_settled_with_a_reason_and_given_ones_are_kept(monkeypatch):
    monkeypatch.setattr(Extractor, "pace", lambda *args: 200.0)
    told = []
    cfg = replace(frozen_config(), features=FeaturesConfig(strong=3))
    settled = settle_views(cfg, toy_split(), InterLUDE, tell=told.append)
    assert settled.features.strong == 3
    assert settled.features.weak is not None
    assert settled.model.input_size is not None
    assert len(told) == 2
    assert settle_views(settled, toy_split(), InterLUDE, tell=told.append) == settled
    assert len(told) == 2, "measured again what was settled"


def test_the_layer_is_told_with_its_reason_where_it_was_open(monkeypatch):
    monkeypatch.setattr(Extractor, "pace", lambda *args: 200.0)
    told = []
    cfg = frozen_config(name="timm:test_efficientnet", head="linear", hidden=512)
    settle_views(replace(cfg, features=FeaturesConfig()), toy_split(), InterLUDE, tell=told.append)
    assert "last stage (64 numbers), as the wider layer" in told[-1]
    given = replace(cfg, features=FeaturesConfig(), model=replace(cfg.model, layer=0))
    settle_views(given, toy_split(), InterLUDE, tell=told.append)
    assert "--model.layer" not in told[-1]


def test_the_labeled_control_extracts_views_of_labeled_images_only():
    run = frozen_run(Supervised)
    assert run.vectors.extractor.num_extracted == 9 + 18 + 6 * (1 + 2)


def test_where_vectors_are_kept_does_not_change_the_run():
    cfg = frozen_config()
    moved = replace(cfg, features=replace(cfg.features, cache="elsewhere", budget=1.0))
    other = replace(cfg, features=replace(cfg.features, strong=4))
    assert moved.fingerprint() == cfg.fingerprint() != other.fingerprint()


def test_where_weights_lie_does_not_change_the_run_but_what_is_in_them_does(tmp_path):
    def fingerprint(name, content=None):
        if content:
            (tmp_path / name).write_bytes(content)
        return frozen_config(weights=str(tmp_path / name)).fingerprint()

    assert fingerprint("here.pt", b"same") == fingerprint("there.pt", b"same")
    assert fingerprint("here.pt", b"another") != fingerprint("there.pt")
    assert fingerprint("nowhere.pt") not in (fingerprint("here.pt"), fingerprint("there.pt"))
