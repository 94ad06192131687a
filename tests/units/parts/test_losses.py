"""Per-row losses and targets."""

import math

import pytest
import torch
import torch.nn.functional as F

from interlude.parts.losses import FEW, cross_entropy, masked_mean, probabilities, softmax

LOGITS = torch.tensor([[2.0, 0.0, -1.0], [0.0, 1.0, 0.0]], dtype=torch.float64)
few_and_many = pytest.mark.parametrize("num_classes", [1, 2, 10, FEW - 1, FEW, 100])


def rows(num_classes, count=37):
    """Logits that take a gradient."""
    generator = torch.Generator().manual_seed(num_classes)
    return (3 * torch.randn(count, num_classes, generator=generator)).requires_grad_()


@few_and_many
def test_softmax_and_its_gradient_are_torchs_for_few_classes_and_many(num_classes):
    logits = rows(num_classes)
    found, expected = softmax(logits), logits.softmax(-1)
    torch.testing.assert_close(found, expected)
    assert found.is_contiguous()
    (mine,), (theirs,) = (torch.autograd.grad(p.square().sum(), logits) for p in (found, expected))
    torch.testing.assert_close(mine, theirs)


@few_and_many
def test_cross_entropy_and_its_gradient_are_torchs_for_few_classes_and_many(num_classes):
    logits = rows(num_classes)
    label, share = torch.arange(len(logits)) % num_classes, rows(num_classes).detach().softmax(-1)
    for target in (label, share):
        found, expected = cross_entropy(logits, target), F.cross_entropy(logits, target, reduction="none")
        torch.testing.assert_close(found, expected)
        (mine,), (theirs,) = (torch.autograd.grad(loss.square().sum(), logits) for loss in (found, expected))
        torch.testing.assert_close(mine, theirs)


def test_no_row_is_no_probability_and_no_loss():
    assert softmax(torch.empty(0, 3)).shape == (0, 3)
    assert cross_entropy(torch.empty(0, 3), torch.empty(0, dtype=torch.int64)).shape == (0,)


def test_a_label_of_an_impossible_class_costs_much_but_not_infinitely_much():
    logits = torch.tensor([[0.0, 200.0]], requires_grad=True)
    loss = cross_entropy(logits, torch.tensor([0]))
    assert loss.item() == pytest.approx(200)
    loss.sum().backward()
    assert logits.grad.tolist() == [[-1, 1]]


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
