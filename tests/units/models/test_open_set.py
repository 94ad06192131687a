"""The classifier that can say "none of these", and how a predictor offers it."""

import numpy as np
import pytest
import torch

from interlude.errors import UserError
from interlude.models import Backbone, OpenSetClassifier
from interlude.predictor import Predictor


class Same(Backbone):
    """Images are embeddings."""

    num_features = 6

    def forward(self, images, midway=None):
        return images


@pytest.fixture
def open_set(make):
    return decided(OpenSetClassifier.around(make()).eval())


def decided(model):
    torch.nn.init.normal_(model.open_head.weight, generator=torch.Generator().manual_seed(3))
    return model


def test_the_score_is_the_outlier_probability_at_the_predicted_class():
    model = decided(OpenSetClassifier(Same(), 3))
    z = torch.randn(8, 6, generator=torch.Generator().manual_seed(0))
    outputs = (z @ model.open_head.weight.T).detach().numpy()
    expected = []
    for row, label in zip(outputs, model(z).argmax(-1).tolist(), strict=True):
        no, yes = row[label], row[3 + label]
        expected.append(1 / (1 + np.exp(yes - no)))
    score = model.open_set_score(z)
    np.testing.assert_allclose(score.detach().numpy(), expected, rtol=1e-5)
    assert score.min() < 0.5 < score.max()


def test_the_linear_head_chooses_the_class(make, open_set, images):
    torch.testing.assert_close(open_set(images), make().eval()(images))


def test_the_one_vs_all_head_has_two_outputs_a_class_and_no_bias(open_set, images):
    assert open_set.open_logits(open_set.features(images)).shape == (len(images), 2, open_set.num_classes)
    assert open_set.open_head.bias is None


def test_a_fresh_head_is_undecided(make, images):
    score = OpenSetClassifier.around(make()).open_set_score(images)
    torch.testing.assert_close(score, torch.full((len(images),), 0.5))


def test_half_precision_gives_full_precision_scores(make, images):
    model = OpenSetClassifier.around(make(precision="bf16"))
    assert model.open_logits(model.features(images)).dtype == torch.float32


def predictor_of(model):
    return Predictor(model, mean=(0.5,) * 3, std=(0.2,) * 3, class_names=("a", "b", "c"))


def test_a_predictor_gives_the_score_of_each_image_alone(open_set):
    pixels = np.random.default_rng(0).integers(0, 256, (70, 16, 16, 3), dtype=np.uint8)
    predictor = predictor_of(open_set.train())
    scores = predictor.open_set_score(pixels)
    assert scores.shape == (70,)
    assert scores.dtype == np.float32
    alone = np.concatenate([predictor.open_set_score(image[None]) for image in pixels[60:]])
    np.testing.assert_allclose(scores[60:], alone, rtol=1e-4)
    assert open_set.training


def test_a_model_without_the_score_says_so(make):
    pixels = np.zeros((2, 16, 16, 3), dtype=np.uint8)
    with pytest.raises(UserError, match="no open-set score"):
        predictor_of(make()).open_set_score(pixels)
