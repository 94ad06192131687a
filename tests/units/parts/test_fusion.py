"""Rows fused with their neighbours."""

import pytest
import torch

from interlude.parts.fusion import fuse

both = pytest.mark.parametrize("neighbour", [1, -1])


def by_the_matrix(rows, alpha, neighbour):
    """The paper's form: (1 - alpha) I + alpha P, with P the permutation that puts the neighbour in place."""
    identity = torch.eye(len(rows), dtype=rows.dtype)
    matrix = (1 - alpha) * identity + alpha * identity.roll(neighbour, dims=1)
    return (matrix @ rows.flatten(1)).view_as(rows)


@both
@pytest.mark.parametrize("shape", [(5, 3), (4, 2, 3, 3), (2, 3), (1, 3)])
def test_a_row_moves_a_share_towards_its_neighbour(shape, neighbour):
    rows = torch.randn(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(fuse(rows, 0.3, neighbour=neighbour), by_the_matrix(rows, 0.3, neighbour))


@both
def test_the_gradient_is_that_of_the_matrix(neighbour):
    rows = torch.randn(4, 3, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda z: fuse(z, 0.3, neighbour=neighbour), rows)
    assert torch.autograd.gradgradcheck(lambda z: fuse(z, 0.3, neighbour=neighbour).square(), rows)


def test_maps_and_their_gradients_stay_in_channels_last_order():
    maps = torch.randn(4, 2, 3, 3).to(memory_format=torch.channels_last).requires_grad_()
    fused = fuse(maps, 0.1, neighbour=1)
    (gradient,) = torch.autograd.grad(fused.square().sum(), maps)
    assert fused.is_contiguous(memory_format=torch.channels_last)
    assert gradient.is_contiguous(memory_format=torch.channels_last)


def test_rows_are_left_as_they_were():
    rows = torch.randn(4, 3)
    before = rows.clone()
    fuse(rows, 0.4, neighbour=1)
    assert torch.equal(rows, before)
