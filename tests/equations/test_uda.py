"""UDA: the loss a second way, its annealing of labeled rows, and what must hold of it."""

import by_hand
import numpy as np
import pytest
import torch
from stand_in import Bare, batch_of, four_views, gradients, labels_of, make, objective_of
from torch import nn

from interlude.loop import fit
from interlude.method import Clock
from interlude.methods.fixmatch import FixMatch
from interlude.methods.uda import UDA, released
from interlude.testing import toy_run

GROUPS, MU = 4, 3
LABELS = labels_of(GROUPS)
WEIGHTS = (0.2, 0.5, 0.3)


def uda_of(views, y=LABELS, *, step=0, class_weights=None, **options):
    return objective_of(make(UDA, class_weights=class_weights, **options), views, y, step=step)


def sharpened(row, temperature):
    """Each probability to the power 1/T, normalised."""
    power = by_hand.softmax(row) ** (1 / temperature)
    return power / power.sum()


def eta(schedule, t, num_classes=3):
    """The thresholds of the paper's appendix, from 1/K to 1."""
    alpha = {"linear": t, "log": 1 - np.exp(-t * 5), "exp": np.exp((t - 1) * 5)}[schedule]
    return alpha * (1 - 1 / num_classes) + 1 / num_classes


def kept_of(x, y, threshold):
    return np.array([by_hand.softmax(row)[label] <= threshold for row, label in zip(x, y, strict=True)])


def annealed(x, y, kept, weights=(1, 1, 1)):
    """The mean cross-entropy of the rows that are kept."""
    rows = [
        (weights[label], by_hand.cross_entropy(row, label))
        for row, label, keep in zip(x, y, kept, strict=True)
        if keep
    ]
    return sum(w * loss for w, loss in rows) / sum(w for w, _ in rows) if rows else 0.0


@pytest.mark.parametrize("entropy_weight", [0.0, 0.3])
@pytest.mark.parametrize("tsa", ["none", "linear", "log", "exp"])
@pytest.mark.parametrize(("threshold", "temperature"), [(0.6, 0.4), (0.8, 0.9), (0.7, 1.0)])
def test_terms_and_gradients_equal_the_loops(threshold, temperature, tsa, entropy_weight):
    head = nn.Linear(5, 3, dtype=torch.float64)
    nn.init.normal_(head.weight, generator=torch.Generator().manual_seed(0))
    nn.init.zeros_(head.bias)
    options = {"threshold": threshold, "temperature": temperature, "weight": 0.7, "tsa": tsa}
    method = make(UDA, model=Bare(head), entropy_weight=entropy_weight, **options)
    for step in (1, 4, 8):
        views = four_views(GROUPS, MU, 5, seed=step, scale=1.0)
        objective = objective_of(method, views, LABELS, step=step)
        x, _, weak, strong = (view.detach().numpy() for view in views)
        at = [head.weight.detach().numpy().copy(), head.bias.detach().numpy().copy()]

        logits_x, logits_weak = (view @ at[0].T + at[1] for view in (x, weak))
        target = np.stack([sharpened(row, temperature) for row in logits_weak])
        mask = by_hand.softmaxes(logits_weak).max(1) > threshold
        assert 0 < mask.sum() < len(mask), "this batch does not test the mask"
        kept = kept_of(logits_x, LABELS, 2.0 if tsa == "none" else eta(tsa, step / 10))

        def terms(at, target=target, mask=mask, kept=kept, x=x, weak=weak, strong=strong):
            x, weak, strong = (view @ at[0].T + at[1] for view in (x, weak, strong))
            entropy = np.mean([by_hand.cross_entropy(row, by_hand.softmax(row)) for row in weak])
            found = {
                "supervised": annealed(x, LABELS.numpy(), kept),
                "unlabeled": 0.7 * by_hand.unlabeled(strong, target, mask),
            }
            return found | ({"entropy": entropy_weight * entropy} if entropy_weight else {})

        assert {name: term.item() for name, term in objective.terms.items()} == pytest.approx(
            terms(at), abs=1e-10
        )
        assert objective.logged["mask"].item() == pytest.approx(mask.mean())
        generator = np.random.default_rng(step)
        direction = [generator.standard_normal(part.shape) for part in at]
        found = gradients(objective.loss, list(head.parameters()))
        slope = sum(float((g.numpy() * d).sum()) for g, d in zip(found, direction, strict=True))
        expected = by_hand.slope(lambda at, terms=terms: sum(terms(at).values()), at, direction)
        assert slope == pytest.approx(expected, abs=1e-7)
        with torch.no_grad():
            head.weight -= 0.1 * found[0]


# Sharpening


def test_the_temperature_sharpens_the_target():
    """A public implementation is given a temperature and never applies it."""
    weak = torch.tensor([[0.6, 0.3, 0.1], [0.4, 0.3, 0.3]], dtype=torch.float64).log()
    x, strong = torch.zeros(2, 3).double(), torch.tensor([[2.0, 0, 1], [0, 1, 0]]).double()
    sharp, plain = (
        uda_of([x, x, weak, strong], labels_of(2), threshold=0.5, temperature=t) for t in (0.4, 1.0)
    )
    assert sharp.logged["mask"] == plain.logged["mask"] == 0.5
    q = np.array([0.6, 0.3, 0.1]) ** 2.5
    log_p = np.log(by_hand.softmax(strong[0].numpy()))
    assert sharp.terms["unlabeled"].item() == pytest.approx(-(q / q.sum() @ log_p) / 2)
    assert plain.terms["unlabeled"] - sharp.terms["unlabeled"] > 0.1


def test_a_temperature_of_one_is_the_plain_prediction():
    views = four_views(GROUPS, MU)
    q = views[2].softmax(-1).detach()
    mask = q.max(-1).values > 0.8
    expected = (nn.functional.cross_entropy(views[3], q, reduction="none") * mask).mean()
    torch.testing.assert_close(uda_of(views, temperature=1.0).terms["unlabeled"], expected)


def test_a_temperature_near_zero_gives_the_loss_of_fixmatch():
    views = four_views(GROUPS, MU)
    ours, theirs = uda_of(views, temperature=1e-4), objective_of(make(FixMatch, threshold=0.8), views, LABELS)
    assert 0 < ours.logged["mask"] < 1, "this batch does not test the mask"
    torch.testing.assert_close(ours.terms["unlabeled"], theirs.terms["unlabeled"])
    torch.testing.assert_close(ours.loss, theirs.loss)


def test_the_mask_looks_at_the_prediction_before_sharpening():
    weak = torch.tensor([[0.7, 0.2, 0.1], [0.85, 0.1, 0.05]], dtype=torch.float64).log()
    x, strong = torch.zeros(2, 3).double(), torch.randn(2, 3).double()
    assert sharpened(weak[0].numpy(), 0.4).max() > 0.8, "sharpened, both would be kept"
    objective = uda_of([x, x, weak, strong], labels_of(2), threshold=0.8, temperature=0.4)
    assert objective.logged["mask"] == 0.5


def test_no_gradient_reaches_the_weak_view():
    views = four_views(GROUPS, MU)
    _, _, u_weak, u_strong = gradients(uda_of(views).loss, views)
    assert not u_weak.any()
    assert u_strong.any()


def test_entropy_minimisation_reaches_the_weak_view():
    views = four_views(GROUPS, MU)
    objective = uda_of(views, entropy_weight=0.1)
    p = views[2].softmax(-1)
    torch.testing.assert_close(objective.terms["entropy"], -0.1 * (p * p.log()).sum(-1).mean())
    assert gradients(objective.loss, views)[2].any()
    assert "entropy" not in uda_of(views).terms


def test_one_more_masked_row_multiplies_the_unlabeled_term_by_n_over_n_plus_one():
    x_weak, x_strong, u_weak, u_strong = views = four_views(GROUPS, MU)
    before = uda_of(views)
    assert 0 < before.logged["mask"] < 1, "this batch does not test the mask"
    n, unsure = len(u_weak), torch.zeros(1, 3, dtype=torch.float64)
    after = uda_of([x_weak, x_strong, torch.cat([u_weak, unsure]), torch.cat([u_strong, unsure])])
    torch.testing.assert_close(after.terms["unlabeled"], before.terms["unlabeled"] * n / (n + 1))


def test_the_order_of_the_unlabeled_rows_does_not_matter():
    x_weak, x_strong, u_weak, u_strong = views = four_views(GROUPS, MU)
    order = torch.randperm(len(u_weak), generator=torch.Generator().manual_seed(0))
    permuted = [x_weak, x_strong, u_weak[order], u_strong[order]]
    torch.testing.assert_close(uda_of(permuted).loss, uda_of(views).loss)


# Training signal annealing


@pytest.mark.parametrize("schedule", ["linear", "log", "exp"])
@pytest.mark.parametrize("num_classes", [3, 100])
def test_schedules_are_those_of_the_paper(schedule, num_classes):
    for t in (0.0, 0.3, 0.5, 1.0):
        assert released(schedule, t, num_classes=num_classes) == pytest.approx(eta(schedule, t, num_classes))


def test_schedules_rise_from_chance_to_certainty():
    for schedule in ("linear", "log", "exp"):
        path = [released(schedule, t / 10, num_classes=10) for t in range(11)]
        assert path == sorted(path)
        assert path[0] == pytest.approx(0.1, abs=0.01)
        assert path[-1] == pytest.approx(1.0, abs=0.01)
    linear, log, exp = (released(s, 0.5, num_classes=10) for s in ("linear", "log", "exp"))
    assert exp < linear < log
    assert released("none", 0.0, num_classes=10) == 1


def test_without_annealing_the_labeled_loss_is_plain_cross_entropy():
    views = four_views(GROUPS, MU)
    assert torch.equal(uda_of(views).terms["supervised"], nn.functional.cross_entropy(views[0], LABELS))


@pytest.mark.parametrize("schedule", ["linear", "exp"])
def test_at_the_end_every_labeled_row_is_kept(schedule):
    views = four_views(GROUPS, MU, scale=5.0)
    plain, ended = uda_of(views), uda_of(views, tsa=schedule, step=10)
    torch.testing.assert_close(ended.terms["supervised"], plain.terms["supervised"])


def test_labeled_rows_are_held_back_by_the_probability_of_their_own_class():
    """A public implementation goes by the largest probability, and holds back what is confidently wrong."""
    wrong, right = [5.0, 0.0, 0.0], [0.0, 5.0, 0.0]
    x = torch.tensor([wrong, right], dtype=torch.float64, requires_grad=True)
    y, rest = torch.tensor([1, 1]), torch.zeros(2, 3).double()
    objective = uda_of([x, x, rest, rest], y, tsa="linear", step=5)
    torch.testing.assert_close(objective.terms["supervised"], nn.functional.cross_entropy(x[:1], y[:1]))
    (gradient,) = gradients(objective.terms["supervised"], [x])
    assert gradient[0].any()
    assert not gradient[1].any()


def test_the_labeled_loss_is_divided_by_the_rows_kept():
    """A public implementation divides by all rows."""
    views = four_views(8, 1, scale=2.0)
    x, y = views[0].detach().numpy(), labels_of(8)
    kept = kept_of(x, y, eta("linear", 0.3))
    assert 0 < kept.sum() < 8, "this batch does not test the annealing"
    objective = uda_of(views, y, tsa="linear", step=3)
    assert objective.terms["supervised"].item() == pytest.approx(annealed(x, y, kept), abs=1e-12)


def test_with_every_labeled_row_held_back_the_loss_is_zero_and_pulls_at_nothing():
    x = torch.tensor([[9.0, 0, 0], [0, 9.0, 0]], dtype=torch.float64, requires_grad=True)
    rest = torch.zeros(2, 3).double()
    objective = uda_of([x, x, rest, rest], torch.tensor([0, 1]), tsa="exp")
    assert objective.terms["supervised"] == 0
    (gradient,) = gradients(objective.loss, [x])
    assert torch.equal(gradient, torch.zeros_like(x))


def test_class_weights_weigh_the_rows_kept():
    views = four_views(8, 1, scale=2.0)
    x, y = views[0].detach().numpy(), labels_of(8)
    kept = kept_of(x, y, eta("log", 0.1))
    assert 0 < kept.sum() < 8, "this batch does not test the annealing"
    objective = uda_of(views, y, tsa="log", step=1, class_weights=WEIGHTS)
    expected = annealed(x, y, kept, WEIGHTS)
    assert objective.terms["supervised"].item() == pytest.approx(expected, abs=1e-10)


@pytest.mark.parametrize("class_weights", [None, WEIGHTS])
def test_soft_labels_are_annealed_as_hard_ones_are(class_weights):
    views, soft = four_views(GROUPS, MU), nn.functional.one_hot(LABELS, 3).double()
    first, second = (
        uda_of(views, y, tsa="linear", step=5, class_weights=class_weights) for y in (LABELS, soft)
    )
    torch.testing.assert_close(first.loss, second.loss)


def test_the_method_keeps_nothing_from_step_to_step():
    method, (x, _, *u) = make(UDA), four_views(GROUPS, MU)
    assert not method.state_dict()
    losses = [next(method.step(batch_of([x], LABELS, u), Clock(step, 10))).loss for step in (0, 9)]
    assert torch.equal(*losses)


@pytest.mark.parametrize("tsa", ["linear", "log", "exp"])
def test_the_variants_run(tsa):
    fit(toy_run(UDA, tsa=tsa, entropy_weight=0.1))
