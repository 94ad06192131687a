"""The adaptive threshold as a part: where it starts, what it selects, what is saved."""

import torch

from interlude.parts.adaptive import AdaptiveThreshold


def test_everything_starts_at_one_over_the_number_of_classes():
    threshold = AdaptiveThreshold(4, 0.9)
    assert threshold.tau.value == 0.25
    assert threshold.prior.value.tolist() == [0.25] * 4
    assert threshold.histogram.value.tolist() == [0.25] * 4


def test_the_three_averages_do_not_share_memory():
    threshold = AdaptiveThreshold(2, 0.5)
    threshold.update(torch.tensor([[0.9, 0.1], [0.8, 0.2]]))
    torch.testing.assert_close(threshold.tau.value, torch.tensor(0.5 * 0.5 + 0.5 * 0.85))
    torch.testing.assert_close(threshold.prior.value, torch.tensor([0.675, 0.325]))
    torch.testing.assert_close(threshold.histogram.value, torch.tensor([0.75, 0.25]))


def test_a_row_is_kept_when_it_reaches_the_threshold_of_its_own_class():
    threshold = AdaptiveThreshold(2, 1.0)
    threshold.tau.value.fill_(0.9)
    threshold.prior.value = torch.tensor([2 / 3, 1 / 3])  # thresholds 0.9 and 0.45
    q = torch.tensor([[0.95, 0.05], [0.85, 0.15], [0.45, 0.55], [0.05, 0.95]])
    label, mask = threshold.select(q)
    assert label.tolist() == [0, 0, 1, 1]
    assert mask.tolist() == [1, 0, 1, 1]


def test_the_state_is_three_tensors():
    assert set(AdaptiveThreshold(3, 0.9).state_dict()) == {"tau.value", "prior.value", "histogram.value"}


def test_fairness_in_single_precision_is_finite_for_sure_predictions():
    threshold = AdaptiveThreshold(3, 0.9)
    strong = torch.tensor([[100.0, 0, 0], [100.0, 0, 0]], requires_grad=True)
    value = threshold.fairness(strong, torch.ones(2))
    value.backward()
    assert value.isfinite()
    assert strong.grad.isfinite().all()
