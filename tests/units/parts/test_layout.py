"""The order in which rows stand."""

import pytest
import torch

from interlude.parts.layout import LAYOUTS, order, sizes

layouts = pytest.mark.parametrize("layout", LAYOUTS)


def test_low_interdigitation_is_the_views_one_after_the_other():
    assert torch.equal(order("low-i", groups=4, mu=3), torch.arange(sum(sizes(groups=4, mu=3))))


@layouts
def test_one_group_with_one_image_has_four_rows(layout):
    assert sorted(order(layout, 1, 1).tolist()) == [0, 1, 2, 3]


def test_where_the_chunks_do_not_divide_the_batch_high_i1_takes_the_largest_number_that_does():
    groups, mu = 8, 7  # the paper's 16 chunks do not divide 8; 8 do, of one group each
    assert torch.equal(order("high-i1", groups, mu), order("high-i2", groups, mu))


def test_high_i1_at_the_papers_size_has_sixteen_chunks_of_four_groups():
    rows = order("high-i1", 64, 7)
    chunk = rows.view(16, 64)[0]
    expected = [*range(4), *range(64, 68), *range(128, 156), *range(128 + 448, 156 + 448)]
    assert chunk.tolist() == expected
