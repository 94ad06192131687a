"""The batch of a step is a pure function of seed and step."""

from dataclasses import replace

import pytest
import torch

from interlude import augment
from interlude.batches import STEPS_AT_ONCE, VALUES_AT_ONCE, Batches
from interlude.data import Images
from interlude.errors import UserError
from interlude.methods.supervised import Supervised
from interlude.testing import toy_config, toy_run, toy_split

CPU = torch.device("cpu")
KINDS = ("weak", "strong")
LARGE = VALUES_AT_ONCE // (2 * 3 * 8 * 8)  # groups of three toy images in two views that fit into memory once


def toy_batches(*, seed=0, batch=4, mu=2, split=None):
    policy = augment.build(augment.AugmentConfig())
    return Batches(split or toy_split(), policy, batch=batch, mu=mu, seed=seed, device=CPU)


def both_views(batches, step, *, shared=True):
    return batches(step, KINDS, KINDS, shared_draws=shared)


def tensors(batch):
    return [*batch.x, batch.y, *batch.u, batch.rows_x, batch.rows_u]


def assert_same(first, second):
    for mine, yours in zip(tensors(first), tensors(second), strict=True):
        assert torch.equal(mine, yours)


@pytest.mark.parametrize("shared", [True, False])
def test_the_same_step_twice_is_the_same_batch(shared):
    batches = toy_batches()
    assert_same(both_views(batches, 3, shared=shared), both_views(batches, 3, shared=shared))


@pytest.mark.parametrize("shared", [True, False])
def test_steps_can_be_asked_for_in_any_order(shared):
    forwards = [both_views(toy_batches(), step, shared=shared) for step in range(4)]
    batches = toy_batches()
    for step in (2, 0, 3, 1):
        assert_same(both_views(batches, step, shared=shared), forwards[step])


@pytest.mark.parametrize(
    ("labeled", "unlabeled", "shared"),
    [
        (KINDS, KINDS, True),
        (KINDS, KINDS, False),
        (("weak",), ("strong", "strong"), False),
        (KINDS, (), False),
    ],
    ids=str,
)
def test_batches_made_together_are_those_made_one_by_one(labeled, unlabeled, shared):
    batches, views = toy_batches(), (labeled, unlabeled)
    together = batches.make(range(3, 8), *views, shared_draws=shared)
    for step, batch in zip(range(3, 8), together, strict=True):
        (alone,) = batches.make([step], *views, shared_draws=shared)
        assert_same(alone, batch)
        assert_same(alone, batches(step, *views, shared_draws=shared))


@pytest.mark.parametrize(
    ("batch", "steps"),
    [(1, STEPS_AT_ONCE), (LARGE // 4, 4), (LARGE // 3, 2), (LARGE, 1), (2 * LARGE, 1)],
)
def test_so_many_batches_are_made_together_as_fit_into_memory(batch, steps):
    assert toy_batches(batch=batch, mu=2).steps_at_once(KINDS, KINDS) == steps


def strong_draws_differ(one, two):
    return any(not torch.equal(values, two.draws_x[1][name]) for name, values in one.draws_x[1].items())


def test_steps_differ_in_rows_and_in_draws():
    first, second = (toy_batches().pick(step, KINDS, KINDS, shared_draws=True) for step in (0, 1))
    assert not torch.equal(first.rows_u, second.rows_u)
    assert strong_draws_differ(first, second)


def test_seeds_differ_in_rows_and_in_draws():
    first, second = (toy_batches(seed=seed).pick(0, KINDS, KINDS, shared_draws=True) for seed in (0, 1))
    assert not torch.equal(first.rows_u, second.rows_u)
    assert strong_draws_differ(first, second)


def test_the_global_random_state_plays_no_part():
    torch.manual_seed(1)
    first = both_views(toy_batches(), 2)
    torch.manual_seed(2)
    state = torch.get_rng_state()
    assert_same(first, both_views(toy_batches(), 2))
    assert torch.equal(torch.get_rng_state(), state), "building a batch used the global generator"


def test_with_shared_draws_a_group_has_one_draw_for_each_kind():
    pick = toy_batches(batch=4, mu=3).pick(5, KINDS, KINDS, shared_draws=True)
    for of_x, of_u in zip(pick.draws_x, pick.draws_u, strict=True):
        for name in of_x:
            assert torch.equal(of_u[name], of_x[name].repeat_interleave(3, dim=0)), f"{name} is not shared"


def test_without_shared_draws_every_row_has_its_own():
    pick = toy_batches(batch=4, mu=3).pick(5, KINDS, KINDS, shared_draws=False)
    strong = pick.draws_u[1]
    assert all(len(value) == 12 for value in strong.values())
    rows = torch.cat([value.double().reshape(12, -1) for value in strong.values()], dim=1)
    assert len(rows.unique(dim=0)) == 12


def test_weak_and_strong_draws_are_independent():
    weak, strong = toy_batches().pick(0, KINDS, KINDS, shared_draws=True).draws_x
    common = weak.keys() & strong.keys()
    assert common, "weak and strong views both flip and crop"
    assert any(not torch.equal(weak[name], strong[name]) for name in common)


def test_views_are_the_draws_applied_to_the_rows():
    batches = toy_batches()
    pick, batch = batches.pick(1, KINDS, KINDS, shared_draws=True), both_views(batches, 1)
    for number, kind in enumerate(KINDS):
        pixels = batches.split.unlabeled.take(pick.rows_u)
        expected = batches.augmentations[kind].apply(pixels, pick.draws_u[number])
        torch.testing.assert_close(batch.u[number], (expected.float() / 255 - 0.3) / 0.35)


def test_labels_belong_to_the_labeled_images_and_no_other_label_is_there():
    batches = toy_batches()
    batch = both_views(batches, 0)
    assert torch.equal(batch.y, batches.split.labeled.labels_of(batch.rows_x))
    assert set(batch._fields) == {"x", "y", "u", "rows_x", "rows_u"}


def test_sizes_are_those_asked_for():
    batch = both_views(toy_batches(batch=4, mu=3), 0)
    assert [tuple(view.shape) for view in batch.x] == [(4, 1, 8, 8)] * 2
    assert [tuple(view.shape) for view in batch.u] == [(12, 1, 8, 8)] * 2
    assert all(view.dtype == torch.float32 for view in (*batch.x, *batch.u))
    assert len(batch.rows_u) == 12


def test_views_come_in_the_declared_order():
    batches = toy_batches()
    batch = batches(0, ("strong", "plain"), ("plain",), shared_draws=False)
    plain = (batches.split.labeled.take(batch.rows_x).float() / 255 - 0.3) / 0.35
    torch.testing.assert_close(batch.x[1], plain)
    assert not torch.allclose(batch.x[0], plain)
    assert len(batch.u) == 1


def test_a_method_without_unlabeled_views_reads_no_unlabeled_image(monkeypatch):
    batches = toy_batches()
    monkeypatch.setattr(Images, "take", counted := CountedTake(Images.take))
    (batch,) = batches.make([0], ("weak",), (), shared_draws=False)
    assert batch.u == ()
    assert len(batch.rows_u) == 0
    assert counted.rows == 4, "pixels of unlabeled images were read"


class CountedTake:
    """`Images.take` that counts the rows it reads."""

    def __init__(self, take):
        self.take, self.rows = take, 0

    def __get__(self, images, owner):
        def take(rows):
            self.rows += len(rows)
            return self.take(images, rows)

        return take


def test_supervised_training_needs_no_unlabeled_images_at_all():
    split = toy_split()
    nothing = split.unlabeled.subset(torch.arange(0))
    run = toy_run(Supervised, split=replace(split, unlabeled=nothing))
    assert len(run.batch(0).y) == toy_config(Supervised).batch


def test_a_batch_larger_than_the_data_repeats_images():
    batch = both_views(toy_batches(batch=20, mu=2), 0)
    counts = torch.bincount(batch.rows_x, minlength=6)
    assert counts.sum() == 20
    assert counts.min() >= 20 // 6
    assert counts.max() <= 20 // 6 + 1
    assert torch.bincount(batch.rows_u, minlength=18).min() >= 2


def test_each_pass_over_the_data_visits_every_image_once():
    batches = toy_batches(batch=3, mu=3)
    labeled = torch.cat([both_views(batches, step).rows_x for step in range(4)]).view(2, 6)
    unlabeled = torch.cat([both_views(batches, step).rows_u for step in range(4)]).view(2, 18)
    assert (labeled.sort(1).values == torch.arange(6)).all()
    assert (unlabeled.sort(1).values == torch.arange(18)).all()


def test_an_unknown_kind_of_view_is_refused_with_the_nearest_names():
    with pytest.raises(UserError, match=r"unknown view 'strongg'.*'strong'"):
        toy_batches()(0, ("strongg",), (), shared_draws=False)


def test_a_sweep_gives_every_image_in_order_and_the_same_each_time():
    batches = toy_batches()
    images = batches.split.unlabeled
    plain = torch.cat(list(batches.sweep(images, "plain")))
    torch.testing.assert_close(plain, (images.take(torch.arange(18)).float() / 255 - 0.3) / 0.35)
    first, second = (torch.cat(list(batches.sweep(images, "weak"))) for _ in range(2))
    assert torch.equal(first, second)
    assert not torch.equal(first, plain)


def test_pictures_show_each_group_with_its_original():
    batches = toy_batches(batch=2, mu=2)
    groups = batches.pictures(0, KINDS, shared_draws=True)
    pick = batches.pick(0, KINDS, KINDS, shared_draws=True)
    assert [list(group) for group in groups] == [["original", "weak", "strong"]] * 2
    for number, group in enumerate(groups):
        assert all(view.shape == (3, 1, 8, 8) for view in group.values())
        assert all(view.dtype == torch.uint8 for view in group.values())
        members = batches.split.unlabeled.take(pick.rows_u[2 * number : 2 * number + 2])
        assert torch.equal(group["original"][1:], members)


def test_network_input_is_channels_last():
    batch = both_views(toy_batches(), 0)
    assert all(view.is_contiguous(memory_format=torch.channels_last) for view in (*batch.x, *batch.u))
