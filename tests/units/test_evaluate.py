"""Figures of merit against scikit-learn and loops, and predictions that depend on nothing but the image."""

import json

import pytest
import torch
from sklearn.metrics import accuracy_score, balanced_accuracy_score, recall_score
from torch import nn

from interlude import evaluate
from interlude.data import Images

seeds = pytest.mark.parametrize("seed", range(5))


def some_predictions(seed, *, count=200, num_classes=5):
    """Predictions that are right more often than by chance, and the truth."""
    generator = torch.Generator().manual_seed(seed)
    labels = torch.randint(num_classes, (count,), generator=generator)
    logits = torch.randn(count, num_classes, generator=generator) * 2
    logits[torch.arange(count), labels] += 1.5
    return logits.softmax(-1), labels


@seeds
def test_accuracy_is_scikit_learns(seed):
    probabilities, labels = some_predictions(seed)
    figures = evaluate.figures(probabilities, labels)
    assert figures["accuracy"] == pytest.approx(100 * accuracy_score(labels, probabilities.argmax(-1)))
    assert figures["error"] == pytest.approx(100 - figures["accuracy"])
    assert figures["images"] == 200


@seeds
def test_balanced_accuracy_is_scikit_learns(seed):
    probabilities, labels = some_predictions(seed)
    figures = evaluate.figures(probabilities, labels)
    expected = 100 * balanced_accuracy_score(labels, probabilities.argmax(-1))
    assert figures["balanced_accuracy"] == pytest.approx(expected)
    assert figures["balanced_error"] == pytest.approx(100 - expected)


@seeds
def test_recall_per_class_is_scikit_learns(seed):
    probabilities, labels = some_predictions(seed)
    expected = 100 * recall_score(labels, probabilities.argmax(-1), average=None)
    assert evaluate.figures(probabilities, labels)["recall"] == pytest.approx(expected.tolist())


@seeds
def test_classes_absent_from_the_truth_are_skipped(seed):
    probabilities, labels = some_predictions(seed)
    kept = labels != 2
    probabilities, labels = probabilities[kept], labels[kept]
    predicted = probabilities.argmax(-1)
    assert (predicted == 2).any(), "nothing is predicted as the absent class: the test is empty"
    figures = evaluate.figures(probabilities, labels)
    present = [0, 1, 3, 4]
    recalls = recall_score(labels, predicted, labels=present, average=None)
    assert figures["recall"][2] is None
    assert figures["balanced_accuracy"] == pytest.approx(100 * recalls.mean())
    assert figures["accuracy"] == pytest.approx(100 * accuracy_score(labels, predicted))


@seeds
def test_the_calibration_error_is_that_of_a_loop_over_bins(seed):
    probabilities, labels = some_predictions(seed)
    confidence, predicted = probabilities.double().max(-1)
    expected = 0.0
    for number in range(15):
        low, high = number / 15, (number + 1) / 15
        members = [
            row
            for row in range(200)
            if low <= confidence[row] < high or (number == 14 and confidence[row] == 1)
        ]
        if members:
            accuracy = sum(int(predicted[row] == labels[row]) for row in members) / len(members)
            mean = sum(float(confidence[row]) for row in members) / len(members)
            expected += len(members) / 200 * abs(accuracy - mean)
    assert evaluate.figures(probabilities, labels)["calibration_error"] == pytest.approx(100 * expected)


def test_the_calibration_error_of_certain_and_right_is_zero_and_of_certain_and_wrong_a_hundred():
    sure = nn.functional.one_hot(torch.tensor([0, 1, 2])).float()
    assert evaluate.figures(sure, torch.tensor([0, 1, 2]))["calibration_error"] == 0
    assert evaluate.figures(sure, torch.tensor([1, 2, 0]))["calibration_error"] == 100


def test_figures_can_be_written_as_json():
    figures = evaluate.figures(*some_predictions(0))
    assert json.loads(json.dumps(figures)) == figures


class Trace(nn.Module):
    """A network with BatchNorm and Dropout that would betray training mode, and that counts its passes."""

    def __init__(self):
        super().__init__()
        self.norm, self.dropout, self.head = nn.BatchNorm2d(1), nn.Dropout(0.5), nn.Linear(16, 3)

    def forward(self, images):
        assert not torch.is_grad_enabled()
        return self.head(self.dropout(self.norm(images)).flatten(1))


def some_images(count=10):
    pixels = torch.randint(0, 256, (count, 1, 4, 4), generator=torch.Generator().manual_seed(0))
    return Images(pixels.to(torch.uint8), torch.zeros(count, dtype=torch.int64))


def batches(images, **size):
    return evaluate.normalized_batches(images, (0.5,), (0.25,), device=torch.device("cpu"), **size)


def test_images_are_normalised_and_come_in_order():
    images = some_images()
    rows = torch.cat(list(batches(images, size=3)))
    assert [len(batch) for batch in batches(images, size=3)] == [3, 3, 3, 1]
    torch.testing.assert_close(rows, (images.pixels.float() / 255 - 0.5) / 0.25)


@pytest.mark.parametrize("training", [True, False])
def test_predicting_leaves_the_model_as_it_was(training):
    model = Trace().train(training)
    before = model.norm.running_mean.clone()
    first, second = (evaluate.predict(model, batches(some_images())) for _ in range(2))
    assert torch.equal(first, second)
    assert torch.equal(model.norm.running_mean, before)
    assert model.training is training
    torch.testing.assert_close(first.sum(-1), torch.ones(10))


@pytest.mark.parametrize("size", [1, 3])
def test_the_size_of_the_batches_does_not_matter(size):
    model = Trace()
    expected = evaluate.predict(model, batches(some_images()))
    torch.testing.assert_close(evaluate.predict(model, batches(some_images(), size=size)), expected)
