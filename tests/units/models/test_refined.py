"""The classifier with prototypes: its formula in loops, what it ignores, and how prototypes are found."""

import copy
import math

import numpy as np
import pytest
import torch

from interlude.models import Backbone, Classifier, RefinedClassifier, prototypes_of
from interlude.parts.ema import Ema

WIDTH, HEADS, CLASSES = 6, 2, 3


class Same(Backbone):
    """Images are embeddings."""

    num_features = WIDTH

    def forward(self, images, midway=None):
        return images


@pytest.fixture
def refined():
    torch.manual_seed(0)
    plain = Classifier(Same(), CLASSES)
    return RefinedClassifier.around(plain, num_heads=HEADS, num_prototypes=5).double().eval()


@pytest.fixture
def z():
    return torch.randn(4, WIDTH, generator=torch.Generator().manual_seed(1), dtype=torch.float64)


def some_prototypes(count, seed=2):
    return torch.randn(count, WIDTH, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def refined_by_hand(attention, f, prototypes):
    """f_g = ReLU(f + W_o [r_1 ..]), r_i = ReLU(W_i [a E_i P; E_i f]), a = softmax(E_i f . E_i P / sqrt d)."""
    width = WIDTH // HEADS
    weight, bias = (value.detach().numpy() for value in (attention.embed.weight, attention.embed.bias))
    heads = []
    for i in range(HEADS):
        rows = slice(i * width, (i + 1) * width)
        own = weight[rows] @ f + bias[rows]
        known = [weight[rows] @ p + bias[rows] for p in prototypes]
        scores = np.exp([own @ k / math.sqrt(width) for k in known])
        found = sum(a * k for a, k in zip(scores / scores.sum(), known, strict=True))
        merge = attention.merge[i]
        r = merge.weight.detach().numpy() @ np.concatenate([found, own]) + merge.bias.detach().numpy()
        heads.append(np.maximum(r, 0))
    out = attention.out.weight.detach().numpy() @ np.concatenate(heads) + attention.out.bias.detach().numpy()
    return np.maximum(f + out, 0)


def test_refined_embeddings_equal_the_loops(refined, z):
    prototypes = some_prototypes(3)
    refined.set_prototypes(prototypes)
    expected = np.stack([refined_by_hand(refined.attention, f, prototypes.numpy()) for f in z.numpy()])
    np.testing.assert_allclose(refined.refine(z).detach().numpy(), expected, atol=1e-12)
    assert not np.allclose(expected, z.numpy())


def test_it_predicts_with_refined_embeddings(refined, z):
    refined.set_prototypes(some_prototypes(3))
    torch.testing.assert_close(refined(z), refined.head(refined.refine(z)))
    assert not torch.allclose(refined(z), refined.head(z))


def test_without_prototypes_it_is_the_plain_classifier(refined, z):
    torch.testing.assert_close(refined(z), refined.head(z), rtol=0, atol=0)
    refined(z).sum().backward()
    gradients = [parameter.grad for parameter in refined.attention.parameters()]
    assert all(gradient is not None and not gradient.any() for gradient in gradients)


def test_empty_slots_are_not_looked_at(refined, z):
    refined.set_prototypes(some_prototypes(3))
    before = refined(z)
    refined.prototypes[3:] = 1e3
    torch.testing.assert_close(refined(z), before, rtol=0, atol=0)


def test_new_prototypes_replace_all_old_ones(refined, z):
    fresh = copy.deepcopy(refined)
    refined.set_prototypes(some_prototypes(5))
    for model in (refined, fresh):
        model.set_prototypes(some_prototypes(2, seed=9))
    torch.testing.assert_close(refined(z), fresh(z), rtol=0, atol=0)
    assert refined.valid.tolist() == [True, True, False, False, False]


def test_a_prediction_does_not_depend_on_batch_mates(refined, z):
    refined.set_prototypes(some_prototypes(4))
    torch.testing.assert_close(refined(z), torch.cat([refined(row[None]) for row in z]))


def test_the_embedding_of_prototypes_is_trained_though_they_are_not(refined):
    refined.set_prototypes(some_prototypes(3))
    refined.attention.merge[0].weight.data[:, WIDTH // HEADS :] = (
        0  # what was found is all that is left of a row
    )
    refined.refine(torch.zeros(1, WIDTH, dtype=torch.float64)).sum().backward()
    assert refined.attention.embed.weight.grad.any()
    assert not refined.prototypes.requires_grad


def test_attention_drops_some_prototypes_in_training_only(refined, z):
    refined.set_prototypes(some_prototypes(5))
    assert torch.equal(refined(z), refined(z))
    refined.train()
    assert not torch.equal(refined(z), refined(z))


def test_it_keeps_backbone_head_and_precision_of_the_plain_classifier():
    plain = Classifier(Same(), CLASSES, precision="bf16")
    model = RefinedClassifier.around(plain, num_prototypes=2)
    assert (model.backbone, model.head, model.precision) == (plain.backbone, plain.head, "bf16")
    model.set_prototypes(torch.randn(2, WIDTH))
    assert model(torch.randn(3, WIDTH)).dtype == torch.float32


def test_an_average_has_the_prototypes_of_the_model_it_follows(refined, z):
    ema = Ema(refined, 0.5)
    refined.set_prototypes(some_prototypes(3))
    ema.update(refined)
    torch.testing.assert_close(ema.model(z), refined(z))


def clusters(sizes, *, spread=0.01, seed=0):
    """Rows in as many directions as there are sizes, of different lengths."""
    generator = torch.Generator().manual_seed(seed)
    rows = []
    for axis, size in enumerate(sizes):
        noise = torch.randn(size, WIDTH, generator=generator) * spread
        lengths = 1 + 4 * torch.rand(size, 1, generator=generator)
        rows.append(lengths * (torch.eye(WIDTH)[axis] + noise))
    return torch.cat(rows)


def test_prototypes_are_the_mean_and_the_raw_means_of_clusters_of_directions():
    sizes = [4, 7, 5]
    z = clusters(sizes)
    found = prototypes_of(z, 4, seed=0)
    torch.testing.assert_close(found[0], z.mean(0))
    expected = [rows.mean(0) for rows in z.split(sizes)]  # of the rows, not of their directions
    for mean in expected:
        assert ((found[1:] - mean).abs().amax(1) < 1e-5).sum() == 1


def test_where_there_are_few_rows_all_are_prototypes():
    z = clusters([2, 1])
    torch.testing.assert_close(prototypes_of(z, 4, seed=0), torch.cat([z.mean(0, keepdim=True), z]))
    assert len(prototypes_of(z[:0], 4, seed=0)) == 0


def test_the_same_seed_finds_the_same_prototypes():
    z = torch.randn(60, WIDTH, generator=torch.Generator().manual_seed(0))
    assert torch.equal(prototypes_of(z, 9, seed=5), prototypes_of(z, 9, seed=5))
    assert len(prototypes_of(z, 9, seed=5)) == 9


def test_rows_that_repeat_and_rows_that_are_no_numbers_do_not_stop_it(recwarn):
    assert prototypes_of(torch.ones(8, WIDTH), 4, seed=0).isfinite().all()
    assert prototypes_of(torch.full((8, WIDTH), math.nan), 4, seed=0).isnan().all()
    assert not recwarn.list
