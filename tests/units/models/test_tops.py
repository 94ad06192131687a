"""What is trained on the vectors of a frozen network."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from interlude.models.tops import LinearTop, MlpTop, Principal, Scaling


def some_vectors(rows=40, width=6):
    generator = torch.Generator().manual_seed(0)
    return torch.randn(rows, width, generator=generator) * torch.arange(1.0, width + 1) + 3


def test_until_it_is_settled_the_scaling_does_nothing():
    assert torch.equal(Scaling(6)(some_vectors()), some_vectors())


def test_a_settled_scaling_gives_its_sample_mean_zero_and_variance_one():
    scaling = Scaling(6)
    scaling.settle(some_vectors())
    z = scaling(some_vectors())
    torch.testing.assert_close(z.mean(0), torch.zeros(6), atol=1e-5, rtol=0)
    torch.testing.assert_close(z.var(0, correction=0), torch.ones(6), atol=1e-5, rtol=0)


def test_a_scaling_settles_once():
    scaling = Scaling(6)
    scaling.settle(some_vectors())
    before = scaling.state_dict()["mean"].clone()
    scaling.settle(some_vectors() + 5)
    assert torch.equal(scaling.mean, before)


def test_the_scaling_is_part_of_the_state():
    scaling, again = Scaling(6), Scaling(6)
    scaling.settle(some_vectors())
    again.load_state_dict(scaling.state_dict())
    assert torch.equal(again(some_vectors()), scaling(some_vectors()))
    assert again.settled


def test_a_dimension_that_never_varies_stays_finite_and_is_not_blown_up():
    vectors = some_vectors()
    vectors[:, 2] = 7
    scaling = Scaling(6)
    scaling.settle(vectors)
    moved = vectors.clone()
    moved[:, 2] += 0.001
    assert (scaling(moved)[:, 2] - scaling(vectors)[:, 2]).abs().max() < 1
    constant = Scaling(6)
    constant.settle(torch.ones(4, 6))
    assert constant(torch.ones(4, 6)).isfinite().all()


def test_half_precision_vectors_are_scaled_in_single_precision():
    scaling = Scaling(6)
    scaling.settle(some_vectors())
    halves = some_vectors().half()
    assert scaling(halves).dtype == torch.float32
    torch.testing.assert_close(scaling(halves), scaling(halves.float()))


def settled(kept):
    principal = Principal(6, kept)
    principal.settle(some_vectors())
    return principal


def test_principal_directions_are_those_of_a_singular_value_decomposition():
    rows = some_vectors(5)
    centred = some_vectors() - some_vectors().mean(0)
    directions = torch.linalg.svd(centred, full_matrices=False).Vh[:3].T
    expected = F.normalize((rows - some_vectors().mean(0)) @ directions, dim=-1) * 3**0.5
    torch.testing.assert_close(settled(3)(rows).abs(), expected.abs(), atol=1e-4, rtol=0)  # signs are free


def test_what_is_left_of_each_vector_has_one_length():
    torch.testing.assert_close(settled(4)(some_vectors()).norm(dim=-1), torch.full((40,), 2.0))


def test_principal_directions_settle_once_and_are_part_of_the_state():
    principal, again = settled(3), Principal(6, 3)
    again.load_state_dict(principal.state_dict())
    again.settle(some_vectors() * torch.arange(6.0, 0, -1))
    assert torch.equal(again(some_vectors()), principal(some_vectors()))


def test_a_vector_at_the_centre_stays_finite():
    assert settled(3)(some_vectors().mean(0, keepdim=True)).isfinite().all()


def test_an_mlp_may_stand_on_principal_directions():
    assert MlpTop(6, hidden=4, principal=3).linear.in_features == 3


def test_the_mlp_is_scaling_linear_norm_activation_by_hand():
    top = MlpTop(6, hidden=4)
    nn.init.normal_(top.norm.weight)
    nn.init.normal_(top.norm.bias)
    top.scaling.settle(some_vectors())
    rows = some_vectors(5)
    x = (rows - top.scaling.mean) / top.scaling.std
    h = x @ top.linear.weight.T + top.linear.bias
    h = (h - h.mean(-1, keepdim=True)) / (h.var(-1, correction=0, keepdim=True) + 1e-5).sqrt()
    h = h * top.norm.weight + top.norm.bias
    expected = 0.5 * h * (1 + torch.erf(h / 2**0.5))
    torch.testing.assert_close(top(rows), expected)


def test_fusion_acts_on_the_scaled_vectors_that_enter_the_hidden_layer():
    top = MlpTop(6, hidden=4, norm=nn.Identity, activation=nn.ReLU)
    top.scaling.settle(some_vectors())
    rows = some_vectors(5)
    fused = top(rows, midway=lambda z: torch.lerp(z, z.roll(-1, 0), 0.3))
    mixed = 0.7 * rows + 0.3 * rows.roll(-1, 0)  # scaling is affine, so it may be done before as well
    by_hand = F.relu(top.linear((mixed - top.scaling.mean) / top.scaling.std))
    torch.testing.assert_close(fused, by_hand)
    assert not torch.allclose(fused, torch.lerp(top(rows), top(rows).roll(-1, 0), 0.3))


def test_dropout_acts_in_training_only():
    top = MlpTop(6, hidden=64, dropout=0.5)
    rows = some_vectors(5)
    assert (top.train()(rows) == 0).float().mean() > 0.3
    assert torch.equal(top.eval()(rows), top(rows))


@pytest.mark.parametrize("top", [LinearTop(6), LinearTop(6, principal=3), MlpTop(6, hidden=4)])
def test_the_width_is_that_of_what_comes_out(top):
    assert top(some_vectors(5)).shape == (5, top.num_features)
