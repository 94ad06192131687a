"""Fix-A-Step: blended labels and the gate a second way, and what must hold of them for any base."""

import by_hand
import numpy as np
import pytest
import torch
from stand_in import Bare, batch_of, computing_in, four_views, labels_of, make
from torch import nn

from interlude import checkpoint
from interlude.errors import UserError
from interlude.loop import fit
from interlude.method import Clock, find_method
from interlude.methods import fix_a_step
from interlude.methods.fix_a_step import FixAStep
from interlude.methods.fixmatch import FixMatch
from interlude.parts.gradients import gradient
from interlude.parts.mixup import mixup_share
from interlude.testing import toy_run

GROUPS, MU = 4, 3
LABELS = labels_of(GROUPS)
CLOCK = Clock(0, 10)


def linear_network(seed=0):
    head = nn.Linear(5, 3, dtype=torch.float64)
    nn.init.normal_(head.weight, generator=torch.Generator().manual_seed(seed))
    nn.init.zeros_(head.bias)
    return Bare(head)


def network_with_norm():
    torch.manual_seed(0)
    with computing_in(torch.float64):
        return Bare(nn.Linear(4, 3), body=nn.Sequential(nn.Linear(5, 4), nn.BatchNorm1d(4)))


def batch_for(seed=0, y=LABELS):
    """x, and four views of u: weak and strong for the base, two weak ones for the guesses."""
    x, _, u_weak, u_strong = four_views(GROUPS, MU, 5, seed=seed, scale=1.0)
    _, _, first, second = four_views(GROUPS, MU, 5, seed=seed + 100, scale=1.0)
    return batch_of([x], y, [u_weak, u_strong, first, second])


def wrapped(base=FixMatch, **options):
    """Fix-A-Step over FixMatch with a threshold that these batches reach for some rows."""
    method = make(FixAStep, model=options.pop("model", None) or linear_network(), **options)
    method.base = make(base, model=method.model, threshold=0.7)
    method.base.task = method.task
    return method


def only(method, batch, seed=0):
    torch.manual_seed(seed)
    (objective,) = method.step(batch, CLOCK)
    return objective


def draws_of(seed, alpha):
    """The share and the order that a step draws first."""
    torch.manual_seed(seed)
    share = mixup_share(alpha, like=torch.zeros((), dtype=torch.float64)).item()
    return share, torch.randperm(3 * GROUPS).tolist()


def blended(batch, weights, seed, *, temperature, alpha):
    """The labeled rows and soft labels after labeled augmentation, in loops."""
    weight, bias = weights
    (x,), y, views = batch.x, batch.y.numpy(), [view.detach().numpy() for view in batch.u[2:]]
    guesses = []
    for i in range(GROUPS):
        p = sum(by_hand.softmax(weight @ view[i] + bias) for view in views) / 2
        sharp = np.array([value ** (1 / temperature) for value in p])
        guesses.append(sharp / sharp.sum())
    images = [*x.detach().numpy(), *views[0][:GROUPS], *views[1][:GROUPS]]
    labels = [*np.eye(3)[y], *guesses, *guesses]
    share, order = draws_of(seed, alpha)
    rows = [share * images[i] + (1 - share) * images[order[i]] for i in range(GROUPS)]
    return rows, [share * labels[i] + (1 - share) * labels[order[i]] for i in range(GROUPS)]


def linear_gradient(weights, rows, targets, kept):
    """Of the sum of soft cross-entropies of the kept rows, divided by the number of all rows; one vector."""
    at_weight, at_bias = np.zeros_like(weights[0]), np.zeros_like(weights[1])
    for row, target, keep in zip(rows, targets, kept, strict=True):
        difference = keep * (by_hand.softmax(weights[0] @ row + weights[1]) - target) / len(rows)
        at_weight, at_bias = at_weight + np.outer(difference, row), at_bias + difference
    return np.concatenate([at_weight.ravel(), at_bias])


@pytest.mark.parametrize(("temperature", "alpha"), [(0.5, 0.5), (0.95, 0.75)])
def test_terms_and_gradient_equal_the_loops_with_the_gate_open_and_shut(temperature, alpha):
    method = wrapped(temperature=temperature, alpha=alpha, weight=0.6)
    gates = []
    for seed in range(8):
        batch = batch_for(seed)
        weights = [value.detach().clone().numpy() for value in method.model.head.parameters()]
        objective = only(method, batch, seed)

        rows, targets = blended(batch, weights, seed, temperature=temperature, alpha=alpha)
        supervised = sum(
            by_hand.cross_entropy(weights[0] @ row + weights[1], target)
            for row, target in zip(rows, targets, strict=True)
        )
        u_weak, u_strong = (
            [weights[0] @ row + weights[1] for row in view.detach().numpy()] for view in batch.u[:2]
        )
        q = by_hand.softmaxes(u_weak)
        mask, label = q.max(1) >= 0.7, q.argmax(1)
        assert 0 < mask.mean() < 1, "this batch does not test the mask"
        g_labeled = linear_gradient(weights, rows, targets, np.ones(GROUPS))
        g_others = linear_gradient(weights, batch.u[1].detach().numpy(), np.eye(3)[label], mask)
        gate = float(sum(a * b for a, b in zip(g_labeled, g_others, strict=True)) >= 0)
        gates.append(gate)

        assert objective.terms["supervised"].item() == pytest.approx(supervised / GROUPS, abs=1e-10)
        unlabeled = 0.6 * gate * by_hand.unlabeled(u_strong, label, mask)
        assert objective.terms["unlabeled"].item() == pytest.approx(unlabeled, abs=1e-10)
        assert objective.logged["agree"].item() == gate
        assert objective.logged["mask"].item() == pytest.approx(mask.mean())
        found = gradient(objective.loss, method.model)
        np.testing.assert_allclose(found, g_labeled + 0.6 * gate * g_others, atol=1e-10)
        with torch.no_grad():
            method.model.head.weight -= 0.5 * found[:15].view(3, 5)
    assert 0 < np.mean(gates) < 1, "these batches do not test the gate"


def test_the_unlabeled_loss_stays_on_unblended_images():
    method = wrapped(gate=False)
    batch = batch_for()
    inner = batch._replace(u=batch.u[:2])
    (base,) = method.base.step(inner, CLOCK)
    torch.testing.assert_close(only(method, batch).terms["unlabeled"], base.terms["unlabeled"])


def test_labels_stay_distributions_in_which_the_own_label_leads():
    method = wrapped()
    for seed in range(10):
        torch.manual_seed(seed)
        batch = batch_for(seed)
        mixed = method.augmented(batch, batch.u[2:])
        assert mixed.y.shape == (GROUPS, 3)
        torch.testing.assert_close(mixed.y.sum(-1), torch.ones(GROUPS, dtype=torch.float64))
        assert (mixed.y.gather(1, LABELS[:, None]) >= 0.5).all()


def test_guesses_take_no_gradient_and_leave_running_statistics_alone():
    method = wrapped(model=network_with_norm())
    batch = batch_for()
    before = method.model.body[1].running_mean.clone()
    mixed = method.augmented(batch, batch.u[2:])
    assert not mixed.y.requires_grad
    assert torch.equal(method.model.body[1].running_mean, before)
    only(method, batch)
    assert method.model.body[1].num_batches_tracked == 1


def test_with_class_weights_a_blend_of_nothing_is_the_plain_labeled_loss(monkeypatch):
    """The release divides the one by the number of rows and the other by the sum of weights."""
    monkeypatch.setattr(fix_a_step, "mixup_share", lambda alpha, *, like: torch.ones_like(like[0, 0]))
    weights = [0.135, 0.356, 0.21]
    method = wrapped(class_weights=weights)
    batch = batch_for()
    plain = make(FixMatch, model=method.model, class_weights=weights)
    (expected,) = plain.step(batch._replace(u=batch.u[:2]), CLOCK)
    torch.testing.assert_close(only(method, batch).terms["supervised"], expected.terms["supervised"])


def test_every_labeled_view_is_blended_with_the_same_partner():
    method = wrapped()
    batch = batch_for()
    (x,) = batch.x
    torch.manual_seed(0)
    one, other = method.augmented(batch._replace(x=(x, x + 10)), batch.u[2:]).x
    share, order = draws_of(0, 0.5)
    for i in range(GROUPS):
        among_labeled = order[i] < GROUPS
        expected = 10.0 if among_labeled else 10 * share
        torch.testing.assert_close(other[i] - one[i], torch.full_like(x[i], expected))


BASES = [
    "fixmatch",
    "freematch",
    "interlude",
    "interlude-plus",
    "mpl",
    "flatmatch",
    "flatmatch-e",
    "supervised",
]


@pytest.mark.parametrize("base", BASES)
def test_with_both_halves_off_it_is_the_base_to_the_bit(base):
    plain, same = toy_run(find_method(base)), toy_run(FixAStep, base=base, augment=False, gate=False)
    fit(plain)
    fit(same)
    assert checkpoint.digest(plain.ema.state_dict()) == checkpoint.digest(same.ema.state_dict())


@pytest.mark.parametrize("base", BASES)
def test_it_wraps_methods_of_every_shape(base):
    """Shared draws (InterLUDE), two updates (MPL), moved weights (FlatMatch), no `u` (supervised)."""
    run = toy_run(FixAStep, base=base)
    fit(run)
    logged = run.meter.drain()
    assert np.isfinite(list(logged.values())).all()
    assert ("agree" in logged) == (base != "supervised"), "nothing to gate where there is one term only"


def test_with_shared_draws_the_views_of_a_group_still_share_them():
    run = toy_run(FixAStep, base="interlude")
    method = run.method
    assert method.shared_draws
    assert method.labeled == method.unlabeled == ("weak", "strong", "weak", "weak")
    pick = run.batches.pick(0, method.labeled, method.unlabeled, shared_draws=True)
    for draw_x, draw_u in zip(pick.draws_x, pick.draws_u, strict=True):
        for name, values in draw_x.items():
            assert torch.equal(draw_u[name], values.repeat_interleave(run.cfg.mu, dim=0))


WITH_HEAD = '''
import torch
from interlude.method import Method, Objective, register

@register
class WithHead(Method):
    """Terms that agree on the shared weight, and disagree more strongly on a weight outside the network."""

    unlabeled = ("weak",)

    def __init__(self, cfg, model, task):
        super().__init__(cfg, model, task)
        self.extra = torch.nn.Parameter(torch.zeros(1))

    def step(self, batch, clock):
        shared = self.model.head.bias.sum()
        yield Objective(supervised=shared + 10 * self.extra.sum(), unlabeled=shared - 10 * self.extra.sum())
        yield Objective(supervised=shared + self.extra.sum(), unlabeled=shared + self.extra.sum())

    def lr_scale(self, name):
        return 0.5 if name == "extra" else 2.0
'''


def test_the_gate_looks_at_all_weights_of_the_base(tmp_path):
    file = tmp_path / "with_head.py"
    file.write_text(WITH_HEAD)
    run = toy_run(FixAStep, base=str(file))
    first, second = run.method.step(run.batch(0), Clock(0, 6))
    assert (first.logged["agree"], second.logged["agree"]) == (0, 1)
    assert first.loss == first.terms["supervised"]
    scales = {name: run.method.lr_scale(name) for name, _ in run.method.named_parameters()}
    assert scales.pop("base.extra") == 0.5
    assert set(scales.values()) == {2.0}


def test_gradients_at_a_right_angle_agree():
    method = wrapped()
    first, second = method.model.head.bias[0], method.model.head.bias[1]
    assert method.agree(first, second) == 1
    assert method.agree(first, 0 * first) == 1, "a term of zero does no harm"
    assert method.agree(first, second - 1e-6 * first) == 0


def test_a_base_without_a_labeled_term_is_refused(tmp_path):
    file = tmp_path / "odd.py"
    file.write_text(WITH_HEAD.replace("supervised=", "labeled="))
    run = toy_run(FixAStep, base=str(file))
    with pytest.raises(UserError, match=r"a term named 'supervised'; .*odd\.py' has none"):
        fit(run)


@pytest.mark.parametrize(
    ("base", "message"),
    [
        ("fixmach", "unknown method 'fixmach'; did you mean 'fixmatch'"),
        ("fix-a-step", "fix-a-step cannot wrap 'fix-a-step'; choose a base"),
        ("fully-supervised", "fix-a-step cannot wrap 'fully-supervised'; choose a base"),
    ],
)
def test_a_base_that_does_not_fit_is_one_clear_message(base, message):
    with pytest.raises(UserError, match=message):
        toy_run(FixAStep, base=base)


def test_the_model_is_the_one_the_base_predicts_with(tmp_path):
    file = tmp_path / "renewed.py"
    file.write_text(
        WITH_HEAD.replace(
            "super().__init__(cfg, model, task)",
            "super().__init__(cfg, __import__('copy').deepcopy(model), task)",
        )
    )
    method = toy_run(FixAStep, base=str(file)).method
    assert method.model is method.base.model
