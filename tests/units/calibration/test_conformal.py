"""Prediction sets keep their promise, also for grouped images and with few of them."""

import math

import numpy as np
import pytest
import torch

from interlude.calibration import calibrate, highest_coverage, needed, set_threshold, sets


def test_the_threshold_is_the_usual_split_conformal_quantile(world):
    logits, labels = world(57)
    probabilities = logits.softmax(-1)
    scores = sorted(1 - float(row[label]) for row, label in zip(probabilities, labels, strict=True))
    wanted = 1 - scores[math.ceil(58 * 0.8) - 1]
    assert set_threshold(probabilities, labels, coverage=0.8) == pytest.approx(wanted, abs=1e-12)


@pytest.mark.parametrize(("held_out", "coverage"), [(19, 0.9), (40, 0.8), (10, 0.7)])
def test_sets_cover_as_promised_over_many_splits(world, held_out, coverage):
    hits = []
    for seed in range(100):
        logits, labels = world(held_out + 100, seed=seed, temperature=2.0, distance=1.2)
        found = calibrate(logits[:held_out], labels[:held_out], source="test", coverage=coverage)
        in_set = found.judge(logits[held_out:]).in_set
        hits.append(float(in_set[torch.arange(100), labels[held_out:]].double().mean()))
    assert np.mean(hits) > coverage - 3 * np.std(hits) / 10


def test_sets_are_no_larger_than_they_must_be(world):
    logits, labels = world(20_000, distance=1.2)
    found = calibrate(logits[:10_000], labels[:10_000], source="test", coverage=0.9)
    in_set = found.judge(logits[10_000:]).in_set
    covered = float(in_set[torch.arange(10_000), labels[10_000:]].double().mean())
    assert covered == pytest.approx(0.9, abs=0.015)


def test_groups_weigh_as_one_image_each_and_cover_new_groups():
    """Images of a group share half of their noise; the promise is for groups not seen before."""
    hits, naive = [], []
    for seed in range(200):
        chance = torch.Generator().manual_seed(seed)
        groups = torch.arange(20).repeat_interleave(torch.tensor([30] * 2 + [2] * 18))
        hard = torch.rand(21, generator=chance).double()  # how hard a group is
        new = torch.full((1,), 20)
        truth = torch.cat([hard[groups], hard[new]]) * torch.rand(97, generator=chance).double() ** 0.1
        probabilities = torch.stack([1 - truth, truth], -1)
        labels = torch.zeros(96, dtype=torch.long)
        for found, given in ((hits, groups.tolist()), (naive, None)):
            threshold = set_threshold(probabilities[:96], labels, coverage=0.9, groups=given)
            found.append(float(probabilities[96, 0]) >= threshold)
    assert np.mean(hits) > 0.9 - 3 * 0.3 / math.sqrt(200)
    assert np.mean(naive) < np.mean(hits)


def test_groups_of_one_image_change_nothing(world):
    logits, labels = world(40)
    probabilities = logits.softmax(-1)
    alone = set_threshold(probabilities, labels, coverage=0.85, groups=list(range(40)))
    assert alone == set_threshold(probabilities, labels, coverage=0.85)


@pytest.mark.parametrize("coverage", [0.5, 0.8, 0.9, 0.95, 0.99])
def test_a_promise_takes_a_number_of_images(world, coverage):
    count = needed(coverage)
    logits, labels = world(count)
    assert set_threshold(logits.softmax(-1), labels, coverage=coverage) is not None
    assert set_threshold(logits[1:].softmax(-1), labels[1:], coverage=coverage) is None
    assert highest_coverage(count - 1) < coverage <= highest_coverage(count) + 1e-12


def test_without_a_promise_a_set_holds_all_classes_and_says_so(world):
    logits, labels = world(5)
    found = calibrate(logits, labels, source="test", coverage=0.9)
    verdicts = found.judge(logits)
    assert verdicts.in_set.all()
    assert verdicts.abstain.all()
    assert "cannot promise a coverage of 90%" in found.promise()
    assert "takes 9" in found.promise()


def test_the_most_probable_class_is_always_in():
    probabilities = torch.tensor([[0.4, 0.35, 0.25], [0.1, 0.2, 0.7]])
    assert sets(probabilities, 0.9).tolist() == [[True, False, False], [False, False, True]]
    assert sets(probabilities, 0.3).tolist() == [[True, True, False], [False, False, True]]
