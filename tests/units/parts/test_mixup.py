"""Mixup blends rows with rows of the same batch."""

import torch

from interlude.parts.mixup import blend, mixup_share


def test_the_share_is_at_least_a_half():
    torch.manual_seed(0)
    shares = mixup_share(0.5, rows=1000, like=torch.zeros(1))
    assert shares.shape == (1000,)
    assert shares.min() >= 0.5
    assert shares.max() <= 1
    assert mixup_share(0.5, like=torch.zeros(1)).ndim == 0


def test_one_share_blends_all_rows_alike():
    rows, order = torch.arange(6.0).view(3, 2), torch.tensor([2, 0, 1])
    expected = 0.75 * rows + 0.25 * rows[order]
    torch.testing.assert_close(blend([rows], order, torch.tensor(0.75)), expected)


def test_a_share_per_row_is_spread_over_the_row():
    rows, order, share = torch.randn(3, 1, 2, 2), torch.tensor([1, 2, 0]), torch.tensor([0.5, 0.7, 1.0])
    expected = torch.stack(
        [s * rows[i] + (1 - s) * rows[o] for i, (s, o) in enumerate(zip(share, order, strict=True))]
    )
    torch.testing.assert_close(blend([rows], order, share), expected)
