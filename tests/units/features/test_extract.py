"""Extraction: every vector is the network's own, is worked out once, and can be gone on with."""

import signal
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from interlude.augment import Identity, normalize
from interlude.data import Images
from interlude.errors import UserError
from interlude.features import extract as module
from interlude.features.folded import folded
from interlude.features.views import realisations
from interlude.models import ModelConfig, build
from interlude.signals import Stopped
from interlude.testing import toy_split

KINDS = ("weak", "strong")


def vectors_of(batches, images, view):
    extractor = batches.extractor
    rows = extractor.cache.find(view.name, extractor.hashes(images))
    assert (rows >= 0).all()
    return torch.from_numpy(extractor.cache.vectors(view.name)[rows])


def test_a_cached_vector_is_the_networks_own_for_that_view(make_batches, network):
    batches = make_batches()
    batches.extract(KINDS, KINDS)
    images = batches.split.unlabeled
    for view in batches.realisations("strong"):
        pixels = view.augmentation.apply(images.take(torch.arange(len(images))), view.draw_for(len(images)))
        with torch.no_grad():
            expected = network.extract(normalize(pixels, (0.3,), (0.35,)))
        torch.testing.assert_close(vectors_of(batches, images, view).float(), expected, rtol=1e-3, atol=1e-3)


def test_nothing_is_extracted_twice(make_batches, make_extractor):
    make_batches().extract(KINDS, KINDS)
    again = make_batches()
    again.extract(KINDS, KINDS)
    assert again.extractor.num_extracted == 0
    assert again.extractor.num_found == (6 + 18) * (1 + 3 + 4)


def test_more_draws_add_what_is_missing_only(make_batches):
    make_batches(strong=2).extract(KINDS, KINDS)
    more = make_batches(strong=4)
    more.extract(KINDS, KINDS)
    assert more.extractor.num_extracted == (6 + 18) * 2


def test_a_new_image_adds_its_own_vectors_only(make_batches):
    split = toy_split()
    fewer = replace(split, unlabeled=split.unlabeled.subset(torch.arange(17)))
    make_batches(split=fewer).extract(KINDS, KINDS)
    batches = make_batches(split=split)
    batches.extract(KINDS, KINDS)
    assert batches.extractor.num_extracted == 1 + 3 + 4


def test_an_image_in_two_sets_is_extracted_once(make_batches):
    split = toy_split()
    both = replace(split, unlabeled=split.labeled)
    batches = make_batches(split=both)
    batches.extract(KINDS, KINDS)
    assert batches.extractor.num_extracted == 6 * (1 + 3 + 4)


def test_test_images_are_seen_as_they_are_only(make_batches):
    batches = make_batches()
    batches.extract(("weak",), (), [*batches.split.tests.values()])
    assert batches.extractor.num_extracted == 9 + 18 + 6 * (1 + 3)


def test_other_weights_have_a_folder_of_their_own(make_extractor, network):
    torch.manual_seed(1)
    other = build(ModelConfig(name="cnn", frozen=True), num_classes=3, channels=1, image_size=(8, 8)).backbone
    assert make_extractor().cache.folder == make_extractor().cache.folder
    assert make_extractor().cache.folder != make_extractor(network=other).cache.folder


def test_another_layer_has_a_folder_of_its_own(make_extractor, network):
    first = make_extractor().cache.folder
    network.body.layer = 1
    assert make_extractor().cache.folder != first


@pytest.mark.parametrize("stopped_after", [1, 3])
def test_a_stop_keeps_what_is_done_and_the_next_start_goes_on(make_batches, monkeypatch, stopped_after):
    monkeypatch.setattr(module, "BATCH", 4)
    batches = make_batches()
    compute, calls = batches.extractor._compute, []

    def compute_and_stop(job, networks):
        calls.append(job)
        if len(calls) == stopped_after:
            signal.raise_signal(signal.SIGINT)
        return compute(job, networks)

    one_by_one = lambda send, jobs, workers: (send(job).result() for job in jobs)  # noqa: E731
    monkeypatch.setattr(module, "_in_turn", one_by_one)
    monkeypatch.setattr(batches.extractor, "_compute", compute_and_stop)
    with pytest.raises(Stopped, match=r"of 192 vectors are extracted and kept"):
        batches.extract(KINDS, KINDS)
    kept = batches.extractor.num_extracted
    assert 0 < kept < 192
    second = make_batches()
    second.extract(KINDS, KINDS)
    assert second.extractor.num_extracted == 192 - kept


def test_vectors_that_float16_cannot_hold_are_refused(make_batches, network):
    for parameter in network.body.parameters():
        parameter.data.mul_(100)
    with pytest.raises(UserError, match="too large for float16"):
        make_batches().extract(KINDS, KINDS)


def test_too_little_room_is_told_before_the_start(make_batches, monkeypatch):
    batches = make_batches()
    monkeypatch.setattr(module.shutil, "disk_usage", lambda folder: type("Usage", (), {"free": 100})())
    with pytest.raises(UserError, match=r"GB are free: make room"):
        batches.extract(KINDS, KINDS)
    assert batches.extractor.num_extracted == 0


def test_the_result_does_not_depend_on_the_number_of_workers(make_batches, make_extractor):
    one, two = make_batches(), make_batches(extractor=make_extractor(folder="elsewhere"))
    one.extract(KINDS, KINDS)
    torch.set_num_threads(2)
    two.extract(KINDS, KINDS)
    assert torch.get_num_threads() == 2
    for view in one.realisations("strong"):
        mine, theirs = (batches.extractor.cache.vectors(view.name) for batches in (one, two))
        np.testing.assert_array_equal(mine, theirs)


def test_the_pace_is_measured_once(make_extractor, monkeypatch):
    images = toy_split().labeled
    extractor = make_extractor()
    (view,) = realisations("plain", Identity(), count=1, seed=0, shape=(1, 8, 8))
    pace = extractor.pace(images, view, seconds=0.01)
    assert pace > 0
    monkeypatch.setattr(extractor, "_try", lambda *args: pytest.fail("measured again"))
    assert extractor.pace(images, view) == pace


class Branching(nn.Module):
    """Something else reads what the convolution gives."""

    def __init__(self):
        super().__init__()
        self.convolution, self.norm = nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2)
        self.norm.running_mean.fill_(3.0)

    def forward(self, images):
        maps = self.convolution(images)
        return (maps + self.norm(maps)).mean((2, 3))


class Straight(Branching):
    """Nothing else does."""

    def forward(self, images):
        return self.norm(self.convolution(images)).mean((2, 3))


def test_norms_are_folded_into_convolutions_without_a_change(network):
    images = torch.rand(4, 1, 8, 8)
    straight = Straight().eval()
    fast = folded(straight, images)
    assert not any(isinstance(part, nn.BatchNorm2d) for part in fast.modules())
    assert isinstance(straight.norm, nn.BatchNorm2d), "the network itself was changed"
    torch.testing.assert_close(fast(images), straight(images))


def test_a_convolution_that_others_read_is_left_alone():
    images = torch.rand(4, 1, 8, 8)
    branching = Branching().eval()
    assert folded(branching, images) is branching


def test_pixels_of_an_image_decide_not_its_place(make_batches):
    split = toy_split()
    batches = make_batches(split=split)
    batches.extract(("weak",), ())
    turned = Images(split.labeled.take(torch.arange(6)).flip(0), torch.arange(6))
    first = torch.cat(list(batches.clean(split.labeled)))
    torch.testing.assert_close(torch.cat(list(batches.clean(turned))), first.flip(0))
