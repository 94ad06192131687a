"""Every registered method keeps the contract; and hard shapes of methods fit it without a special case."""

import copy
from collections.abc import Iterator
from dataclasses import dataclass, replace

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from interlude import testing
from interlude.loop import fit
from interlude.method import Method, Objective, find_method, method_names
from interlude.models import Classifier, ModelConfig
from interlude.options import option
from interlude.parts.losses import cross_entropy, masked_mean, probabilities
from interlude.run import Run

CHECKS = [
    testing.check_config_round_trips,
    testing.check_steps_are_finite,
    testing.check_every_term_reaches_a_weight,
    testing.check_state_is_in_the_state_dict,
    testing.check_resume_is_exact,
    testing.check_an_empty_mask_is_finite,
    testing.check_labels_of_unlabeled_images_are_not_read,
    testing.check_predictions_do_not_depend_on_batch_mates,
]


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("name", method_names())
def test_a_registered_method_keeps_the_contract(name, check):
    check(find_method(name))


def test_check_method_runs_every_check(monkeypatch):
    ran = []
    for check in CHECKS:
        monkeypatch.setattr(testing, check.__name__, lambda method, name=check.__name__: ran.append(name))
    testing.check_method(find_method("fixmatch"))
    assert ran == [check.__name__ for check in CHECKS]


# methods whose weak views are only targets, with options that change which views those are
WITH_TARGETS = {
    "adamatch": {"full": True},
    "comatch": {},
    "dash": {},
    "fix-a-step": {},
    "fixmatch": {},
    "fixmatch-saa": {},
    "flatmatch": {},
    "flatmatch-e": {},
    "flexmatch": {},
    "freematch": {},
    "instant": {},
    "mpl": {},
    "simmatch": {"teacher": False},
    "softmatch": {},
    "uda": {},
}


class RowsApart(Run):
    """A run in double precision with GroupNorm for BatchNorm, so that no row depends on another."""

    def make_model(self, split):
        model = super().make_model(split)
        for part in list(model.modules()):
            norms = {name: x for name, x in part.named_children() if isinstance(x, nn.BatchNorm2d)}
            for name, norm in norms.items():
                setattr(part, name, nn.GroupNorm(4, norm.num_features))
        return model.double()

    def batch(self, step):
        views = super().batch(step)
        return views._replace(x=tuple(x.double() for x in views.x), u=tuple(u.double() for u in views.u))


def run_with_rows_apart(name, *, targets="auto", **options):
    """What a method logs in a few steps with such a network, and the weights that it ends with."""
    method = find_method(name)
    cfg = replace(testing.toy_config(method, **options), model=ModelConfig(name="cnn", targets=targets))
    run = RowsApart(cfg, testing.toy_split(), method)
    run.method.double()
    run.optimizer.fill_momentum()
    fit(testing.sharpened(run, by=8.0))
    return run.meter.drain(), dict(run.method.named_parameters())


def count_passes(monkeypatch):
    """For each pass of a classifier from now on, whether it kept what a gradient needs."""
    passes, features = [], Classifier.features

    def counted(self, images, **options):
        passes.append(torch.is_grad_enabled())
        return features(self, images, **options)

    monkeypatch.setattr(Classifier, "features", counted)
    return passes


def ignore_targets(monkeypatch):
    """From now on all views share one pass, with gradient, whatever a method says of them."""
    for name in ("together", "features_together"):
        plain = getattr(Classifier, name)
        monkeypatch.setattr(Classifier, name, lambda self, *views, targets=(), f=plain: f(self, *views))


@pytest.mark.parametrize("name", WITH_TARGETS)
def test_targets_in_a_pass_of_their_own_change_no_number_where_rows_are_independent(name, monkeypatch):
    passes = count_passes(monkeypatch)
    logged, weights = run_with_rows_apart(name, **WITH_TARGETS[name])
    assert not all(passes), "no view had a pass without gradient"
    ignore_targets(monkeypatch)
    expected, expected_weights = run_with_rows_apart(name, **WITH_TARGETS[name])
    assert logged == pytest.approx(expected, rel=1e-9, abs=1e-12)
    torch.testing.assert_close(weights, expected_weights, rtol=1e-9, atol=1e-12)


def test_a_second_network_too_gives_its_targets_apart_without_a_change():
    logged, weights = run_with_rows_apart("instant", transition="instance")
    expected, expected_weights = run_with_rows_apart("instant", transition="instance", targets="joint")
    assert logged == pytest.approx(expected, rel=1e-9, abs=1e-12)
    torch.testing.assert_close(weights, expected_weights, rtol=1e-9, atol=1e-12)


def test_a_weak_view_with_a_loss_of_its_own_is_no_mere_target(monkeypatch):
    passes = count_passes(monkeypatch)
    run_with_rows_apart("uda", entropy_weight=0.1)
    assert all(passes)


class TwoSteps(Method):
    """Moves the student on the teacher's labels, then the teacher by how much that helped (as MPL does)."""

    def __init__(self, cfg, model, task):
        super().__init__(cfg, model, task)
        self.teacher = copy.deepcopy(model)

    def step(self, batch, clock) -> Iterator[Objective]:
        (x,), y, (u_weak, u_strong) = batch.x, batch.y, batch.u
        label = probabilities(self.teacher(u_weak)).argmax(-1)
        before = self.labeled_loss(x, y)
        yield Objective(student=cross_entropy(self.model(u_strong), label).mean(), rate=0.5)
        gain = before - self.labeled_loss(x, y)
        logits_x, logits_strong = self.teacher.together(x, u_strong)
        yield Objective(
            supervised=self.supervised(logits_x, y),
            feedback=gain * cross_entropy(logits_strong, label).mean(),
        ).log(gain=gain)

    def labeled_loss(self, x, y):
        with torch.no_grad():
            return F.cross_entropy(self.model(x), y)


class WithBank(Method):
    """Pulls strong embeddings towards a bank of weak ones from earlier steps (as CoMatch and SimMatch do)."""

    def __init__(self, cfg, model, task):
        super().__init__(cfg, model, task)
        self.projector = nn.Linear(model.num_features, 4)
        self.register_buffer("bank", torch.zeros(16, 4))
        self.register_buffer("position", torch.zeros((), dtype=torch.int64))

    def step(self, batch, clock) -> Iterator[Objective]:
        (x,), y, (u_weak, u_strong) = batch.x, batch.y, batch.u
        sizes = [len(x), len(u_weak), len(u_strong)]
        features = self.model.features(torch.cat([x, u_weak, u_strong]))
        z_weak, z_strong = F.normalize(self.projector(features), dim=-1).split(sizes)[1:]
        closeness = (z_strong @ self.bank.T / 0.1).softmax(-1)
        yield Objective(
            supervised=self.supervised(self.model.head(features[: len(x)]), y),
            instance=-(closeness * (z_weak.detach() @ self.bank.T)).sum(-1).mean(),
        )
        with torch.no_grad():
            slots = (self.position + torch.arange(len(z_weak))) % len(self.bank)
            self.bank[slots] = z_weak
            self.position += len(z_weak)


class WithInnerGradient(Method):
    """Trains on inputs moved against the model along an inner gradient (as VAT does)."""

    unlabeled = ("weak",)

    def step(self, batch, clock) -> Iterator[Objective]:
        (x,), y, (u,) = batch.x, batch.y, batch.u
        probe = u.clone().requires_grad_()
        (slope,) = torch.autograd.grad(self.model(probe).square().mean(), probe)
        assert all(p.grad is None or not p.grad.isnan().any() for p in self.parameters())
        moved = u + 0.5 * slope / slope.flatten(1).norm(dim=1).clamp_min(1e-12)[:, None, None, None]
        clean, adversarial = self.model.together(u, moved)
        yield Objective(
            supervised=self.supervised(self.model(x), y),
            consistency=F.kl_div(adversarial.log_softmax(-1), probabilities(clean), reduction="batchmean"),
        )


class Gate(Method):
    """Wraps another method and keeps its other terms where their gradient agrees (as Fix-A-Step does)."""

    @dataclass(frozen=True)
    class Config(Method.Config):
        base: str = option("fixmatch", "the method inside")

    def __init__(self, cfg, model, task):
        super().__init__(cfg, model, task)
        inner = find_method(cfg.base)
        self.inner = inner(inner.Config(name=cfg.base), model, task)
        self.labeled, self.unlabeled = self.inner.labeled, self.inner.unlabeled

    def step(self, batch, clock) -> Iterator[Objective]:
        for objective in self.inner.step(batch, clock):
            others = {name: term for name, term in objective.terms.items() if name != "supervised"}
            agree = self.agreement(objective.terms["supervised"], sum(others.values()))
            gated = {name: agree * term for name, term in others.items()}
            yield Objective(supervised=objective.terms["supervised"], **gated).log(agree=agree)

    def agreement(self, first, second):
        weights = [p for p in self.inner.parameters() if p.requires_grad]
        pairs = zip(
            torch.autograd.grad(first, weights, retain_graph=True, allow_unused=True),
            torch.autograd.grad(second, weights, retain_graph=True, allow_unused=True),
            strict=True,
        )
        product = sum((a * b).sum() for a, b in pairs if a is not None and b is not None)
        return (product >= 0).to(first.dtype)


@pytest.mark.parametrize("method", [TwoSteps, WithBank, WithInnerGradient, Gate])
def test_a_hard_shape_keeps_the_contract(method):
    testing.check_method(method)


def test_the_code_after_a_yield_sees_the_moved_weights():
    run = testing.toy_run(TwoSteps)
    fit(run)
    assert run.meter.drain()["gain"] != 0


def test_one_update_leaves_the_other_network_alone():
    run = testing.toy_run(TwoSteps)
    seen = {}

    def spy(objective, network):
        weights = [p.detach().clone() for p in network.parameters()]
        run.optimizer.step(0, objective.loss, objective.rate)
        return all(torch.equal(a, b) for a, b in zip(weights, network.parameters(), strict=True))

    from interlude.method import Clock

    for index, objective in enumerate(run.method.step(run.batch(0), Clock(0, 6))):
        still = run.method.teacher if index == 0 else run.method.model
        seen[index] = spy(objective, still)
    assert seen == {0: True, 1: True}


class DeadTerm(Method):
    """The consistency term reads its own target: the defect of a public Mean Teacher."""

    def step(self, batch, clock):
        (x,), y, (u_weak, _) = batch.x, batch.y, batch.u
        p = probabilities(self.model(u_weak))
        yield Objective(supervised=self.supervised(self.model(x), y), consistency=(p - p).square().mean())


class HiddenState(Method):
    """Keeps a running mean in a plain attribute, which a checkpoint does not see."""

    mean = None

    def step(self, batch, clock):
        logits = self.model(batch.x[0])
        self.mean = (
            logits.detach().mean(0) if self.mean is None else 0.9 * self.mean + 0.1 * logits.detach().mean(0)
        )
        yield Objective(supervised=self.supervised(logits - self.mean, batch.y))


class NotANumber(Method):
    """Averages over the confident rows only, of which there may be none."""

    def step(self, batch, clock):
        (x,), y, (u_weak, u_strong) = batch.x, batch.y, batch.u
        confidence, label = probabilities(self.model(u_weak)).max(-1)
        mask = (confidence > 0.95).float()
        values = cross_entropy(self.model(u_strong), label)
        yield Objective(
            supervised=self.supervised(self.model(x), y), unlabeled=(values * mask).sum() / mask.sum()
        )


class ReadsBatchMates(Method):
    """Leaves fusion inside the network, and so on at evaluation: the defect of the authors' release."""

    class Fused(nn.Module):
        def __init__(self, inner):
            super().__init__()
            self.inner, self.head, self.num_features = inner, inner.head, inner.num_features
            self.layers, self.undecayed = inner.layers, inner.undecayed

        def forward(self, images):
            logits = self.inner(images)
            return torch.lerp(logits, logits.roll(-1, 0), 0.1)

    def __init__(self, cfg, model, task):
        super().__init__(cfg, self.Fused(model), task)

    def step(self, batch, clock):
        yield Objective(supervised=self.supervised(self.model(batch.x[0]), batch.y))


class PeeksAtLabels(Method):
    """Uses the labels behind the unlabeled images."""

    def step(self, batch, clock):
        (x,), y, (_, u_strong) = batch.x, batch.y, batch.u
        peeked = self.task.unlabeled.labels_of(batch.rows_u)
        yield Objective(
            supervised=self.supervised(self.model(x), y),
            unlabeled=masked_mean(cross_entropy(self.model(u_strong), peeked), torch.ones(len(peeked))),
        )


@pytest.mark.parametrize(
    ("method", "message"),
    [
        (DeadTerm, "no gradient of \\['consistency'\\]"),
        (HiddenState, "outside the state dict"),
        (NotANumber, "the loss term 'unlabeled' became nan"),
        (ReadsBatchMates, "a prediction depends on its batch"),
        (PeeksAtLabels, "labels of unlabeled images changed the result"),
    ],
)
def test_check_method_finds_what_public_code_got_wrong(method, message):
    with pytest.raises(AssertionError, match=message):
        testing.check_method(method)
