"""Per-row losses and targets."""

import math

import torch

from interlude.parts.losses import cross_entropy, masked_mean, probabilities

LOGITS = torch.tensor([[2.0, 0.0, -1.0], [0.0, 1.0, 0.0]], dtype=torch.float64)


def test_cross_entropy_is_one_number_per_row():
    found = cross_entropy(LOGITS, torch.tensor([0, 2]))
    expected = [-math.log(LOGITS[row].softmax(-1)[label]) for row, label in enumerate((0, 2))]
    torch.testing.assert_close(found, torch.tensor(expected, dtype=torch.float64))


def test_cross_entropy_of_a_distribution_is_the_mixture_of_its_labels():
    target = torch.tensor([[0.5, 0.25, 0.25], [0.0, 0.0, 1.0]], dtype=torch.float64)
    hard = torch.stack([cross_entropy(LOGITS, torch.full((2,), c)) for c in range(3)], dim=1)
    torch.testing.assert_close(cross_entropy(LOGITS, target), (target * hard).sum(1))


def test_the_masked_mean_divides_by_all_rows():
    values = torch.tensor([1.0, 2.0, 4.0, 8.0])
    assert masked_mean(values, torch.tensor([True, False, True, False])) == 5 / 4
    assert masked_mean(values, torch.tensor([1.0, 0.0, 0.5, 0.0])) == 3 / 4


def test_the_masked_mean_of_nothing_is_zero():
    values = torch.ones(4, requires_grad=True)
    mean = masked_mean(values, torch.zeros(4, dtype=torch.bool))
    mean.backward()
    assert mean == 0
    assert not values.grad.any()


def test_probabilities_sum_to_one_and_take_no_gradient():
    logits = LOGITS.clone().requires_grad_()
    q = probabilities(logits)
    torch.testing.assert_close(q, LOGITS.softmax(-1))
    assert not q.requires_grad


def test_probabilities_of_large_logits_are_finite():
    assert probabilities(torch.tensor([[1e4, 0.0, -1e4]])).tolist() == [[1, 0, 0]]
