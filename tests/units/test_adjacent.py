"""What lies one after the other in memory is joined without a copy; anything else as torch does it."""

import pytest
import torch

from interlude.adjacent import joined, room, rooms
from interlude.methods.fixmatch import FixMatch
from interlude.methods.interlude import InterLUDE
from interlude.testing import toy_run

CPU = torch.device("cpu")


def filled(steps, counts, image=(3, 4, 5)):
    """Images of some steps, all of them different."""
    views = rooms(steps, counts, image, CPU)
    for number, view in enumerate(views):
        view.copy_(torch.arange(view.numel()).view(view.shape) + 1000 * number)
    return views


def is_a_copy(rows, views):
    return rows.data_ptr() != views[0].data_ptr()


def test_room_is_in_channels_last_order():
    assert room(2, 3, 4, 5, device=CPU).is_contiguous(memory_format=torch.channels_last)


@pytest.mark.parametrize("counts", [[2, 2, 6, 6], [1, 1], [4], [3, 0, 2]], ids=str)
def test_the_views_of_a_step_are_joined_without_a_copy(counts):
    of_steps = filled(3, counts)
    for step in range(3):
        views = [view[step] for view in of_steps]
        rows = joined(views)
        assert not is_a_copy(rows, views)
        assert torch.equal(rows, torch.cat(views))
        assert rows.is_contiguous(memory_format=torch.channels_last)


APART = {
    "another order": lambda one, two: [two, one],
    "one twice": lambda one, two: [one, one],
    "a gap": lambda one, two: [one[:1], two],
    "other strides": lambda one, two: [one, two.contiguous()],
    "another type": lambda one, two: [one, two.double()],
    "memory of its own": lambda one, two: [one, two.clone()],
    "a gradient": lambda one, two: [one.detach().requires_grad_(), two.detach()],
}


@pytest.mark.parametrize("how", APART)
def test_what_lies_elsewhere_is_copied(how):
    views = APART[how](*(view[0] for view in filled(2, [2, 3])))
    rows = joined(views)
    assert is_a_copy(rows, views)
    assert torch.equal(rows, torch.cat(views))
    assert rows.requires_grad == any(view.requires_grad for view in views)


def test_images_that_touch_by_chance_are_copied():
    """Two pieces of memory may touch each other without being one."""
    memory = bytearray(4 * 2 * 60)
    one, two = (torch.frombuffer(memory, dtype=torch.float32, count=60, offset=240 * i) for i in range(2))
    assert one.data_ptr() + 240 == two.data_ptr()
    views = [one.view(1, 3, 4, 5), two.view(1, 3, 4, 5)]
    assert is_a_copy(joined(views), views)


@pytest.mark.parametrize("method", [InterLUDE, FixMatch])
@pytest.mark.parametrize("shared", [True, False])
def test_the_views_of_a_batch_are_joined_without_a_copy(method, shared):
    run = toy_run(method)
    shared = shared and method.labeled == method.unlabeled
    for step in range(3):
        batch = run.batches(step, method.labeled, method.unlabeled, shared_draws=shared)
        views = [*batch.x, *batch.u]
        assert not is_a_copy(joined(views), views)
        assert torch.equal(joined(views), torch.cat(views))
