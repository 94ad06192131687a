"""VAT: the loss a second way, the direction it finds, and what must hold of both."""

import copy
import math

import by_hand
import numpy as np
import pytest
import torch
from stand_in import Bare, batch_of, four_views, gradients, labels_of, make
from torch import nn

from interlude import models
from interlude.method import Clock
from interlude.methods.vat import VAT, divergence, unit
from interlude.models import ModelConfig

GROUPS, MU = 4, 3
LABELS = labels_of(GROUPS)


class Net(Bare):
    """A bare network that says how it computes, as a classifier does."""

    precision = "fp32"


def linear(width=5):
    head = nn.Linear(width, 3, dtype=torch.float64)
    nn.init.normal_(head.weight, generator=torch.Generator().manual_seed(0))
    nn.init.constant_(head.bias, 0.1)
    return Net(head)


def two_views(seed=0, width=5):
    x, _, u, _ = four_views(GROUPS, MU, width, seed=seed, scale=1.0)
    return x, u


def objective_of(method, x, u, *, step=9, seed=3, y=LABELS):
    torch.manual_seed(seed)
    (objective,) = method.step(batch_of([x], y, [u]), Clock(step, 10))
    return objective


def kl(p, q):
    return sum(p[c] * math.log(p[c] / q[c]) for c in range(len(p)))


def adversary(weight, bias, u, numbers, seed=3):
    """The power iteration for linear logits: the gradient of KL(q || p) at the image is W^T (p - q)."""
    torch.manual_seed(seed)
    directions = torch.randn(u.shape, dtype=torch.float64).numpy()
    found = []
    for row, direction in zip(u, directions, strict=True):
        q = by_hand.softmax(weight @ row + bias)
        for _ in range(numbers["iterations"]):
            d = numbers["probe"] * direction / math.sqrt(sum(entry**2 for entry in direction))
            direction = weight.T @ (by_hand.softmax(weight @ (row + d) + bias) - q)
        found.append(numbers["radius"] * direction / math.sqrt(sum(entry**2 for entry in direction)))
    return np.stack(found)


DEFAULTS = {
    "weight": 0.3,
    "ramp": 0.4,
    "radius": 6.0,
    "probe": 1e-3,
    "iterations": 1,
    "entropy_weight": 0.06,
    "reverse": False,
}
USB = {"weight": 1.0, "probe": 1e-6}
VAT_TF = {"weight": 1.0, "ramp": 0.0, "radius": 8.0, "entropy_weight": 1.0}


def test_the_defaults_are_those_of_the_mixmatch_repository_with_a_probe_that_float32_resolves():
    assert vars(VAT.Config()) == {"name": "", **DEFAULTS}


@pytest.mark.parametrize(
    "options", [{}, USB, VAT_TF, {"iterations": 3}, {"iterations": 0}, {"reverse": True}]
)
def test_terms_and_gradients_equal_the_loops(options):
    numbers = DEFAULTS | {"radius": 2.0} | options
    model = linear()
    method = make(VAT, model=model, **numbers)
    for step in (0, 1, 3, 8):
        x, u = two_views(seed=step)
        objective = objective_of(method, x, u, step=step)

        at = [part.detach().numpy() for part in model.parameters()]
        x, u = x.detach().numpy(), u.detach().numpy()
        r = adversary(*at, u, numbers)
        clean = by_hand.softmaxes([at[0] @ row + at[1] for row in u])
        ramp = min(1, step / 10 / numbers["ramp"]) if numbers["ramp"] else 1

        def terms(at, r=r, clean=clean, ramp=ramp, x=x, u=u):
            weight, bias = at
            moved = by_hand.softmaxes([weight @ row + bias for row in u + r])
            pairs = zip(moved, clean, strict=True) if numbers["reverse"] else zip(clean, moved, strict=True)
            p = by_hand.softmaxes([weight @ row + bias for row in u])
            entropies = [-sum(row[c] * math.log(row[c]) for c in range(3)) for row in p]
            return {
                "supervised": by_hand.supervised(
                    np.stack([weight @ row + bias for row in x]), LABELS.numpy()
                ),
                "adversarial": numbers["weight"] * ramp * sum(kl(*pair) for pair in pairs) / len(u),
                "entropy": numbers["entropy_weight"] * sum(entropies) / len(u),
            }

        found = {name: term.item() for name, term in objective.terms.items()}
        assert found == pytest.approx(terms(at), abs=1e-7)

        generator = np.random.default_rng(step)
        direction = [generator.standard_normal(part.shape) for part in at]
        for name, term in objective.terms.items():  # r and the clean prediction of the change are fixed
            slopes = gradients(term, list(model.parameters()))
            slope = sum(float((g.numpy() * d).sum()) for g, d in zip(slopes, direction, strict=True))
            expected = by_hand.slope(lambda at, name=name: terms(at)[name], at, direction)
            assert slope == pytest.approx(expected, abs=1e-6)


def test_the_entropy_is_not_ramped_and_the_adversarial_term_is():
    x, u = two_views()
    method = make(VAT, model=linear())
    first, third, full, last = (objective_of(method, x, u, step=step).terms for step in (0, 3, 4, 9))
    assert first["adversarial"] == 0
    assert third["adversarial"] < full["adversarial"]
    assert torch.equal(full["adversarial"], last["adversarial"])
    assert first["entropy"] > 0
    assert torch.equal(first["entropy"], last["entropy"])


def test_the_entropy_moves_the_weights_from_the_first_step():
    x, u = two_views()
    method = make(VAT, model=linear())
    term = objective_of(method, x, u, step=0).terms["entropy"]
    weight = method.model.head.weight
    (slope,) = gradients(term, [weight])
    assert slope.any()
    with torch.no_grad():
        weight -= 0.1 * slope
    assert objective_of(method, x, u, step=0).terms["entropy"] < term, "predictions grow more certain"


def test_the_same_seed_gives_the_same_loss_and_another_seed_another_direction():
    x, u = two_views()
    method = make(VAT, model=linear())
    assert torch.equal(objective_of(method, x, u, seed=1).loss, objective_of(method, x, u, seed=1).loss)
    assert objective_of(method, x, u, seed=1).loss != objective_of(method, x, u, seed=2).loss
    assert all(name.startswith("model.") for name in method.state_dict()), "nothing is kept"


def test_every_image_moves_by_the_radius_and_changes_more_than_in_a_random_direction():
    method = make(VAT, model=linear(), radius=0.5)
    random = make(VAT, model=method.model, radius=0.5, iterations=0)
    _, u = two_views()
    with torch.no_grad():
        clean = method.model(u)
    changes = []
    for searcher in (method, random):
        r = searcher.adversary(u, clean)
        torch.testing.assert_close(r.norm(dim=1), torch.full((len(u),), 0.5, dtype=torch.float64))
        change = divergence(clean, method.model(u + r))
        assert (change >= 0).all()
        changes.append(change.mean())
    assert changes[0] > 2 * changes[1]


def test_more_iterations_find_a_worse_direction():
    """Power iteration: the leading direction of the curvature."""
    model = linear()
    method, patient = (make(VAT, model=model, radius=0.05, iterations=n) for n in (1, 20))
    _, u = two_views()
    with torch.no_grad():
        clean = method.model(u)
    torch.manual_seed(0)
    once = divergence(clean, method.model(u + method.adversary(u, clean))).mean()
    torch.manual_seed(0)
    often = divergence(clean, method.model(u + patient.adversary(u, clean))).mean()
    assert often > once


def test_length_is_per_image_over_all_its_pixels_and_zeros_stay():
    images = torch.randn(3, 2, 4, 4, generator=torch.Generator().manual_seed(0))
    images *= torch.tensor([1.0, 1e-10, 0.0]).view(3, 1, 1, 1)
    torch.testing.assert_close(unit(images).flatten(1).norm(dim=1), torch.tensor([1.0, 1.0, 0.0]))
    torch.testing.assert_close(unit(images)[0], images[0] / images[0].norm())


def small_network(*, precision="fp32"):
    """The small network on colour images, a little surer than at its start."""
    torch.manual_seed(0)
    net = models.build(
        ModelConfig(name="cnn"), num_classes=10, channels=3, image_size=(32, 32), precision=precision
    )
    with torch.no_grad():
        net.head.weight.mul_(3)
    return net


def smooth_images(count):
    torch.manual_seed(1)
    return nn.functional.avg_pool2d(torch.randn(count, 3, 32, 32), 5, 1, 2) * 4


def test_float32_finds_the_true_direction_with_our_probe_and_not_with_the_public_one(monkeypatch):
    """Public code probes with 1e-6, of which float32 keeps hardly a pixel."""
    net, u = small_network(), smooth_images(4)
    noise = torch.randn(u.shape, generator=torch.Generator().manual_seed(2))
    monkeypatch.setattr(torch, "randn_like", lambda like: noise.to(like.dtype))

    def direction(net, u, probe):
        method = make(VAT, num_classes=10, model=net, dtype=u.dtype, radius=1.0, probe=probe)
        return method.adversary(u, net(u).detach()).flatten(1).double()

    true = direction(copy.deepcopy(net).double(), u.double(), 1e-6)
    ours, public = ((true * direction(net, u, probe)).sum(1).mean() for probe in (VAT.Config().probe, 1e-6))
    assert ours > 0.97
    assert public < 0.8


def test_a_network_in_half_precision_searches_and_compares_in_float32():
    """In bfloat16 the probe would vanish; only the labeled pass is in half precision."""
    u, y = smooth_images(4), torch.arange(4)
    whole, half = (
        objective_of(
            make(VAT, num_classes=10, model=small_network(precision=p), dtype=torch.float32), u, u, y=y
        )
        for p in ("fp32", "bf16")
    )
    assert torch.equal(whole.terms["adversarial"], half.terms["adversarial"])
    assert torch.equal(whole.terms["entropy"], half.terms["entropy"])
    assert not torch.equal(whole.terms["supervised"], half.terms["supervised"])


def test_precision_and_tf32_are_as_before_after_the_step_and_after_an_error():
    seen = []

    class Watched(Net):
        precision = "bf16"

        def forward(self, images):
            seen.append((self.precision, torch.backends.cudnn.allow_tf32))
            if len(seen) == 8:
                raise KeyError
            return super().forward(images)

    before = torch.backends.cudnn.allow_tf32
    method = make(VAT, model=Watched())
    for _ in range(2):
        try:
            objective_of(method, *two_views(width=3))
        except KeyError:
            assert len(seen) == 8
        assert (method.model.precision, torch.backends.cudnn.allow_tf32) == ("bf16", before)
    one_step = [("bf16", before), *[("fp32", False)] * 3]
    assert seen == one_step * 2


def test_the_search_touches_no_gradient_of_the_weights():
    """Public code finds the direction by `backward` and clears what the weights had gathered."""
    method = make(VAT, model=linear(), iterations=2)
    for weight in method.parameters():
        weight.grad = torch.full_like(weight, 7.0)
    objective_of(method, *two_views())
    assert all((weight.grad == 7).all() for weight in method.parameters())


def test_the_clean_prediction_and_the_direction_are_fixed():
    """The adversarial term reaches the weights through the moved image alone."""
    x, u = two_views()
    method = make(VAT, model=linear())
    objective = objective_of(method, x, u)
    weight = method.model.head.weight
    (found,) = gradients(objective.terms["adversarial"], [weight])
    torch.manual_seed(3)
    clean = method.model(u).detach()
    moved = (u + method.adversary(u, clean)).detach()
    change = clean.softmax(-1) * (clean.log_softmax(-1) - method.model(moved).log_softmax(-1))
    (expected,) = gradients(0.3 * change.sum(-1).mean(), [weight])
    torch.testing.assert_close(found, expected)


def test_the_divergence_is_from_the_clean_prediction_unless_reversed():
    """The MixMatch repository has it the other way round."""
    x, u = two_views()
    model = linear()
    straight, turned = (objective_of(make(VAT, model=model, reverse=r), x, u) for r in (False, True))
    assert abs(straight.terms["adversarial"].item() - turned.terms["adversarial"].item()) > 1e-3
    torch.manual_seed(3)
    clean = model(u).detach()
    r = make(VAT, model=model).adversary(u, clean)
    p, q = clean.softmax(-1), model(u + r).detach().softmax(-1)
    torch.testing.assert_close(
        straight.terms["adversarial"].detach(), 0.3 * (p * (p / q).log()).sum(-1).mean()
    )
    torch.testing.assert_close(turned.terms["adversarial"].detach(), 0.3 * (q * (q / p).log()).sum(-1).mean())


def test_where_nothing_changes_the_prediction_nothing_moves_and_all_is_finite():
    x, u = two_views()
    model = linear()
    nn.init.zeros_(model.head.weight)
    objective = objective_of(make(VAT, model=model), x, u)
    assert objective.terms["adversarial"] == 0
    assert all(slope.isfinite().all() for slope in gradients(objective.loss, list(model.parameters())))


def test_a_network_that_is_almost_certain_still_has_its_direction():
    """Gradients of 1e-30, whose squares are no numbers in float32."""
    direction = torch.tensor([[3e-30, 4e-30, 0.0]])
    torch.testing.assert_close(unit(direction), torch.tensor([[0.6, 0.8, 0.0]]))


def test_only_labeled_images_enter_the_running_statistics_and_each_pass_is_normalised_by_itself():
    x, u = two_views(width=3)
    u = 3 * u + 1
    norm, fresh = (nn.BatchNorm1d(3, dtype=torch.float64) for _ in range(2))
    method = make(VAT, model=Net(body=norm))
    objective = objective_of(method, x, u)
    torch.testing.assert_close(objective.terms["supervised"], nn.functional.cross_entropy(fresh(x), LABELS))
    assert all(torch.equal(value, fresh.state_dict()[name]) for name, value in norm.state_dict().items())
    log_p = fresh(u).log_softmax(-1)
    torch.testing.assert_close(objective.terms["entropy"], -0.06 * (log_p.exp() * log_p).sum(-1).mean())
