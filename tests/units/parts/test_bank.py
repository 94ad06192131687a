"""Banks of embeddings, the mean of recent batches, and the teacher with a projector."""

from collections import deque

import pytest
import torch
from torch import nn

from interlude.models import ModelConfig, build
from interlude.parts import bank
from interlude.parts.bank import NEVER, Projector, Recent, Ring, Slots, Teacher, embed


def unit(*shape, seed=0):
    rows = torch.randn(*shape, generator=torch.Generator().manual_seed(seed))
    return nn.functional.normalize(rows, dim=-1)


def predictions(rows, num_classes=3, seed=0):
    return torch.randn(rows, num_classes, generator=torch.Generator().manual_seed(seed)).softmax(-1)


def in_order(ring):
    """The rows of a ring from the oldest to the newest."""
    known = min(int(ring.pushed), len(ring.z))
    first = int(ring.pushed) % len(ring.z) if int(ring.pushed) > len(ring.z) else 0
    return [(first + place) % len(ring.z) for place in range(known)]


@pytest.mark.parametrize("size", [1, 4, 7, 12, 100])
@pytest.mark.parametrize("push", [1, 3, 5])
def test_a_ring_holds_the_last_rows_whatever_its_size(size, push):
    """Public code loses rows at the end of the bank unless its size is a multiple of the batch."""
    ring, expected = Ring(size, 2, 3), deque(maxlen=size)
    for step in range(9):
        z, q = unit(push, 2, seed=step), predictions(push, seed=step)
        ring.push(z, q)
        expected.extend(zip(z, q, strict=True))
        order = in_order(ring)
        assert torch.equal(ring.z[order], torch.stack([z for z, _ in expected]))
        assert torch.equal(ring.q[order], torch.stack([q for _, q in expected]))


def test_of_more_rows_than_a_ring_has_places_the_last_stay():
    ring = Ring(3, 2, 3)
    z, q = unit(8, 2), predictions(8)
    ring.push(z, q)
    assert torch.equal(ring.z[in_order(ring)].sort(0).values, z[5:].sort(0).values)
    ring.push(z[:1], q[:1])
    assert (ring.z == z[0]).all(-1).sum() == 1
    assert (ring.z == z[5]).all(-1).sum() == 0, "the oldest row makes room"


def test_empty_places_of_a_ring_have_no_say():
    small, large = Ring(5, 2, 3), Ring(50, 2, 3)
    z, q = unit(5, 2), predictions(5)
    for ring in (small, large):
        ring.push(z, q)
    votes = [(ring.similarity(unit(4, 2, seed=1)) / 0.1).softmax(-1) @ ring.q for ring in (small, large)]
    torch.testing.assert_close(*votes)
    assert ((large.similarity(z) / 0.1).softmax(-1)[:, 5:] == 0).all()


def test_an_empty_ring_votes_for_every_class_alike_and_gives_no_gradient():
    ring, z = Ring(6, 2, 4), unit(3, 2).requires_grad_()
    log = (ring.similarity(z) / 0.1).log_softmax(-1)
    torch.testing.assert_close(log.exp() @ ring.q, torch.full((3, 4), 0.25))
    assert not torch.autograd.grad(log[:, 0].sum(), z)[0].any()


def test_targets_of_zero_at_empty_places_cost_nothing():
    ring = Ring(6, 2, 3)
    ring.push(unit(2, 2), predictions(2))
    similarity = ring.similarity(unit(3, 2, seed=1)) / 0.1
    loss = nn.functional.cross_entropy(similarity, similarity.softmax(-1))
    assert loss.isfinite()
    assert 0 <= loss < 10


def test_similarity_to_a_bank_is_differentiable_but_the_bank_is_not():
    ring, slots = Ring(6, 2, 3), Slots(torch.tensor([0, 1]), 2)
    z = unit(4, 2).requires_grad_()
    ring.push(z, predictions(4))
    slots.write(torch.tensor([0, 1]), z[:2])
    for part in (ring, slots):
        assert not part.z.requires_grad
        assert torch.autograd.grad(part.similarity(z)[:, 0].sum(), z)[0].any()


def test_a_ring_restored_in_the_middle_of_a_round_goes_on_there():
    ring, again = Ring(7, 2, 3), Ring(7, 2, 3)
    for step in range(3):
        ring.push(unit(3, 2, seed=step), predictions(3, seed=step))
    again.load_state_dict(ring.state_dict())
    for part in (ring, again):
        part.push(unit(3, 2, seed=9), predictions(3, seed=9))
    assert torch.equal(ring.z, again.z)
    assert torch.equal(ring.q, again.q)


def test_slots_know_the_labels_from_the_start():
    """Public code starts at class 0 for all and learns them image by image."""
    labels = torch.tensor([2, 0, 1])
    slots = Slots(labels, 4)
    assert torch.equal(slots.labels, labels)
    slots.labels[0] = 0
    assert labels[0] == 2, "the labels of the task are not the slots' to change"


def test_a_slot_without_embedding_has_no_say():
    slots = Slots(torch.arange(5), 4)
    slots.write(torch.tensor([1, 3]), unit(2, 4))
    near = (slots.similarity(unit(3, 4, seed=1)) / 0.1).softmax(-1)
    assert (near[:, [0, 2, 4]] == 0).all()
    assert (near[:, [1, 3]] > 0).all()


def test_the_first_embedding_of_a_slot_replaces_what_was_there():
    slots, z = Slots(torch.arange(3), 4), unit(1, 4)
    slots.write(torch.tensor([1]), z, decay=0.7)
    torch.testing.assert_close(slots.z[1], z[0])


def test_a_slot_moves_by_its_decay_and_keeps_length_one():
    slots, first, second = Slots(torch.arange(3), 4), unit(1, 4), unit(1, 4, seed=1)
    slots.write(torch.tensor([2]), first, decay=0.7)
    slots.write(torch.tensor([2]), second, decay=0.7)
    expected = 0.7 * first[0] + 0.3 * second[0]
    torch.testing.assert_close(slots.z[2], expected / expected.norm())


def test_every_written_slot_has_length_one():
    """Public code normalises along the batch: lengths between 0.58 and 1.13 after one write."""
    slots = Slots(torch.arange(8), 4)
    for step in range(5):
        rows = torch.randint(8, (6,), generator=torch.Generator().manual_seed(step))
        slots.write(rows, unit(6, 4, seed=step), decay=0.7)
        torch.testing.assert_close(slots.z.norm(dim=-1)[slots.seen], torch.ones(int(slots.seen.sum())))
    assert slots.seen.sum() > 4


def test_a_slot_does_not_depend_on_the_other_images_of_the_batch():
    alone, among = Slots(torch.arange(4), 4), Slots(torch.arange(4), 4)
    for step in range(3):
        z = unit(4, 4, seed=step)
        alone.write(torch.tensor([0]), z[:1], decay=0.7)
        among.write(torch.arange(4), z, decay=0.7)
    torch.testing.assert_close(alone.z[0], among.z[0])


def test_images_outside_the_batch_keep_their_slots():
    slots = Slots(torch.arange(4), 4)
    slots.write(torch.arange(4), unit(4, 4))
    before = slots.z.clone()
    slots.write(torch.tensor([2]), unit(1, 4, seed=1), decay=0.5)
    assert torch.equal(slots.z[[0, 1, 3]], before[[0, 1, 3]])


def test_an_image_that_is_twice_in_a_batch_counts_with_its_mean_in_any_order():
    rows, z = torch.tensor([1, 0, 1, 1]), unit(4, 4)
    found = []
    for order in ([0, 1, 2, 3], [3, 2, 1, 0], [2, 0, 3, 1]):
        slots = Slots(torch.arange(2), 4)
        slots.write(torch.tensor([1]), unit(1, 4, seed=5))
        slots.write(rows[order], z[order], decay=0.7)
        found.append(slots.z.clone())
    mean = 0.7 * unit(1, 4, seed=5)[0] + 0.3 * z[[0, 2, 3]].mean(0)
    torch.testing.assert_close(found[0][1], mean / mean.norm())
    for other in found[1:]:
        torch.testing.assert_close(found[0], other)


def test_slots_written_by_two_processes_equal_those_written_by_one(monkeypatch):
    rows, z = torch.tensor([1, 0, 1, 3]), unit(4, 4)
    whole = Slots(torch.arange(5), 4)
    whole.write(rows, z, decay=0.7)
    sent = []
    monkeypatch.setattr(bank.distributed, "total", lambda value: sent.append(value) or value)
    Slots(torch.arange(5), 4).write(rows[:2], z[:2], decay=0.7)
    monkeypatch.setattr(bank.distributed, "total", lambda value: value + sent.pop(0))
    half = Slots(torch.arange(5), 4)
    half.write(rows[2:], z[2:], decay=0.7)
    torch.testing.assert_close(half.z, whole.z)
    assert torch.equal(half.seen, whole.seen)


@pytest.mark.parametrize("window", [1, 3, 32])
def test_recent_is_the_mean_of_the_last_batches(window):
    recent, seen = Recent(window, 3), []
    for step in range(7):
        seen = [*seen, predictions(1, seed=step)[0]][-window:]
        returned = recent.update(seen[-1])
        torch.testing.assert_close(returned, torch.stack(seen).mean(0))
        assert torch.equal(returned, recent.value)


def test_recent_means_go_on_after_a_restore():
    recent, again = Recent(3, 2), Recent(3, 2)
    for step in range(4):
        recent.update(torch.tensor([step, 1.0]))
    again.load_state_dict(recent.state_dict())
    assert torch.equal(recent.update(torch.tensor([9.0, 1.0])), again.update(torch.tensor([9.0, 1.0])))


def test_recent_means_are_those_of_all_processes(monkeypatch):
    monkeypatch.setattr(bank.distributed, "mean", lambda value: value / 2)
    assert Recent(3, 2).update(torch.tensor([1.0, 0.0])).tolist() == [0.5, 0]


def test_recent_means_take_no_gradient():
    assert not Recent(3, 2).update(torch.ones(2, requires_grad=True) * 2).requires_grad


def test_embeddings_have_length_one():
    z = Projector(6, 4)(torch.randn(5, 6))
    torch.testing.assert_close(z.norm(dim=-1), torch.ones(5))


def small_network():
    torch.manual_seed(0)
    model = build(ModelConfig(name="cnn"), num_classes=3, channels=1, image_size=(8, 8))
    return model, Projector(model.num_features, 4), torch.randn(6, 1, 8, 8)


def test_logits_and_embeddings_of_all_views_come_from_one_pass():
    model, projector, images = small_network()
    model.eval()
    (first, second), (z_first, z_second) = embed(model, projector, images[:2], images[2:])
    torch.testing.assert_close(torch.cat([first, second]), model(images))
    torch.testing.assert_close(torch.cat([z_first, z_second]), projector(model.features(images)))
    assert (len(first), len(z_second)) == (2, 4)


def test_a_teacher_stays_in_evaluation_mode_and_judges_each_image_alone():
    model, projector, images = small_network()
    teacher = nn.ModuleList([Teacher(model, projector, 0.9, warmup=False)]).train()[0]
    before = {name: value.clone() for name, value in teacher.state_dict().items() if "running" in name}
    (among,), (z_among,) = teacher(images)
    (alone,), (z_alone,) = teacher(images[:1])
    assert before
    torch.testing.assert_close(among[:1], alone)
    torch.testing.assert_close(z_among[:1], z_alone)
    assert all(torch.equal(teacher.state_dict()[name], value) for name, value in before.items())
    assert not among.requires_grad
    assert not any(parameter.requires_grad for parameter in teacher.parameters())


def test_a_teacher_follows_network_and_projector():
    model, projector, _ = small_network()
    teacher = Teacher(model, projector, 0.75, warmup=False)
    start = [p.detach().clone() for p in (*model.parameters(), *projector.parameters())]
    with torch.no_grad():
        for parameter in (*model.parameters(), *projector.parameters()):
            parameter += 1
    teacher.update(model, projector)
    for mine, old in zip(teacher.parameters(), start, strict=True):
        torch.testing.assert_close(mine, old + 0.25)


def test_never_is_far_below_any_similarity_yet_finite():
    assert torch.tensor(2 * NEVER / 1e-3).isfinite()
    assert torch.tensor([NEVER / 1.0, -1 / 1e-3]).softmax(-1)[0] == 0
