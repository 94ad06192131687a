"""Targets: sharpened, aligned, normalised, and without gradient."""

import torch

from interlude.parts.targets import align, normalize, one_hot, sharpen

Q = torch.tensor([[0.7, 0.2, 0.1], [0.4, 0.35, 0.25]], requires_grad=True)


def test_one_hot_has_the_width_and_type_of_its_model():
    rows = one_hot(torch.tensor([2, 0]), Q.double())
    assert rows.tolist() == [[0, 0, 1], [1, 0, 0]]
    assert rows.dtype == torch.float64


def test_normalised_rows_sum_to_one_and_zeros_stay_zeros():
    rows = normalize(torch.tensor([[1.0, 3.0], [0.0, 0.0]]))
    assert rows.tolist() == [[0.25, 0.75], [0, 0]]


def test_sharpening_is_the_power_of_one_over_t():
    expected = torch.tensor([[value**2 / sum(v**2 for v in row) for value in row] for row in Q.tolist()])
    torch.testing.assert_close(sharpen(Q, 0.5), expected)
    torch.testing.assert_close(sharpen(Q, 1.0), Q.detach())


def test_alignment_with_the_target_itself_changes_nothing():
    prior = torch.tensor([0.5, 0.3, 0.2])
    torch.testing.assert_close(align(Q, prior, prior), Q.detach())


def test_alignment_moves_a_rare_class_up():
    aligned = align(Q, torch.tensor([0.8, 0.1, 0.1]), 1 / 3)
    assert (aligned[:, 0] < Q[:, 0]).all()
    torch.testing.assert_close(aligned.sum(-1), torch.ones(2))


def test_no_gradient_passes_a_target():
    assert not sharpen(Q, 0.5).requires_grad
    assert not align(Q, torch.ones(3) / 3, 1 / 3).requires_grad
