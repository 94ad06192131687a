"""SimMatch: several steps a second way, with bank, alignment and teacher, and what must hold of it."""

import by_hand
import embedded
import numpy as np
import pytest
import torch
from embedded import arrays, assert_slope, descend, make, one_step, views_of, weights_of
from stand_in import gradients, labels_of
from torch import nn

from interlude.methods.simmatch import SimMatch
from interlude.testing import check_method

GROUPS, MU = 4, 3
Y = labels_of(GROUPS)
LABELS = labels_of(7)  # of the labeled images; image i is of class i % 3
ROWS_X = torch.tensor([0, 4, 2, 0])  # images with the labels Y; image 0 is twice in the batch


def simmatch(**options):
    return make(SimMatch, LABELS, **{"width": 4} | options)


def drawn(seed, dtype=torch.float64):
    return views_of(GROUPS, *[GROUPS * MU] * 2, seed=seed, dtype=dtype)


def rows_of(step):
    """Labeled images of a step: 0, 4, 2, 0, then 3, 4, 5, 3; image 1 and 6 never come."""
    return ROWS_X if step % 2 == 0 else torch.tensor([3, 4, 5, 3])


def after(steps, **options):
    """A method that has taken some steps."""
    method = simmatch(**options)
    for step in range(steps):
        x, *u = drawn(step)
        with one_step(method, x, Y, u, rows_of(step), step=step):
            pass
    return method


def objective_of(method, seed=9, *, step=9, total=10):
    x, *u = drawn(seed)
    with one_step(method, x, Y, u, ROWS_X, step=step, total=total) as objective:
        return objective


def terms_by_hand(views, weights, fixed, options):
    x, strong = views
    q, mask, goal, places, started = fixed
    terms = {
        "supervised": by_hand.supervised(embedded.logits(x, weights), Y.numpy()),
        "unlabeled": options["weight"] * by_hand.unlabeled(embedded.logits(strong, weights), q, mask),
        "instance": 0.0,
    }
    if started:
        z = embedded.embeddings(strong, weights)
        similarities = np.array([[row @ place for place in places] for row in z]) / options["temperature"]
        terms["instance"] = options["instance_weight"] * embedded.mean_cross_entropy(similarities, goal)
    return terms


def targets_by_hand(own, z, slots, options):
    """Targets for the class and for the similarity to the labeled images seen so far."""
    near = embedded.near(z, [slots[image] for image in sorted(slots)], options["temperature"])
    q, goal = np.zeros_like(own), np.zeros_like(near)
    for row in range(len(own)):
        q[row] = options["own_share"] * own[row]
        for place, image in enumerate(sorted(slots)):
            q[row, image % 3] += (1 - options["own_share"]) * near[row, place]
            goal[row, place] = near[row, place] * own[row, image % 3]
        goal[row] /= goal[row].sum()
    return q, goal


def write_by_hand(slots, z_x, images, decay):
    for image in {int(image) for image in images}:
        mean = np.mean([z for z, i in zip(z_x, images, strict=True) if int(i) == image], axis=0)
        moved = mean if image not in slots else decay * slots[image] + (1 - decay) * mean
        slots[image] = moved / np.sqrt((moved**2).sum())


@pytest.mark.parametrize(
    "options",
    [
        {
            "threshold": 0.7,
            "temperature": 0.1,
            "own_share": 0.9,
            "weight": 1.0,
            "instance_weight": 1.0,
            "teacher": False,
        },
        {
            "threshold": 0.6,
            "temperature": 0.4,
            "own_share": 0.5,
            "weight": 0.3,
            "instance_weight": 2.0,
            "teacher": False,
        },
        {
            "threshold": 0.7,
            "temperature": 0.1,
            "own_share": 0.8,
            "weight": 1.0,
            "instance_weight": 1.0,
            "teacher": True,
        },
    ],
)
def test_terms_gradients_and_state_equal_the_loops_over_five_steps(options):
    method = simmatch(**options, window=2, warmup=0.1, slot_decay=0.7, decay=0.6, decay_warmup=False)
    slots, means = {}, []
    teacher = arrays(weights_of(method))
    for step in range(5):
        x, *u = drawn(step)
        w = arrays(weights_of(method))
        guide = teacher if options["teacher"] else w
        (u_weak, u_strong), x_array = arrays(u), x.detach().numpy()
        p = by_hand.softmaxes(embedded.logits(u_weak, guide))
        means = [*means, p.mean(0)][-2:]
        q = own = embedded.aligned(p, sum(means) / len(means))
        goal, started = None, step / 10 > 0.1
        if started:
            q, goal = targets_by_hand(own, embedded.embeddings(u_weak, guide), slots, options)
        mask = q.max(1) >= options["threshold"]
        assert 0 < mask.mean() < 1, "this batch does not test the mask"
        fixed = (q, mask, goal, [slots[image] for image in sorted(slots)], started)

        with one_step(method, x, Y, u, rows_of(step), step=step) as objective:
            expected = terms_by_hand([x_array, u_strong], w, fixed, options)
            found = {name: term.item() for name, term in objective.terms.items()}
            assert found == pytest.approx(expected, abs=1e-9)
            assert objective.logged["mask"].item() == pytest.approx(mask.mean())

            def loss(at, fixed=fixed):
                return sum(terms_by_hand(at[:2], at[2:], fixed, options).values())

            if started:
                assert_slope(objective, [x, u[1], *weights_of(method)], loss, step)
                descend(objective, weights_of(method))
        z_x = embedded.embeddings(x_array, guide)
        write_by_hand(slots, z_x, rows_of(step), 0.0 if options["teacher"] else 0.7)
        teacher = [
            0.6 * old + 0.4 * new for old, new in zip(teacher, arrays(weights_of(method)), strict=True)
        ]

        assert method.bank.seen.nonzero().flatten().tolist() == sorted(slots)
        for image, slot in slots.items():
            np.testing.assert_allclose(method.bank.z[image], slot, atol=1e-12)
    assert sorted(slots) == [0, 2, 3, 4, 5], "two images were meant to stay unseen"


def test_slots_are_unit_vectors_after_writes():
    """USB normalises along the batch: lengths between 0.58 and 1.13."""
    bank = after(4).bank
    torch.testing.assert_close(bank.z[bank.seen].norm(dim=-1), torch.ones(5, dtype=torch.float64))


def test_the_labels_of_the_bank_are_the_true_ones_before_an_image_is_seen():
    """USB starts with class 0 for all."""
    assert torch.equal(simmatch().bank.labels, LABELS)


def test_an_unseen_image_has_no_say_in_any_target():
    methods = [after(3), after(3)]
    methods[1].bank.labels[[1, 6]] = 0  # of the two images that never came
    assert torch.equal(*(objective_of(method).loss for method in methods))


def test_own_targets_without_instance_term_ignore_the_bank():
    methods = [after(3, own_share=1.0, instance_weight=0.0) for _ in range(2)]
    methods[1].bank.write(torch.arange(7), torch.randn(7, 4, dtype=torch.float64))
    assert torch.equal(*(objective_of(method).loss for method in methods))


def test_a_uniform_prediction_leaves_the_similarities_as_they_are():
    method = after(3)
    nn.init.zeros_(method.model.head.weight)
    nn.init.zeros_(method.prior.means)
    x, *u = drawn(9)
    with one_step(method, x, Y, u, ROWS_X, step=9) as objective:
        seen = method.bank.z[method.bank.seen]
        near = (method.projector(u[0]) @ seen.T / 0.1).softmax(-1)
        expected = nn.functional.cross_entropy(method.projector(u[1]) @ seen.T / 0.1, near)
        torch.testing.assert_close(objective.terms["instance"], expected)


def test_the_class_target_uses_similarities_that_were_not_calibrated():
    method = after(3, own_share=0.0, threshold=0.0)
    x, *u = drawn(9)
    with one_step(method, x, Y, u, ROWS_X, step=9) as objective:
        near = (method.bank.similarity(method.projector(u[0])) / 0.1).softmax(-1).detach()
        q = near @ nn.functional.one_hot(LABELS).double()
        expected = nn.functional.cross_entropy(method.model(u[1]), q)
        torch.testing.assert_close(objective.terms["unlabeled"], expected)


@pytest.mark.parametrize(("warmup", "used_from"), [(0.0, 1), (1 / 1024, 1), (0.3, 4)])
def test_the_bank_is_used_after_the_warm_up(warmup, used_from):
    for step in range(10):
        objectives = [
            objective_of(after(1, own_share=share, warmup=warmup), step=step) for share in (1.0, 0.5)
        ]
        assert torch.equal(*(objective.terms["unlabeled"] for objective in objectives)) == (step < used_from)
        assert (objectives[0].terms["instance"] == 0) == (step < used_from)


def test_the_default_warm_up_is_the_first_epoch_of_the_long_run():
    assert objective_of(after(1), step=1024, total=2**20).terms["instance"] == 0
    assert objective_of(after(1), step=1025, total=2**20).terms["instance"] > 0


def test_a_slot_is_overwritten_by_the_teachers_embedding():
    method = after(2, teacher=True)
    x, *u = drawn(9)
    with one_step(method, x, Y, u, torch.tensor([0, 1, 2, 3]), step=2):
        _, (z_x,) = method.teacher(x)
    torch.testing.assert_close(method.bank.z[:4], z_x)


def test_with_a_teacher_all_that_is_known_of_weak_views_comes_from_it():
    """USB takes predictions and embeddings of the weak unlabeled views from the student."""
    x, *u = drawn(9)
    found = []
    for network in ("student", "teacher"):
        method = after(3, teacher=True, threshold=0.5)
        moved = method.teacher if network == "teacher" else nn.ModuleList([method.model, method.projector])
        with torch.no_grad():
            for parameter in moved.parameters():
                parameter += 0.3 * torch.randn(parameter.shape, dtype=parameter.dtype)
        with one_step(method, x, Y, u, ROWS_X, step=9) as objective:
            found.append((objective.logged["mask"], method.prior.value))
    still = after(3, teacher=True, threshold=0.5)
    with one_step(still, x, Y, u, ROWS_X, step=9) as objective:
        expected = (objective.logged["mask"], still.prior.value)
    assert torch.equal(found[0][1], expected[1]), "moving the student moved a target"
    assert not torch.equal(found[1][1], expected[1])


@pytest.mark.parametrize("teacher", [False, True])
def test_no_gradient_reaches_the_weak_view(teacher):
    x, *u = drawn(9)
    with one_step(after(3, teacher=teacher, threshold=0.7), x, Y, u, ROWS_X, step=3) as objective:
        assert 0 < objective.logged["mask"] < 1
        weak, strong = gradients(objective.loss, u)
    assert not weak.any()
    assert strong.any()


def test_the_instance_term_has_no_mask():
    x, *u = drawn(9)
    with one_step(after(3, threshold=1.0), x, Y, u, ROWS_X, step=3) as objective:
        assert objective.logged["mask"] == 0
        assert (gradients(objective.loss, u)[1].abs().sum(-1) > 0).all()


def test_a_low_temperature_does_not_give_the_logarithm_of_zero():
    """Public code takes log(softmax(...)): minus infinity in float32 where a similarity is low."""
    method = make(SimMatch, LABELS, width=4, temperature=0.005, dtype=torch.float32)
    for step in range(3):
        x, *u = drawn(step, dtype=torch.float32)
        with one_step(method, x, Y, u, rows_of(step), step=step) as objective:
            assert objective.loss.isfinite()
            assert all(g.isfinite().all() for g in gradients(objective.loss, [x, *u]))


def test_the_order_of_rows_does_not_matter_not_even_of_equal_ones():
    """In public code the last of several equal rows decides what the bank holds."""
    found = []
    for order_x, order_u in [(range(4), range(12)), ([3, 1, 0, 2], [*range(5, 12), *range(5)])]:
        method = after(2)
        x, *u = drawn(9)
        order_x, order_u = list(order_x), list(order_u)
        shuffled = [view[order_u] for view in u]
        with one_step(method, x[order_x], Y[order_x], shuffled, ROWS_X[order_x], step=2) as objective:
            found.append(objective.loss)
        found.append(method.bank.z)
    torch.testing.assert_close(found[0], found[2])
    torch.testing.assert_close(found[1], found[3])


@pytest.mark.parametrize("teacher", [False, True])
def test_a_restored_method_goes_on_with_the_same_loss(teacher):
    method, again = after(4, teacher=teacher), make(SimMatch, LABELS, width=4, seed=9, teacher=teacher)
    again.load_state_dict(method.state_dict())
    assert torch.equal(objective_of(method).loss, objective_of(again).loss)


def test_the_variant_with_a_teacher_keeps_the_contract():
    check_method(SimMatch, teacher=True)
