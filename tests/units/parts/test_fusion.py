"""Rows fused with their neighbours."""

import pytest
import torch

from interlude.parts.fusion import Circle, fuse, fuse_views
from interlude.parts.layout import LAYOUTS, order

both = pytest.mark.parametrize("side", [1, -1])


def circle_of(rows, side):
    """Rows in any order."""
    return Circle.of(torch.randperm(rows, generator=torch.Generator().manual_seed(rows)), side)


def by_the_matrix(rows, alpha, circle):
    """The paper's form: (1 - alpha) I + alpha P, with P the permutation that puts the neighbour in place."""
    identity = torch.eye(len(rows), dtype=rows.dtype)
    matrix = (1 - alpha) * identity + alpha * identity[circle.neighbour]
    return (matrix @ rows.flatten(1)).view_as(rows)


@both
@pytest.mark.parametrize("shape", [(5, 3), (4, 2, 3, 3), (2, 3), (1, 3)])
def test_a_row_moves_a_share_towards_its_neighbour(shape, side):
    rows = torch.randn(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    circle = circle_of(len(rows), side)
    torch.testing.assert_close(fuse(rows, 0.3, circle), by_the_matrix(rows, 0.3, circle))


@both
def test_the_neighbour_on_one_side_of_the_other_is_oneself(side):
    places = torch.tensor([2, 0, 3, 1])
    one, other = Circle.of(places, side), Circle.of(places, -side)
    assert torch.equal(one.neighbour, other.of_whom)
    assert torch.equal(one.neighbour[one.of_whom], torch.arange(4))


def test_the_circle_is_closed_at_both_ends():
    places = torch.tensor([2, 0, 3, 1])
    assert Circle.of(places, 1).neighbour.tolist() == [3, 2, 0, 1]
    assert Circle.of(places, -1).neighbour.tolist() == [2, 3, 1, 0]


@both
def test_the_gradient_is_that_of_the_matrix(side):
    rows, circle = torch.randn(4, 3, dtype=torch.float64, requires_grad=True), circle_of(4, side)
    assert torch.autograd.gradcheck(lambda z: fuse(z, 0.3, circle), rows)
    assert torch.autograd.gradgradcheck(lambda z: fuse(z, 0.3, circle).square(), rows)


def test_maps_and_their_gradients_stay_in_channels_last_order():
    maps = torch.randn(4, 2, 3, 3).to(memory_format=torch.channels_last).requires_grad_()
    fused = fuse(maps, 0.1, circle_of(4, 1))
    (gradient,) = torch.autograd.grad(fused.square().sum(), maps)
    assert fused.is_contiguous(memory_format=torch.channels_last)
    assert gradient.is_contiguous(memory_format=torch.channels_last)


def test_rows_are_left_as_they_were():
    rows = torch.randn(4, 3)
    before = rows.clone()
    fuse(rows, 0.4, circle_of(4, 1))
    assert torch.equal(rows, before)


@both
@pytest.mark.parametrize("layout", LAYOUTS)
def test_views_are_fused_as_if_they_stood_in_their_layout(layout, side):
    rows, places = torch.randn(2 * 4 * 3, 5, dtype=torch.float64), order(layout, groups=4, mu=2)
    fused = fuse_views(rows, 0.1, layout, groups=4, mu=2, side=side)
    standing = rows[places]
    torch.testing.assert_close(fused[places], 0.9 * standing + 0.1 * standing.roll(-side, 0))
