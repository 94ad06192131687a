"""Packing views into a layout and unpacking them."""

import pytest
import torch

from interlude.parts.layout import LAYOUTS, Layout, order

layouts = pytest.mark.parametrize("layout", LAYOUTS)


def views(groups=4, mu=3, shape=(2, 5, 5)):
    sizes = (groups, groups, groups * mu, groups * mu)
    return torch.arange(sum(sizes) * 50, dtype=torch.float32).view(-1, *shape).split(sizes)


@layouts
def test_packing_and_unpacking_is_the_identity(layout):
    plan = Layout(layout, groups=4, mu=3)
    for view, again in zip(views(), plan.unpack(plan.pack(*views())), strict=True):
        assert torch.equal(view, again)


@layouts
def test_unpacking_works_on_rows_of_any_shape(layout):
    plan = Layout(layout, groups=4, mu=3)
    assert [tuple(view.shape) for view in plan.unpack(torch.zeros(32, 10))] == [
        (4, 10),
        (4, 10),
        (12, 10),
        (12, 10),
    ]


@layouts
def test_gradients_come_back_to_the_rows_they_belong_to(layout):
    leaves = [view.clone().requires_grad_() for view in views()]
    plan = Layout(layout, groups=4, mu=3)
    rows = plan.unpack(plan.pack(*leaves))
    sum((number + 1) * row.sum() for number, row in enumerate(rows)).backward()
    for number, leaf in enumerate(leaves):
        assert (leaf.grad == number + 1).all()


def test_low_interdigitation_is_the_views_one_after_the_other():
    assert torch.equal(Layout("low-i", groups=4, mu=3).pack(*views()), torch.cat(views()))


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


@layouts
def test_images_stay_in_channels_last_order(layout):
    images = [view.to(memory_format=torch.channels_last) for view in views()]
    packed = Layout(layout, groups=4, mu=3).pack(*images)
    assert packed.is_contiguous(memory_format=torch.channels_last)
    assert torch.equal(packed, torch.cat(views())[order(layout, 4, 3)])
