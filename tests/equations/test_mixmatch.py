"""MixMatch: the algorithm box a second way, given the same draws, and what must hold of it."""

import by_hand
import numpy as np
import pytest
import torch
from stand_in import Bare, batch_of, gradients, labels_of, make
from torch import nn

from interlude.method import Clock
from interlude.methods import mixmatch
from interlude.methods.mixmatch import MixMatch, interleaved

GROUPS, MU, WIDTH = 4, 2, 5
LABELS = labels_of(GROUPS)


def linear(seed=0):
    head = nn.Linear(WIDTH, 3, dtype=torch.float64)
    nn.init.normal_(head.weight, generator=torch.Generator().manual_seed(seed))
    nn.init.zeros_(head.bias)
    return Bare(head)


def views_of(num_views=2, *, groups=GROUPS, mu=MU, width=WIDTH, seed=0):
    """Random x and `num_views` views of u."""
    generator = torch.Generator().manual_seed(seed)
    sizes = [groups, *[groups * mu] * num_views]
    return [torch.randn(rows, width, generator=generator, dtype=torch.float64) for rows in sizes]


def objective_of(method, views, y=LABELS, *, step=5, seed=0):
    """What the method yields on x and views of u, with the draws that follow from `seed`."""
    torch.manual_seed(seed)
    (objective,) = method.step(batch_of(views[:1], y, views[1:]), Clock(step, 10))
    return objective


def draws_of(alpha, rows, per="image", *, seed=0):
    """The mixup shares and the order of the rows that follow from `seed`."""
    torch.manual_seed(seed)
    share = torch.distributions.Beta(alpha, alpha).sample((rows,) if per == "image" else ())
    share = torch.maximum(share, 1 - share).double().numpy()
    return np.broadcast_to(share, (rows,)), torch.randperm(rows).numpy()


def guessed(views, weight, bias, temperature):
    """q: the mean over the views of the softmax, to the power 1/T, normalised."""
    labels = []
    for images in zip(*views, strict=True):
        p = sum(by_hand.softmax(weight @ image + bias) for image in images) / len(images)
        labels.append(p ** (1 / temperature) / (p ** (1 / temperature)).sum())
    return labels


def mixed(rows, share, order):
    return [s * row + (1 - s) * rows[o] for row, s, o in zip(rows, share, order, strict=True)]


def terms_of(rows, targets, at, factor, num_x=GROUPS):
    """Cross-entropy of the first rows; mean squared error of the others over rows and classes."""
    weight, bias = at
    labeled, squares = 0.0, []
    for i, (row, target) in enumerate(zip(rows, targets, strict=True)):
        logits = weight @ row + bias
        if i < num_x:
            labeled += by_hand.cross_entropy(logits, target) / num_x
        else:
            squares += [(p - t) ** 2 for p, t in zip(by_hand.softmax(logits), target, strict=True)]
    return {"supervised": labeled, "unlabeled": factor * sum(squares) / len(squares)}


def values(objective):
    return {name: term.item() for name, term in objective.terms.items()}


@pytest.mark.parametrize("interleave", [True, False])
@pytest.mark.parametrize("share", ["image", "batch"])
@pytest.mark.parametrize(
    ("num_views", "alpha", "temperature"), [(2, 0.75, 0.5), (3, 0.3, 0.8), (1, 2.0, 1.0)]
)
def test_terms_and_gradients_equal_the_loops(num_views, alpha, temperature, share, interleave):
    model = linear()
    options = {"alpha": alpha, "temperature": temperature, "share": share, "interleave": interleave}
    method = make(MixMatch, model=model, views=num_views, weight=20.0, ramp=0.5, **options)
    for step in range(0, 9, 2):
        views = views_of(num_views, seed=step)
        objective = objective_of(method, views, step=step, seed=step)

        at = [model.head.weight.detach().numpy().copy(), model.head.bias.detach().numpy().copy()]
        x, *u = (view.numpy() for view in views)
        q = guessed(u, *at, temperature)
        lam, order = draws_of(alpha, GROUPS * (1 + MU * num_views), share, seed=step)
        rows = mixed([row for view in (x, *u) for row in view], lam, order)
        targets = mixed([*np.eye(3)[LABELS], *q * num_views], lam, order)
        factor = 20.0 * min(1.0, step / 5)

        assert values(objective) == pytest.approx(terms_of(rows, targets, at, factor), abs=1e-10)
        generator = np.random.default_rng(step)
        direction = [generator.standard_normal(part.shape) for part in at]
        found = gradients(objective.loss, list(model.head.parameters()))
        slope = sum(float((g.numpy() * d).sum()) for g, d in zip(found, direction, strict=True))
        # targets, the guesses among them, are held fixed: no gradient flows through them
        expected = by_hand.slope(lambda at: sum(terms_of(rows, targets, at, factor).values()), at, direction)  # noqa: B023
        assert slope == pytest.approx(expected, abs=1e-7)
        with torch.no_grad():
            model.head.weight -= 0.1 * found[0]


def spied(method):
    """The method, and a list to which each of its mixings adds rows and targets before and after."""
    seen, mix = [], method.mix

    def spy(rows, targets):
        result = mix(rows, targets)
        seen.append((torch.cat(list(rows)), torch.cat(list(targets)), *result))
        return result

    method.mix = spy
    return method, seen


def test_mixed_targets_are_distributions():
    method, seen = spied(make(MixMatch, model=linear()))
    objective_of(method, views_of())
    ((_, _, _, targets),) = seen
    torch.testing.assert_close(targets.sum(-1), torch.ones(len(targets), dtype=torch.float64))
    assert (targets >= 0).all()


def test_a_share_of_one_leaves_cross_entropy_and_squared_error_of_the_images_themselves(monkeypatch):
    monkeypatch.setattr(mixmatch, "mixup_share", lambda alpha, *, rows, like: like.new_ones(rows))
    model, views = linear(), views_of()
    objective = objective_of(make(MixMatch, model=model, weight=7.0), views)
    logits = [model(view) for view in views]
    p = sum(z.softmax(-1) for z in logits[1:]) / 2
    q = p**2 / (p**2).sum(-1, keepdim=True)
    brier = torch.stack([(z.softmax(-1) - q).square() for z in logits[1:]]).mean()
    torch.testing.assert_close(objective.terms["supervised"], nn.functional.cross_entropy(logits[0], LABELS))
    torch.testing.assert_close(objective.terms["unlabeled"], 7 * brier)


def shares_found(seen):
    """By which share each row was mixed, from the rows before and after; 1 where it met itself."""
    ((rows, _, mixtures, _),) = seen
    found = []
    for row, mixture in zip(rows, mixtures, strict=True):
        fits = []
        for other in rows:
            line = row - other
            share = ((mixture - other) @ line / (line @ line).clamp_min(1e-12)).item()
            off = (other + share * line - mixture).norm().item()
            fits.append((off, share if line.any() else 1.0))
        found.append(min(fits)[1])
    return np.array(found)


def test_every_image_has_a_mixup_share_of_its_own():
    """A public implementation draws one share for the whole batch."""
    method, seen = spied(make(MixMatch, model=linear()))
    objective_of(method, views_of())
    shares = shares_found(seen)
    assert len(set(shares.round(6))) > len(shares) / 2
    assert (shares >= 0.5 - 1e-9).all(), "a row is no longer mostly itself"


def test_one_share_for_the_batch_on_request():
    method, seen = spied(make(MixMatch, model=linear(), share="batch"))
    objective_of(method, views_of())
    shares = shares_found(seen)
    assert len(set(shares[shares < 1].round(6))) == 1


def test_all_views_of_an_image_have_its_one_guess():
    method, seen = spied(make(MixMatch, model=linear(), views=3))
    objective_of(method, views_of(3))
    first, second, third = seen[0][1][GROUPS:].chunk(3)
    assert torch.equal(first, second)
    assert torch.equal(first, third)
    assert method.unlabeled == ("weak",) * 3


def test_at_the_first_step_only_the_labels_count_and_after_the_ramp_the_step_does_not():
    method, views = make(MixMatch, model=linear(), ramp=0.4), views_of()
    first = objective_of(method, views, step=0)
    assert first.terms["unlabeled"] == 0
    assert torch.equal(first.loss, first.terms["supervised"])
    later = [objective_of(method, views, step=step).loss for step in (4, 7, 9)]
    assert torch.equal(later[0], later[1])
    assert torch.equal(later[0], later[2])
    half, whole = (objective_of(method, views, step=step).terms["unlabeled"] for step in (2, 4))
    torch.testing.assert_close(half, whole / 2)


def test_the_squared_error_is_the_mean_over_classes(monkeypatch):
    """Classes that nobody predicts make the mean smaller, not the sum."""
    monkeypatch.setattr(mixmatch, "mixup_share", lambda alpha, *, rows, like: like.new_ones(rows))
    views = [torch.randn(4, 3).double() for _ in range(3)]
    wider = [torch.cat([view, torch.full((4, 3), -100.0)], dim=1) for view in views]
    narrow, wide = (
        objective_of(make(MixMatch, num_classes=k), at).terms["unlabeled"]
        for k, at in ((3, views), (6, wider))
    )
    assert narrow > 0
    torch.testing.assert_close(wide, narrow / 2)


# Passes and BatchNorm


@pytest.mark.parametrize(("chunks", "size"), [(3, 64), (3, 4), (5, 4), (7, 16), (4, 3), (1, 5)])
def test_interleaving_puts_a_part_of_every_chunk_into_the_first(chunks, size):
    order = interleaved(chunks * size, size)
    assert torch.equal(order[order], torch.arange(chunks * size)), "it must be its own inverse"
    origin = order.view(chunks, size) // size
    assert len(set(origin[0].tolist())) == min(chunks, size)
    counts = torch.bincount(origin[0], minlength=chunks)
    assert counts.max() - counts.min() <= 1, "the parts are as equal as can be"
    for chunk in range(1, chunks):
        assert set(origin[chunk].tolist()) <= {0, chunk}


class Counting(Bare):
    """Notes the rows of each pass, and whether it was made for a gradient."""

    def __init__(self, **parts):
        super().__init__(**parts)
        self.passes = []

    def forward(self, images, midway=None, at="embedding"):
        self.passes.append((len(images), torch.is_grad_enabled()))
        return super().forward(images, midway, at)


def test_no_pass_is_wasted():
    """A public implementation passes the labeled images once more and drops the result."""
    model = Counting()
    objective_of(make(MixMatch, model=model), views_of(width=3))
    assert model.passes == [(2 * GROUPS * MU, False), *[(GROUPS, True)] * (1 + 2 * MU)]


def normed():
    return Bare(body=nn.BatchNorm1d(3, momentum=1.0, dtype=torch.float64))


@pytest.mark.parametrize("interleave", [True, False])
def test_batchnorm_records_the_first_chunk_alone(interleave):
    model = normed()
    method, seen = spied(make(MixMatch, model=model, interleave=interleave))
    objective_of(method, views_of(width=3))
    ((_, _, rows, _),) = seen
    order = interleaved(len(rows), GROUPS) if interleave else torch.arange(len(rows))
    torch.testing.assert_close(model.body.running_mean, rows[order][:GROUPS].mean(0))
    assert model.body.num_batches_tracked == 1


def test_each_chunk_is_normalised_by_itself_and_comes_back_to_its_place():
    model, rows = normed(), torch.randn(12, 3, dtype=torch.float64)
    logits = make(MixMatch, model=model).predict(rows, size=4)
    order = interleaved(12, 4)
    expected = torch.empty_like(rows)
    for chunk in order.split(4):
        part = rows[chunk]
        expected[chunk] = (part - part.mean(0)) / (part.var(0, correction=0) + 1e-5).sqrt()
    torch.testing.assert_close(logits, expected)


# Labels


def test_soft_labels_are_mixed_as_hard_ones_are():
    views, method = views_of(), make(MixMatch, model=linear())
    soft = nn.functional.one_hot(LABELS, 3).double()
    torch.testing.assert_close(objective_of(method, views, soft).loss, objective_of(method, views).loss)


def test_class_weights_weigh_the_mixed_labels():
    weights = (0.2, 0.5, 0.3)
    method, seen = spied(make(MixMatch, model=linear(), class_weights=weights))
    objective = objective_of(method, views_of())
    ((_, _, rows, targets),) = seen
    log_p = method.model(rows[:GROUPS]).log_softmax(-1)
    share = targets[:GROUPS] * torch.tensor(weights).double()
    torch.testing.assert_close(objective.terms["supervised"], -(share * log_p).sum() / share.sum())


def test_the_method_keeps_nothing_from_step_to_step():
    method, views = make(MixMatch), views_of(width=3)
    assert not method.state_dict()
    assert torch.equal(objective_of(method, views).loss, objective_of(method, views).loss)
    assert not torch.equal(objective_of(method, views).loss, objective_of(method, views, seed=1).loss)


def test_the_defaults_are_those_of_the_paper():
    cfg = MixMatch.Config()
    assert (cfg.weight, cfg.alpha, cfg.temperature, cfg.ramp, cfg.views) == (75, 0.75, 0.5, 1 / 64, 2)
    assert MixMatch.mu == 1
