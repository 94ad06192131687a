"""A running average of a batch statistic."""

import pytest
import torch

from interlude.parts.average import Average


def test_an_average_starts_where_it_is_told():
    start = torch.tensor([0.2, 0.8])
    assert torch.equal(Average(start, 0.9).value, start)


def test_two_averages_that_start_from_one_tensor_go_their_own_ways():
    start = torch.full((2,), 0.5)
    first, second = Average(start, 0.5), Average(start, 0.5)
    first.update(torch.tensor([1.0, 0.0]))
    assert torch.equal(second.value, torch.full((2,), 0.5))
    assert torch.equal(start, torch.full((2,), 0.5)), "the tensor it started from was changed"


def test_an_average_that_starts_from_an_element_owns_its_memory():
    start = torch.full((2,), 0.5)
    Average(start[0], 0.5).update(torch.tensor(1.0))
    assert torch.equal(start, torch.full((2,), 0.5))


@pytest.mark.parametrize("decay", [0.0, 0.3, 0.999])
def test_an_update_mixes_old_and_new(decay):
    average = Average(torch.tensor([1.0, 2.0], dtype=torch.float64), decay)
    expected = average.value.clone()
    for step in range(3):
        new = torch.tensor([step, -step], dtype=torch.float64)
        expected = decay * expected + (1 - decay) * new
        returned = average.update(new)
        torch.testing.assert_close(average.value, expected)
        assert returned is average.value


def test_a_decay_of_one_freezes_the_average():
    average = Average(torch.tensor([1.0, 2.0]), 1.0)
    average.update(torch.tensor([100.0, 100.0]))
    assert average.value.tolist() == [1, 2]


def test_an_average_can_begin_with_the_first_value_it_sees():
    average = Average(torch.zeros(2), 0.75, from_first=True)
    assert average.update(torch.tensor([4.0, 8.0])).tolist() == [4, 8]
    assert average.update(torch.tensor([0.0, 0.0])).tolist() == [3, 6]


def test_a_restored_average_knows_that_it_has_begun():
    average, again = (Average(torch.zeros(1), 0.75, from_first=True) for _ in range(2))
    average.update(torch.tensor([4.0]))
    again.load_state_dict(average.state_dict())
    assert again.update(torch.tensor([0.0])).tolist() == [3]


def test_an_average_takes_no_gradient():
    average = Average(torch.zeros(2, requires_grad=True), 0.5)
    average.update(torch.ones(2, requires_grad=True) * 3)
    assert not average.value.requires_grad


def test_an_average_keeps_its_own_precision():
    average = Average(torch.zeros(2), 0.5)
    average.update(torch.ones(2, dtype=torch.float64))
    average.update(torch.ones(2, dtype=torch.bfloat16))
    assert average.value.dtype == torch.float32
    assert average.value.tolist() == [0.75, 0.75]


def test_an_average_is_in_the_state_dict():
    average, again = Average(torch.zeros(2), 0.5), Average(torch.zeros(2), 0.5)
    average.update(torch.ones(2))
    again.load_state_dict(average.state_dict())
    assert torch.equal(again.value, average.value)
