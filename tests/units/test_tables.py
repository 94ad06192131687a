"""Rows of a table are varied as described, alike inside a group, and never when they are judged."""

import pytest
import torch

from interlude import rng
from interlude.data import Split, SplitRecord
from interlude.tables import Shake, Table, TableBatches, Variation

KINDS = ("weak", "strong")
WIDTH = 5


def split(count=12):
    """A table whose first rows have labels."""
    rows = torch.randn(count, WIDTH, 1, 1, generator=torch.Generator().manual_seed(0))
    table = Table(rows, torch.arange(count) % 2)
    return Split(
        labeled=table.subset(torch.arange(4)),
        unlabeled=table,
        validation=None,
        tests={},
        num_classes=2,
        class_names=("a", "b"),
        class_weights=None,
        mean=(0.0,) * WIDTH,
        std=(1.0,) * WIDTH,
        record=SplitRecord((0, 1, 2, 3)),
    )


def batches(*, mu=3, variation=Variation()):
    return TableBatches(split(), variation.views(WIDTH), batch=2, mu=mu, seed=0, device=torch.device("cpu"))


def test_noise_and_mask_are_those_drawn():
    shake, rows = Shake(WIDTH, 0.5, masked=0.4), torch.ones(3, WIDTH)
    draw = shake.draw(3, rng.generator(0, "test"))
    for row in range(3):
        for column in range(WIDTH):
            hidden = draw["luck"][row, column] < 0.4
            expected = 0.0 if hidden else 1 + 0.5 * draw["noise"][row, column]
            assert shake.apply(rows, draw)[row, column] == pytest.approx(float(expected))


def test_the_share_that_is_masked_and_the_spread_of_the_noise_are_as_asked():
    shake = Shake(100, 0.3, masked=0.25)
    view = shake.apply(torch.ones(200, 100), shake.draw(200, rng.generator(0, "test")))
    assert float((view == 0).float().mean()) == pytest.approx(0.25, abs=0.01)
    assert float(view[view != 0].std()) == pytest.approx(0.3, abs=0.01)


def test_a_shared_draw_moves_the_rows_of_a_group_alike():
    made = batches(variation=Variation(0.1, 0.5, masked=0.0))(0, KINDS, KINDS, shared_draws=True)
    for kind in range(2):
        moved_x = made.x[kind] - split().labeled.take(made.rows_x).flatten(1)
        moved_u = made.u[kind] - split().unlabeled.take(made.rows_u).flatten(1)
        assert torch.allclose(moved_u.view(2, 3, WIDTH), moved_x[:, None].expand(2, 3, WIDTH), atol=1e-6)
        assert not torch.allclose(moved_x[0], moved_x[1], atol=1e-3)


def test_without_sharing_every_row_has_its_own_draw():
    made = batches(variation=Variation(0.1, 0.5, masked=0.0))(0, KINDS, KINDS, shared_draws=False)
    moved = made.u[1] - split().unlabeled.take(made.rows_u).flatten(1)
    assert torch.pdist(moved).min() > 1e-3


def test_rows_are_judged_as_they_are_and_in_order():
    table = split().unlabeled
    assert torch.equal(torch.cat(list(batches().clean(table))), table.pixels.flatten(1))


def test_every_view_word_of_images_has_a_meaning_for_rows():
    rows = list(batches().sweep(split().unlabeled, "flip"))
    assert torch.cat(rows).shape == (12, WIDTH)
    assert torch.equal(
        torch.cat(list(batches().sweep(split().unlabeled, "plain"))).flatten(),
        split().unlabeled.pixels.flatten(),
    )
