"""FeatMatch: both phases a second way, prototypes and bank carried along, and what must hold of it."""

import math

import by_hand
import numpy as np
import pytest
import torch
from stand_in import gradients
from torch import nn

from interlude import testing
from interlude.loop import fit
from interlude.method import Batch, Clock, Task
from interlude.methods import featmatch
from interlude.methods.featmatch import FeatMatch
from interlude.models import Backbone, Classifier

GROUPS, MU, WIDTH, CLASSES, HEADS = 3, 4, 4, 3, 2
ROWS_U = GROUPS * MU
POOL = 40
STRONG = 2
LABELS = torch.arange(6) % CLASSES
Y = torch.arange(GROUPS)


class Same(Backbone):
    """Images are embeddings."""

    num_features = WIDTH

    def __init__(self, body=None):
        super().__init__()
        self.body = body or nn.Identity()

    def forward(self, images, midway=None):
        return self.body(images)


def random(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def near_classes(classes, *, seed, scale=2.0):
    """Embeddings that the head below takes for these classes."""
    rows = scale * nn.functional.one_hot(classes, WIDTH).double()
    return (rows + 0.3 * random(*rows.shape, seed=seed)).abs()


def make(*, body=None, pool=POOL, dropout=0.0, **options):
    """The method over embeddings; its head reads the class from the place of the largest one."""
    torch.manual_seed(0)
    kinds = []
    labeled = near_classes(LABELS, seed=77)

    def sweep(images, kind):
        kinds.append(kind)
        return iter(images.split(4))

    task = Task(CLASSES, LABELS, labeled=labeled, unlabeled=range(pool), sweep=sweep)
    settings = {"num_strong": STRONG, "num_prototypes": 4, "num_heads": HEADS} | options
    method = FeatMatch(FeatMatch.Config(name="featmatch", **settings), Classifier(Same(body), CLASSES), task)
    method = method.double().train()
    with torch.no_grad():
        method.model.head.weight.copy_(1.5 * torch.eye(CLASSES, WIDTH) + 0.2 * random(CLASSES, WIDTH, seed=5))
        method.model.attention.out.weight.mul_(0.5)
    method.model.attention.dropout.p = dropout
    method.kinds = kinds
    return method


def views_of(step):
    """The views of x, then of u; the last unlabeled row is of no class."""
    classes_u = torch.arange(ROWS_U) % CLASSES
    x = [near_classes(Y, seed=100 * step + i) for i in range(1 + STRONG)]
    u = [near_classes(classes_u, seed=100 * step + 50 + i) for i in range(1 + STRONG)]
    u[0][-1] *= 0.05
    return [view.requires_grad_() for view in x], [view.requires_grad_() for view in u]


def step_of(method, step, *, views=None, y=Y, total=10):
    x, u = views or views_of(step)
    rows_u = torch.arange(len(u[0]))
    (objective,) = method.step(Batch(tuple(x), y, tuple(u), torch.arange(len(y)), rows_u), Clock(step, total))
    return objective


def fixed_draws(monkeypatch, step):
    """One share and one order, known to the test."""
    share, rows = 0.6 + 0.05 * step, (GROUPS + ROWS_U) * (1 + STRONG)
    order = np.random.default_rng(step).permutation(rows)
    monkeypatch.setattr(
        featmatch, "mixup_share", lambda alpha, *, like: torch.tensor(share, dtype=like.dtype)
    )
    monkeypatch.setattr(torch, "randperm", lambda n: torch.from_numpy(order))
    return share, order


def weights_of(model):
    attention = model.attention
    parts = [model.head, attention.embed, *attention.merge, attention.out]
    return [parameter for part in parts for parameter in (part.weight, part.bias)]


def arrays(tensors):
    return [tensor.detach().numpy().copy() for tensor in tensors]


def refine(f, prototypes, weights):
    """f_g = ReLU(f + W_o [r_1, r_2]) with r_i = ReLU(W_i [a E_i P; E_i f]); f itself without prototypes."""
    if not len(prototypes):
        return f
    embed, embed_bias, *merges, out, out_bias = weights[2:]
    width = WIDTH // HEADS
    heads = []
    for i in range(HEADS):
        rows = slice(i * width, (i + 1) * width)
        own = embed[rows] @ f + embed_bias[rows]
        known = [embed[rows] @ p + embed_bias[rows] for p in prototypes]
        a = by_hand.softmax(np.array([own @ k / math.sqrt(width) for k in known]))
        found = sum(a_p * k for a_p, k in zip(a, known, strict=True))
        heads.append(np.maximum(merges[2 * i] @ np.concatenate([found, own]) + merges[2 * i + 1], 0))
    return np.maximum(f + out @ np.concatenate(heads) + out_bias, 0)


def classify(f, weights):
    return weights[0] @ f + weights[1]


class Memory:
    """Prototypes, and what was recorded since they were found."""

    def __init__(self, labeled):
        self.labeled, self.prototypes, self.recorded, self.kept = labeled, [], [], None

    def record(self, u_weak, weights):
        for f in u_weak:
            self.recorded.append((f, by_hand.softmax(classify(refine(f, self.prototypes, weights), weights))))

    def renew(self, threshold):
        """Of four in a class: mean and one centroid (the mean) of both kinds, or mean and labeled rows."""
        self.kept = None
        for _ in range(5):
            kept = [(f, q.argmax()) for f, q in self.recorded if q.max() > threshold]
            if all(sum(label == c for _, label in kept) > 4 for c in range(CLASSES)):
                self.kept = kept
                break
            threshold /= 2
        self.prototypes = []
        for c in range(CLASSES):
            own = self.labeled[LABELS.numpy() == c]
            if self.kept is None:
                self.prototypes += [own.mean(0), *own]
            else:
                others = np.mean([f for f, label in self.kept if label == c], axis=0)
                self.prototypes += [own.mean(0), own.mean(0), others, others]
        self.recorded = []


def terms_by_hand(at, fixed, options):
    """The terms at arrays (views of x, views of u, weights) with targets, draws and prototypes held fixed."""
    num_views = 2 * (1 + STRONG)
    views, weights = at[:num_views], at[num_views:]
    images, target = np.concatenate(views), fixed["target"]
    share, order = fixed["draws"]
    sums = {"supervised": [], "unlabeled": [], "graph": []}
    for row in range(len(images)):
        f = share * images[row] + (1 - share) * images[order[row]]
        t = share * target[row] + (1 - share) * target[order[row]]
        refined = by_hand.cross_entropy(classify(refine(f, fixed["prototypes"], weights), weights), t)
        if row < GROUPS * (1 + STRONG):
            sums["supervised"].append(refined)
        else:
            sums["unlabeled"].append(refined)
            sums["graph"].append(by_hand.cross_entropy(classify(f, weights), t))
    means = {name: np.mean(values) for name, values in sums.items()}
    return {
        "supervised": means["supervised"],
        "unlabeled": fixed["ramp"] * options["weight"] * means["unlabeled"],
        "graph": fixed["ramp"] * options["graph_weight"] * means["graph"] if fixed["prototypes"] else 0.0,
    }


OPTIONS = {"weight": 0.4, "graph_weight": 1.5}


def test_both_phases_equal_the_loops_over_six_steps(monkeypatch):
    """Plain in steps 0 and 1; prototypes from labels alone in 2 and 3, from recorded rows too in 4 and 5."""
    method = make(start=0.2, ramp=0.5, period=2 * ROWS_U / POOL, temperature=0.6, **OPTIONS)
    model = method.model
    memory = Memory(method.task.labeled.numpy())
    for step in range(6):
        draws = fixed_draws(monkeypatch, step)
        x, u = views_of(step)
        leaves = [*x, *u, *weights_of(model)]
        at = arrays(leaves)
        weights = at[len(x) + len(u) :]
        u_weak = at[len(x)]
        if step in (2, 4):
            memory.renew(method.cfg.threshold)
        objective = step_of(method, step, views=(x, u))
        if step >= 2:
            memory.record(u_weak, weights)
        assert (memory.kept is not None) == (step >= 4)
        assert memory.kept is None or 0 < len(memory.kept) < 2 * ROWS_U, "this does not test the threshold"
        np.testing.assert_allclose(
            model.prototypes[model.valid].numpy().reshape(-1, WIDTH),
            np.reshape(memory.prototypes, (-1, WIDTH)),
        )
        assert int(method.recorded) == len(memory.recorded)
        for slot, (f, q) in enumerate(memory.recorded):
            np.testing.assert_allclose(method.bank[slot].numpy(), f)
            assert method.bank_confidence[slot].item() == pytest.approx(q.max())
            assert method.bank_label[slot].item() == q.argmax()

        guesses = [by_hand.softmax(classify(refine(f, memory.prototypes, weights), weights)) for f in u_weak]
        q = np.stack([g ** (1 / 0.6) / (g ** (1 / 0.6)).sum() for g in guesses])
        fixed = {
            "target": np.concatenate([np.eye(CLASSES)[Y.numpy()]] * (1 + STRONG) + [q] * (1 + STRONG)),
            "draws": draws,
            "ramp": min(1, step / 5),
            "prototypes": memory.prototypes,
        }
        expected = terms_by_hand(at, fixed, OPTIONS)
        terms = {name: term.item() for name, term in objective.terms.items()}
        assert terms == pytest.approx(expected, abs=1e-10)

        direction = [random(*leaf.shape, seed=i).numpy() for i, leaf in enumerate(leaves)]
        slope = by_hand.slope(
            lambda at, fixed=fixed: sum(terms_by_hand(at, fixed, OPTIONS).values()), at, direction
        )
        found = gradients(objective.loss, leaves)
        ours = sum((g.numpy() * d).sum() for g, d in zip(found, direction, strict=True))
        assert ours == pytest.approx(slope, abs=1e-6)
        with torch.no_grad():
            for weight, gradient in zip(leaves[len(x) + len(u) :], found[len(x) + len(u) :], strict=True):
                weight -= 0.05 * gradient


def test_defaults_are_the_released_ones():
    cfg = FeatMatch.Config(name="featmatch")
    assert (cfg.weight, cfg.graph_weight, cfg.temperature, cfg.mixup_alpha) == (0.5, 2.0, 0.75, 0.75)
    assert (cfg.num_prototypes, cfg.num_heads, cfg.threshold) == (20, 4, 0.5)
    assert FeatMatch.labeled == FeatMatch.unlabeled == ("weak", *["strong"] * 8)
    assert FeatMatch.mu == 2
    steps = 183_000
    assert Clock(37_500, steps).ramp(cfg.ramp) == pytest.approx(0.5)
    assert math.ceil(cfg.start * steps - 1e-6) == 3000
    method = make(pool=50_000, bank=4)
    assert method.period(Batch((), Y, (), Y, torch.arange(128))) == 500


@pytest.mark.parametrize("num_strong", [0, 2, 8])
def test_fewer_strong_views_can_be_asked_for(num_strong):
    run = testing.toy_run(FeatMatch, num_strong=num_strong)
    views = ("weak", *["strong"] * num_strong)
    assert run.method.labeled == run.method.unlabeled == views
    batch = run.batch(0)
    assert len(batch.x) == len(batch.u) == 1 + num_strong


def test_fewer_labels_than_a_batch_holds_train(monkeypatch):
    """The released sampler waits for ever then."""
    run = testing.toy_run(FeatMatch, split=testing.toy_split(num_labeled=3), num_strong=1)
    assert len(run.split.labeled) < run.cfg.batch
    fit(run)
    assert run.method.model.valid.any()
    testing.assert_finite(run, "with three labels")


def test_targets_take_no_gradient_and_their_pass_is_over_weak_unlabeled_views(monkeypatch):
    """The released code makes its first pass over all views, with a graph that nothing uses."""
    method = make(start=0.0)
    seen = []
    features = method.model.features
    monkeypatch.setattr(
        method.model,
        "features",
        lambda images: seen.append((len(images), torch.is_grad_enabled())) or features(images),
    )
    step_of(method, 0)
    sweep, targets, mixed = seen[:-2], seen[-2], seen[-1]
    assert sum(rows for rows, _ in sweep) == len(LABELS)
    assert targets == (ROWS_U, False)
    assert mixed == ((GROUPS + ROWS_U) * (1 + STRONG), True)


def test_the_refined_prediction_is_the_target(monkeypatch):
    """Not the plain one, once there are prototypes."""
    fixed_draws(monkeypatch, 0)
    method = make(start=0.0, ramp=0.0)
    with torch.no_grad():
        method.model.attention.out.weight.mul_(20)
    x, u = views_of(0)
    refined = method.predict(u[0], record=False)  # no prototypes yet: plain
    step_of(method, 0, views=(x, u))
    torch.testing.assert_close(refined, method.model.classify(u[0]).softmax(-1))
    assert not torch.allclose(method.predict(u[0], record=False), refined)


def test_the_plain_prediction_is_trained_beside_the_refined_one():
    """The graph term: without it the embeddings that make prototypes would not be held together."""
    method = make(start=0.0, ramp=0.0)
    objective = step_of(method, 0)
    plain = gradients(objective.terms["graph"], list(method.model.attention.parameters()))
    refined = gradients(objective.terms["unlabeled"], list(method.model.attention.parameters()))
    assert not any(gradient.any() for gradient in plain)
    assert all(gradient.any() for gradient in refined)


def test_there_is_no_graph_term_before_prototypes():
    objective = step_of(make(start=0.5, ramp=0.0), 3)
    assert objective.terms["graph"].item() == 0
    assert objective.terms["unlabeled"].item() > 0


def test_unlabeled_terms_grow_with_the_ramp(monkeypatch):
    fixed_draws(monkeypatch, 0)
    start, half, whole = (step_of(make(start=0.0, ramp=0.5), step, total=4) for step in (0, 1, 2))
    again = step_of(make(start=0.0, ramp=0.25), 1, total=4)
    for term in ("unlabeled", "graph"):
        assert start.terms[term].item() == 0
        torch.testing.assert_close(2 * half.terms[term], again.terms[term])
        assert whole.terms[term].item() > half.terms[term].item() > 0


def test_labels_may_be_soft():
    torch.manual_seed(1)
    hard = step_of(make(), 1).loss
    torch.manual_seed(1)
    soft = step_of(make(), 1, y=nn.functional.one_hot(Y, CLASSES).double()).loss
    torch.testing.assert_close(hard, soft)


def confident(method, confidences, labels):
    """What the bank gives when it holds rows with these confidences and labels."""
    rows = len(labels)
    method.bank[:rows] = torch.arange(rows, dtype=torch.float64)[:, None]
    method.bank_confidence[:rows] = torch.as_tensor(confidences, dtype=torch.float64)
    method.bank_label[:rows] = torch.as_tensor(labels)
    method.recorded.fill_(rows)
    z, label = method.confident()
    return z[:, 0].int().tolist(), label.tolist()


def test_the_threshold_is_halved_until_each_class_has_enough():
    method = make(num_prototypes=4)  # more than 4 rows of each class
    labels = [c for c in range(CLASSES) for _ in range(6)]
    sure = [0.9] * 18
    assert confident(method, sure, labels) == (list(range(18)), labels)
    some = [0.9] * 12 + [0.3] * 5 + [0.2]  # the last class passes 0.25 but not 0.5
    assert confident(method, some, labels) == (list(range(17)), labels[:17])
    assert confident(method, [0.9] * 12 + [0.5 / 16 + 1e-6] * 6, labels)[0] == list(range(18))  # the fifth
    assert confident(method, [0.9] * 12 + [0.5 / 16] * 6, labels) == ([], [])
    assert confident(method, [0.9] * 12 + [0.9] * 4 + [0.01] * 2, labels) == ([], [])  # 4 are not more than 4


def test_prototypes_are_half_from_labels_and_no_more_than_there_is_room_for():
    method = make(num_prototypes=8)
    labels = [c for c in range(CLASSES) for _ in range(13)]
    method.bank[: len(labels)] = near_classes(torch.tensor(labels), seed=3)
    method.bank_confidence[: len(labels)], method.bank_label[: len(labels)] = 0.9, torch.tensor(labels)
    method.recorded.fill_(len(labels))
    method.renew_prototypes(seed=0)
    per_class = method.model.prototypes.view(CLASSES, 8, WIDTH)
    assert method.model.valid.all()
    for c in range(CLASSES):
        own = method.task.labeled[
            method.task.labels == c
        ]  # two rows: their mean and both, fewer than half of 8
        torch.testing.assert_close(per_class[c, :3], torch.cat([own.mean(0, keepdim=True), own]))
        torch.testing.assert_close(per_class[c, 3], method.bank[c * 13 : (c + 1) * 13].mean(0))
        assert len(per_class[c, 4:].unique(dim=0)) == 4  # the rest are centroids
    assert method.recorded == 0, "what was recorded is used once"


def test_the_same_step_finds_the_same_prototypes():
    """The released k-means is not seeded."""
    found = []
    for _ in range(2):
        method = make(num_prototypes=8)
        labels = torch.arange(39) % CLASSES
        method.bank[:39] = near_classes(labels, seed=3)
        method.bank_confidence[:39], method.bank_label[:39] = 0.9, labels
        method.recorded.fill_(39)
        method.renew_prototypes(seed=7)
        found.append(method.model.prototypes)
    assert torch.equal(*found)


def test_labeled_images_are_swept_as_they_are_in_evaluation_mode():
    method = make(body=nn.BatchNorm1d(WIDTH))
    before = {name: value.clone() for name, value in method.model.backbone.state_dict().items()}
    method.renew_prototypes(seed=0)
    assert method.kinds == ["plain"]
    assert method.model.training
    after = method.model.backbone.state_dict()
    assert all(torch.equal(value, after[name]) for name, value in before.items())
    scale = 1 / math.sqrt(1 + 1e-5)  # of a fresh BatchNorm in evaluation mode
    torch.testing.assert_close(method.model.prototypes[0], scale * method.task.labeled[LABELS == 0].mean(0))


@pytest.mark.parametrize("size", [5, 12, 20])
def test_the_bank_keeps_the_last_rows(size):
    method = make(bank=size)
    rows = torch.cat([near_classes(torch.arange(ROWS_U) % CLASSES, seed=i) for i in range(3)])
    for batch in rows.split(ROWS_U):
        method.predict(batch, record=True)
    assert len(method.bank) == size
    kept = {tuple(row) for row in method.bank.tolist()}
    assert kept == {tuple(row) for row in rows[-size:].tolist()}
    assert method.recorded == len(rows)


def test_the_bank_is_no_larger_than_the_pool():
    assert len(make(pool=7).bank) == 7


def test_nothing_is_recorded_before_there_are_prototypes():
    method = make(start=0.5)
    step_of(method, 1)
    assert method.recorded == 0
    assert not method.model.valid.any()


def test_the_averaged_model_predicts_with_the_prototypes():
    run = testing.toy_run(FeatMatch, num_strong=1)
    fit(run)
    images = next(run.batches.sweep(run.split.unlabeled, "plain"))
    model = run.ema.model
    with torch.no_grad():
        assert not torch.allclose(model(images), model.classify(model.features(images)))
    assert torch.equal(model.prototypes, run.method.model.prototypes)


def test_a_batch_of_equal_embeddings_is_survived():
    method = make(start=0.0)
    views = [[torch.ones_like(view, requires_grad=True) for view in group] for group in views_of(0)]
    for step in range(3):
        objective = step_of(method, step, views=views)
        assert objective.loss.isfinite()
