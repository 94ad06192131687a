"""The classifier: where midway acts, what it gives, in which precision."""

import copy

import pytest
import torch
from torch import nn

from interlude.errors import UserError
from interlude.models import Backbone, Classifier, OpenSetClassifier, evaluating


def fuse(z):
    return torch.lerp(z, z.roll(-1, dims=0), 0.1)


def test_midway_acts_on_the_embedding_unless_told_otherwise(make, images):
    model = make().eval()
    z = model.features(images)
    torch.testing.assert_close(model.features(images, midway=fuse), fuse(z))
    torch.testing.assert_close(model(images, midway=fuse), model.head(fuse(z)))


def test_midway_at_the_stage_acts_on_the_map_that_enters_the_last_stage(make, images):
    shapes = []

    def look(maps):
        shapes.append(tuple(maps.shape))
        return maps

    make().eval()(images, midway=look, at="stage")
    make("wrn-10-1").eval()(images, midway=look, at="stage")
    assert shapes == [(5, 64, 4, 4), (5, 32, 8, 8)]


def test_fusing_before_the_last_stage_is_not_fusing_the_embedding(make, images):
    model = make().eval()
    at_stage, at_embedding = (model(images, midway=fuse, at=point) for point in ("stage", "embedding"))
    assert not torch.allclose(at_stage, at_embedding, atol=1e-4)


def test_a_linear_head_fuses_embeddings_as_logits(make, images):
    """Invariant 9 of the specification."""
    model = make().eval()
    torch.testing.assert_close(model(images, midway=fuse), fuse(model(images)))


def test_previous_neighbours_are_next_neighbours_of_the_reversed_batch(make, images):
    model = make().eval()

    def fuse_previous(z):
        return torch.lerp(z, z.roll(1, dims=0), 0.1)

    there_and_back = model(images.flip(0), midway=fuse, at="stage").flip(0)
    torch.testing.assert_close(model(images, midway=fuse_previous, at="stage"), there_and_back)


def test_an_unknown_point_is_an_error_of_the_user(make, images):
    with pytest.raises(UserError, match="unknown fusion point 'stag'; did you mean 'stage'"):
        make()(images, midway=fuse, at="stag")


def test_without_midway_a_prediction_does_not_depend_on_batch_mates(make, images):
    """Invariant 10."""
    model = make().eval()
    torch.testing.assert_close(model(images)[2:3], model(images[2:3]))
    torch.testing.assert_close(model(images.flip(0)).flip(0), model(images))


def test_evaluation_twice_gives_the_same_and_leaves_statistics_alone(make, images):
    """Invariant 23."""
    model = make().eval()
    before = copy.deepcopy(model.state_dict())
    assert torch.equal(model(images), model(images))
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())


def test_together_is_one_pass_over_all_views(make, images):
    model = make().train()
    expected = copy.deepcopy(model)(images)
    a, b, c = model.together(images[:1], images[1:3], images[3:])
    assert [len(a), len(b), len(c)] == [1, 2, 2]
    assert torch.equal(torch.cat([a, b, c]), expected)


VIT = "timm:test_vit"


def passes_of(model, monkeypatch):
    """For each pass of `model` from now on, its rows and whether it kept what a gradient needs."""
    passes = []
    features = model.features

    def counted(images, **options):
        passes.append((len(images), torch.is_grad_enabled()))
        return features(images, **options)

    monkeypatch.setattr(model, "features", counted)
    return passes


def test_with_batch_norm_targets_share_the_pass_and_take_no_gradient(make, images, monkeypatch):
    model = make().train()
    expected = copy.deepcopy(model)(images)
    passes = passes_of(model, monkeypatch)
    a, target, c = model.together(images[:1], target := images[1:3], images[3:], targets=[target])
    assert passes == [(5, True)]
    assert torch.equal(torch.cat([a, target, c]), expected)
    assert [a.requires_grad, target.requires_grad, c.requires_grad] == [True, False, True]


def test_without_batch_norm_targets_have_a_pass_of_their_own(make, images, monkeypatch):
    model = make(VIT).train()
    expected = model(images)
    passes = passes_of(model, monkeypatch)
    a, target, c = model.together(images[:1], target := images[1:3], images[3:], targets=[target])
    assert passes == [(2, False), (3, True)]
    torch.testing.assert_close(torch.cat([a, target, c]), expected)
    assert [a.requires_grad, target.requires_grad, c.requires_grad] == [True, False, True]


def test_a_network_without_batch_norm_can_be_told_to_take_all_views_in_one_pass(make, images, monkeypatch):
    model = make(VIT, targets="joint").train()
    passes = passes_of(model, monkeypatch)
    _, target = model.together(images[:3], target := images[3:], targets=[target])
    assert passes == [(5, True)]
    assert not target.requires_grad


def test_with_batch_norm_separate_targets_are_normalised_by_themselves_and_recorded(make, images):
    model = make(targets="separate").train()
    alone = copy.deepcopy(model)
    a, target, c = model.together(images[:1], target := images[1:3], images[3:], targets=[target])
    torch.testing.assert_close(target, alone(images[1:3]))
    torch.testing.assert_close(torch.cat([a, c]), alone(images[[0, 3, 4]]))
    torch.testing.assert_close(model.state_dict(), alone.state_dict())


def test_views_that_are_all_targets_need_no_other_pass(make, images):
    model = make(targets="separate").eval()
    (target,) = model.together(images, targets=[images])
    assert torch.equal(target, model(images))


def test_features_of_targets_come_from_the_same_passes(make, images, monkeypatch):
    model = make(targets="separate").train()
    passes = passes_of(model, monkeypatch)
    a, target = model.features_together(images[:3], target := images[3:], targets=[target])
    assert passes == [(2, False), (3, True)]
    assert (a.shape, target.shape) == ((3, 64), (2, 64))


def test_a_classifier_made_around_another_takes_its_passes_over(make):
    assert OpenSetClassifier.around(make(targets="separate")).targets == "separate"


def test_bf16_runs_the_network_in_bf16_and_gives_fp32(make, images):
    model = make(precision="bf16").eval()
    seen = []

    def look(maps):
        seen.append(maps.dtype)
        return maps

    logits = model(images, midway=look, at="stage")
    model(images, midway=look, at="embedding")
    assert seen == [torch.bfloat16, torch.float32]
    assert logits.dtype == model.features(images).dtype == torch.float32
    torch.testing.assert_close(logits, make().eval()(images), atol=0.05, rtol=0.05)


def test_bf16_gradients_are_fp32(make, images):
    model = make(precision="bf16")
    model(images).sum().backward()
    assert all(x.grad.dtype == torch.float32 for x in model.parameters())


def test_a_double_classifier_stays_double(make, images):
    assert make().double()(images.double()).dtype == torch.float64


def test_an_unknown_precision_is_an_error_of_the_user(make):
    with pytest.raises(UserError, match="unknown precision 'fp16'"):
        make(precision="fp16")


def test_the_head_starts_xavier_normal_with_zero_bias():
    class Wide(Backbone):
        num_features = 600

    torch.manual_seed(0)
    head = Classifier(Wide(), 400).head
    assert not head.bias.any()
    assert head.weight.std().item() == pytest.approx((2 / (600 + 400)) ** 0.5, rel=0.01)


def test_layers_and_undecayed_speak_of_the_classifiers_parameters():
    class Two(Backbone):
        num_features = 2

        def __init__(self):
            super().__init__()
            self.first, self.second = nn.Linear(2, 2, bias=False), nn.Linear(2, 2, bias=False)

        def layers(self):
            return {"first.weight": 0, "second.weight": 1}

        def undecayed(self):
            return {"first.weight"}

    model = Classifier(Two(), 3)
    assert model.layers() == {
        "backbone.first.weight": 0,
        "backbone.second.weight": 1,
        "head.weight": 2,
        "head.bias": 2,
    }
    assert model.undecayed() == {"backbone.first.weight"}


def test_a_backbone_without_layers_has_none_with_a_head(make):
    assert make().layers() == {}


def test_the_head_alone_judges_embeddings(make, images):
    model = make().eval()
    assert torch.equal(model.classify(model.features(images)), model(images))


@pytest.mark.parametrize("training", [True, False])
def test_evaluating_lasts_for_its_block_only(make, images, training):
    model = make().train(training)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    with evaluating(model):
        assert not model.training
        assert not model(images).requires_grad
    assert model.training == training
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    with pytest.raises(RuntimeError, match="stopped"), evaluating(model):
        raise RuntimeError("stopped")
    assert model.training == training
    assert model(images).requires_grad
