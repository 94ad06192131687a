"""The calibration of a model as a whole: what it says of images, and how it is kept."""

import json

import numpy as np
import pytest
import torch
from scipy.spatial.distance import mahalanobis

from interlude.calibration import Calibration, Usual, calibrate
from interlude.errors import UserError


def embeddings(count, *, seed=0, width=6):
    """Two classes of embeddings whose directions spread very differently."""
    chance = torch.Generator().manual_seed(seed)
    classes = torch.randint(2, (count,), generator=chance)
    spread = torch.logspace(-2, 1, width)
    return 3 * classes[:, None] + spread * torch.randn(count, width, generator=chance), classes


def test_unusual_is_the_share_of_training_images_that_are_less_so():
    usual = Usual.of(*embeddings(4000))
    shares = usual.share(embeddings(4000, seed=1)[0])
    for level in (0.1, 0.5, 0.9, 0.97):
        assert float((shares > level).double().mean()) == pytest.approx(1 - level, abs=0.03)


def test_what_is_usual_holds_for_new_images_though_dimensions_outnumber_images():
    usual = Usual.of(torch.randn(100, 200), torch.zeros(100))
    shares = usual.share(torch.randn(1000, 200))
    assert float(shares.mean()) == pytest.approx(0.5, abs=0.15)


def test_the_distance_is_mahalanobis_to_the_nearest_class():
    z, classes = embeddings(400)
    known, labels = z[::2].double().numpy(), classes[::2].numpy()
    centres = [known[labels == k].mean(0) for k in (0, 1)]
    residuals = known - np.array(centres)[labels]
    covariance = residuals.T @ residuals / len(known)
    covariance = 0.9 * covariance + 0.1 * np.trace(covariance) / 6 * np.eye(6)
    new = embeddings(5, seed=2)[0]
    wanted = [
        min(mahalanobis(row, centre, np.linalg.inv(covariance)) ** 2 for centre in centres)
        for row in new.double().numpy()
    ]
    assert Usual.of(z, classes).distance(new).tolist() == pytest.approx(wanted, rel=1e-3)


def test_it_abstains_where_the_set_is_large_or_the_image_unusual():
    known = Calibration(threshold=0.3, images=50, ood_limit=0.8)
    logits = torch.tensor([[4.0, 0.0, 0.0], [4.0, 3.9, 0.0], [4.0, 0.0, 0.0]])
    assert known.judge(logits, torch.tensor([0.8, 0.1, 0.9])).abstain.tolist() == [False, True, True]


def test_an_uncalibrated_model_gives_plain_softmax_and_never_abstains(world):
    logits, _ = world(20)
    verdicts = Calibration().judge(logits)
    assert torch.equal(verdicts.probabilities, logits.softmax(-1))
    assert not verdicts.abstain.any()
    assert verdicts.ood.isnan().all()
    assert "not calibrated" in Calibration().promise()


def test_it_comes_back_from_json_as_it_was(world):
    logits, labels = world(40)
    found = calibrate(logits, labels, source="folds", groups=["a", "b"] * 20)
    assert found.groups == 2
    assert Calibration.from_json(json.loads(json.dumps(found.to_json()))) == found
    assert Calibration.from_json({}) is None


@pytest.mark.parametrize(
    "damage", [{"temperature": 0.0}, {"coverage": 2}, {"colour": 1}, {"temperature": "hot"}]
)
def test_damaged_numbers_are_a_user_error(damage):
    with pytest.raises(UserError, match="damaged"):
        Calibration.from_json(Calibration().to_json() | damage)


def test_bad_held_out_images_are_a_user_error(world):
    logits, labels = world(4)
    with pytest.raises(UserError, match="coverage"):
        calibrate(logits, labels, source="test", coverage=1.0)
    with pytest.raises(UserError, match="finite"):
        calibrate(logits * torch.nan, labels, source="test")
    with pytest.raises(UserError, match="held-out"):
        calibrate(logits[:0], labels[:0], source="test")
