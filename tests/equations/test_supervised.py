"""Supervised and fully-supervised: cross-entropy of labeled images and nothing else."""

import by_hand
import pytest
import torch
from stand_in import batch_of, four_views, gradients, make
from torch import nn

from interlude.batches import Batches
from interlude.data import Sampler
from interlude.loop import fit
from interlude.method import Clock
from interlude.methods.fully_supervised import FullySupervised
from interlude.methods.supervised import Supervised
from interlude.testing import toy_run, toy_split

LABELS = torch.tensor([0, 2, 1, 0])
WEIGHTS = (0.2, 0.5, 0.3)


def loss_of(method, views, y=LABELS):
    (objective,) = method.step(batch_of(views, y), Clock(0, 10))
    assert list(objective.terms) == ["supervised"]
    return objective.loss


@pytest.mark.parametrize("weights", [None, WEIGHTS])
@pytest.mark.parametrize("seed", range(3))
def test_the_loss_is_the_mean_cross_entropy_of_the_loops(weights, seed):
    x, *_ = four_views(4, 1, seed=seed)
    expected = by_hand.supervised(x.detach().numpy(), LABELS.numpy(), weights)
    assert loss_of(make(Supervised, class_weights=weights), [x]).item() == pytest.approx(expected, abs=1e-12)


def test_the_loss_is_torchs_cross_entropy():
    x, *_ = four_views(4, 1)
    assert torch.equal(loss_of(make(Supervised), [x]), nn.functional.cross_entropy(x, LABELS))


def test_fully_supervised_has_the_same_loss_on_the_same_batch():
    x, *_ = four_views(4, 1)
    assert torch.equal(loss_of(make(Supervised), [x]), loss_of(make(FullySupervised), [x]))
    assert FullySupervised.needs_all_labels
    assert not Supervised.needs_all_labels


def test_the_gradient_is_prediction_minus_truth_over_the_number_of_rows():
    x, *_ = four_views(4, 1)
    (gradient,) = gradients(loss_of(make(Supervised), [x]), [x])
    expected = (x.softmax(-1) - nn.functional.one_hot(LABELS, 3)) / 4
    torch.testing.assert_close(gradient, expected.detach(), atol=1e-12, rtol=0)


@pytest.mark.parametrize("weights", [None, WEIGHTS])
def test_hard_labels_are_the_corner_of_soft_ones(weights):
    x, *_ = four_views(4, 1)
    method, soft = make(Supervised, class_weights=weights), nn.functional.one_hot(LABELS, 3).double()
    torch.testing.assert_close(method.supervised(x, soft), method.supervised(x, LABELS))


@pytest.mark.parametrize("weights", [None, WEIGHTS])
def test_soft_labels_weigh_classes_by_their_share(weights):
    x, *_ = four_views(2, 1)
    soft, w = torch.tensor([[0.7, 0.3, 0.0], [0.1, 0.4, 0.5]]).double(), weights or (1.0, 1.0, 1.0)
    rows = [[-w[c] * soft[i, c].item() * x.log_softmax(-1)[i, c].item() for c in range(3)] for i in range(2)]
    total = sum(w[c] * soft[i, c].item() for i in range(2) for c in range(3))
    expected = sum(map(sum, rows)) / total
    assert make(Supervised, class_weights=weights).supervised(x, soft).item() == pytest.approx(expected)


def test_the_fair_control_trains_on_the_strong_views_too():
    weak, strong, *_ = four_views(4, 1)
    method = make(Supervised, strong=True)
    assert method.labeled == ("weak", "strong")
    halves = [loss_of(make(Supervised), [view]) for view in (weak, strong)]
    torch.testing.assert_close(loss_of(method, [weak, strong]), sum(halves) / 2)


def test_without_the_option_there_is_no_strong_view():
    assert make(Supervised).labeled == ("weak",)
    assert make(Supervised).unlabeled == ()


def test_a_run_gives_the_method_no_unlabeled_image():
    run = toy_run(Supervised)
    batch = run.batch(0)
    assert batch.u == ()
    assert len(batch.rows_u) == 0
    fit(run)


def test_a_stream_of_all_labels_visits_each_image_once_in_as_many_draws():
    rows = Sampler(50, seed=0, stream="labeled").rows(0, 150).view(3, 50)
    assert (rows.sort(1).values == torch.arange(50)).all()


def test_with_fewer_images_than_a_batch_images_repeat():
    batches = Batches(
        toy_split(),
        toy_run(Supervised).batches.augmentations,
        batch=20,
        mu=1,
        seed=0,
        device=torch.device("cpu"),
    )
    rows = batches(0, ("weak",), (), shared_draws=False).rows_x
    assert len(rows) == 20
    assert set(rows.tolist()) == set(range(6))
