"""Batches of vectors: the same contract as batches of images, a pure function of seed and step."""

import torch

from interlude.testing import toy_split

KINDS = ("weak", "strong")


def both(batches, step, *, shared=True):
    return batches(step, KINDS, KINDS, shared_draws=shared)


def tensors(batch):
    return [*batch.x, batch.y, *batch.u, batch.rows_x, batch.rows_u]


def test_the_same_step_is_the_same_batch_in_any_order(make_batches):
    forwards = [both(make_batches(), step) for step in range(3)]
    batches = make_batches()
    for step in (2, 0, 1):
        pairs = zip(tensors(both(batches, step)), tensors(forwards[step]), strict=True)
        assert all(torch.equal(one, other) for one, other in pairs)


def test_steps_and_seeds_differ(make_batches):
    first, second = both(make_batches(), 0), both(make_batches(), 1)
    other = both(make_batches(seed=1), 0)
    assert not torch.equal(first.u[1], second.u[1])
    assert not torch.equal(first.u[1], other.u[1])


def test_views_are_vectors_of_the_networks_width(make_batches, network):
    batch = both(make_batches(), 0)
    assert [tuple(view.shape) for view in batch.x] == [(4, network.num_inputs)] * 2
    assert [tuple(view.shape) for view in batch.u] == [(8, network.num_inputs)] * 2
    assert all(view.dtype == torch.float32 for view in (*batch.x, *batch.u))


def test_each_vector_is_that_of_its_image_in_the_realisation_drawn(make_batches):
    batches = make_batches()
    pick = batches.pick(3, KINDS, KINDS, shared_draws=False)
    batch = both(batches, 3, shared=False)
    cache, images = batches.extractor.cache, batches.split.unlabeled
    hashes = batches.extractor.hashes(images)
    for place, (row, number) in enumerate(zip(pick.rows_u, pick.draws_u[1]["number"], strict=True)):
        view = batches.realisations("strong")[number]
        (at,) = cache.find(view.name, [hashes[row]])
        assert torch.equal(batch.u[1][place], torch.from_numpy(cache.vectors(view.name)[at]).float())


def test_with_shared_draws_a_group_has_one_realisation(make_batches):
    pick = make_batches(batch=4, mu=3).pick(2, KINDS, KINDS, shared_draws=True)
    for of_x, of_u in zip(pick.draws_x, pick.draws_u, strict=True):
        assert torch.equal(of_u["number"], of_x["number"].repeat_interleave(3))


def test_without_shared_draws_images_of_a_group_differ(make_batches):
    numbers = make_batches(batch=8, mu=8).pick(0, KINDS, KINDS, shared_draws=False).draws_u[1]["number"]
    assert len(numbers.view(8, 8)[0].unique()) > 1


def test_every_realisation_is_used(make_batches):
    numbers = make_batches(batch=64).pick(0, KINDS, KINDS, shared_draws=True).draws_x
    assert [len(draw["number"].unique()) for draw in numbers] == [3, 4]


def test_two_strong_views_of_an_image_are_not_the_same(make_batches):
    pick = make_batches(batch=64).pick(0, ("weak",), ("weak", "strong", "strong"), shared_draws=False)
    _, one, two = pick.draws_u
    assert (one["number"] != two["number"]).all()


def test_more_views_than_realisations_come_round_again(make_batches):
    kinds = ("strong",) * 5
    draws = make_batches(strong=4).pick(0, ("weak",), kinds, shared_draws=False).draws_u
    assert torch.equal(draws[0]["number"], draws[4]["number"])


def test_rows_and_labels_are_those_of_batches_of_images(make_batches):
    batches = make_batches()
    batch = both(batches, 5)
    assert torch.equal(batch.y, batches.split.labeled.labels_of(batch.rows_x))
    assert len(batch.rows_u) == 8


def test_a_batch_without_unlabeled_views_reads_none(make_batches):
    batches = make_batches()
    batch = batches(0, ("weak",), (), shared_draws=False)
    assert batch.u == ()
    assert batches.extractor.num_extracted == 6 * 3


def test_a_sweep_gives_every_image_in_order_and_the_same_each_time(make_batches):
    batches = make_batches()
    images = batches.split.unlabeled
    first, second = (torch.cat(list(batches.sweep(images, "weak"))) for _ in range(2))
    assert torch.equal(first, second)
    assert len(first) == len(images)


def test_clean_vectors_are_those_of_the_images_themselves(make_batches, network):
    batches = make_batches()
    images = toy_split().labeled
    clean = torch.cat(list(batches.clean(images)))
    pixels = (images.take(torch.arange(6)).float() / 255 - 0.3) / 0.35
    with torch.no_grad():
        torch.testing.assert_close(clean, network.extract(pixels), rtol=1e-3, atol=1e-3)
