"""CoMatch: several steps a second way, with bank and alignment carried along, and what must hold of it."""

import by_hand
import embedded
import numpy as np
import pytest
import torch
from embedded import arrays, assert_slope, descend, make, one_step, views_of, weights_of
from stand_in import gradients, labels_of

from interlude.methods.comatch import CoMatch, target_graph

GROUPS, MU = 3, 3
Y = labels_of(GROUPS)
ROWS_X = torch.arange(GROUPS)


def comatch(**options):
    return make(CoMatch, labels_of(6), **{"width": 4, "bank": 30} | options)


def drawn(seed, dtype=torch.float64):
    return views_of(GROUPS, *[GROUPS * MU] * 3, seed=seed, dtype=dtype)


def objective_and_method(seed=0, *, step=0, total=10, method=None, **options):
    method = method or comatch(**options)
    x, *u = drawn(seed)
    with one_step(method, x, Y, u, ROWS_X, step=step, total=total) as objective:
        return objective, method, [x, *u]


def after(steps, **options):
    """A method that has taken some steps."""
    method = comatch(**options)
    for step in range(steps):
        x, *u = drawn(step)
        with one_step(method, x, Y, u, ROWS_X, step=step):
            pass
    return method


def graph_of(q, edge_threshold):
    """W_ij = 1 on the diagonal, q_i . q_j where that reaches the threshold, rows normalised."""
    graph = np.zeros((len(q), len(q)))
    for i in range(len(q)):
        for j in range(len(q)):
            similarity = 1.0 if i == j else float(q[i] @ q[j])
            graph[i, j] = similarity if similarity >= edge_threshold else 0.0
        graph[i] /= graph[i].sum()
    return graph


def terms_by_hand(views, weights, q, mask, graph, options):
    x, strong, other = views
    z, z_other = embedded.embeddings(strong, weights), embedded.embeddings(other, weights)
    similarities = np.array([[a @ b for b in z_other] for a in z]) / options["temperature"]
    return {
        "supervised": by_hand.supervised(embedded.logits(x, weights), Y.numpy()),
        "unlabeled": options["weight"] * by_hand.unlabeled(embedded.logits(strong, weights), q, mask),
        "contrast": options["contrast_weight"] * embedded.mean_cross_entropy(similarities, graph),
    }


@pytest.mark.parametrize(
    "options",
    [
        {
            "threshold": 0.8,
            "temperature": 0.2,
            "own_share": 0.9,
            "weight": 1.0,
            "contrast_weight": 1.0,
            "edge_threshold": 0.6,
        },
        {
            "threshold": 0.6,
            "temperature": 0.7,
            "own_share": 0.4,
            "weight": 0.3,
            "contrast_weight": 5.0,
            "edge_threshold": 0.38,
        },
    ],
)
def test_terms_gradients_and_state_equal_the_loops_over_five_steps(options):
    method = comatch(**options, window=2, warmup=0.1)
    remembered, means = [], []  # rows (embedding, prediction); batch means
    for step in range(5):
        x, *u = drawn(step)
        w = arrays(weights_of(method))
        u_weak, u_strong, u_other = arrays(u)
        p, z = by_hand.softmaxes(embedded.logits(u_weak, w)), embedded.embeddings(u_weak, w)
        means = [*means, p.mean(0)][-2:]
        own = q = embedded.aligned(p, sum(means) / len(means))
        if step / 10 > 0.1:
            near = embedded.near(z, [row[0] for row in remembered], options["temperature"])
            voted = [sum(a * row[1] for a, row in zip(line, remembered, strict=True)) for line in near]
            q = options["own_share"] * own + (1 - options["own_share"]) * np.stack(voted)
        mask, graph = q.max(1) >= options["threshold"], graph_of(q, options["edge_threshold"])
        assert 0 < mask.mean() < 1, "this batch does not test the mask"
        assert len(q) < (graph > 0).sum() < len(q) ** 2, "this batch does not test the edges"

        with one_step(method, x, Y, u, ROWS_X, step=step) as objective:
            at = [x.detach().numpy(), u_strong, u_other]
            expected = terms_by_hand(at, w, q, mask, graph, options)
            found = {name: term.item() for name, term in objective.terms.items()}
            assert found == pytest.approx(expected, abs=1e-9)
            assert objective.logged["mask"].item() == pytest.approx(mask.mean())

            def loss(at, fixed=(q, mask, graph)):
                return sum(terms_by_hand(at[:3], at[3:], *fixed, options).values())

            assert_slope(objective, [x, u[1], u[2], *weights_of(method)], loss, step)
            descend(objective, weights_of(method))
        rows = [
            *zip(z, own, strict=True),
            *zip(embedded.embeddings(x.detach().numpy(), w), np.eye(3), strict=True),
        ]
        remembered = [*remembered, *rows][-30:]

        first = int(method.bank.pushed) % 30 if int(method.bank.pushed) > 30 else 0
        order = (first + np.arange(len(remembered))) % 30
        np.testing.assert_allclose(method.bank.z[order], np.stack([row[0] for row in remembered]), atol=1e-12)
        np.testing.assert_allclose(method.bank.q[order], np.stack([row[1] for row in remembered]), atol=1e-9)
    assert int(method.bank.pushed) == 5 * 12, "the bank of 30 rows was meant to wrap round"


def test_without_edges_the_graph_term_is_infonce():
    objective, method, (_, _, strong, other) = objective_and_method(edge_threshold=1.0)
    z, z_other = method.projector(strong), method.projector(other)
    expected = torch.nn.functional.cross_entropy(z @ z_other.T / 0.2, torch.arange(len(z)))
    torch.testing.assert_close(objective.terms["contrast"], expected)


def test_equal_certain_targets_share_all_edges():
    graph = target_graph(torch.tensor([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]]), 0.8)
    assert graph.tolist() == [[0.5, 0.5, 0.0], [0.5, 0.5, 0.0], [0.0, 0.0, 1.0]]


def test_an_edge_exactly_at_the_threshold_is_kept():
    assert (target_graph(torch.full((2, 2), 0.5), 0.5) > 0).all()


def test_every_row_of_the_graph_sums_to_one_whatever_the_threshold():
    q = torch.rand(6, 3).softmax(-1)
    for threshold in (0.0, 0.3, 0.8, 1.0):
        torch.testing.assert_close(target_graph(q, threshold).sum(-1), torch.ones(6))


def test_the_bank_takes_unsmoothed_predictions_and_the_true_labels():
    with_memory, without = after(3, own_share=0.1), after(3, own_share=1.0)
    torch.testing.assert_close(with_memory.bank.q, without.bank.q)  # the weights did not move
    assert torch.equal(with_memory.bank.q[9:12], torch.eye(3, dtype=torch.float64))


def test_a_target_that_is_all_its_own_ignores_the_bank():
    methods = [after(2, own_share=1.0), after(2, own_share=1.0)]
    methods[1].bank.push(*(torch.randn(20, n, dtype=torch.float64).softmax(-1) for n in (4, 3)))
    losses = [objective_and_method(5, step=5, method=method)[0].loss for method in methods]
    assert torch.equal(*losses)


def test_the_bank_is_read_before_it_is_written():
    method = after(1)
    own = torch.full((9, 3), 1 / 3, dtype=torch.float64)
    z = method.projector(drawn(3)[1])
    before = method.smooth(own, z)
    x, *u = drawn(3)
    with one_step(method, x, Y, u, ROWS_X, step=3):
        assert torch.equal(method.smooth(own, z), before)
    assert not torch.equal(method.smooth(own, z), before)


@pytest.mark.parametrize(("warmup", "smoothed_from"), [(0.0, 1), (0.3, 4), (1.0, 10)])
def test_smoothing_begins_after_the_warm_up(warmup, smoothed_from):
    for step in range(10):
        losses = [
            objective_and_method(5, step=step, method=after(1, own_share=share, warmup=warmup))[0].loss
            for share in (1.0, 0.2)
        ]
        assert torch.equal(*losses) == (step < smoothed_from)


def test_smoothing_begins_when_the_bank_has_rows_and_not_an_epoch_later():
    """USB asks for `epoch > 0 and it > queue_batch`: a whole epoch of 1024 steps without it."""
    for step, total in [(1, 6), (11, 2**20)]:
        losses = [
            objective_and_method(5, step=step, total=total, method=after(1, own_share=share))[0].loss
            for share in (1.0, 0.2)
        ]
        assert not torch.equal(*losses)


def test_targets_stay_distributions_while_the_bank_is_not_full():
    """A public bank starts with zeros that take part in the vote: what they get is missing in the target."""
    method = after(1, bank=1000)
    q = method.smooth(torch.full((9, 3), 1 / 3, dtype=torch.float64), method.projector(drawn(1)[1]))
    torch.testing.assert_close(q.sum(-1), torch.ones(9, dtype=torch.float64))


def test_the_alignment_window_holds_only_batches_that_were_seen():
    """USB fills it with zeros."""
    _, method, (_, u_weak, _, _) = objective_and_method(window=32)
    mean = method.model(u_weak).softmax(-1).mean(0)
    torch.testing.assert_close(method.prior.value, mean)


def test_similarities_do_not_overflow_at_a_low_temperature():
    """exp(1 / t), as in public code, is infinite in float32 below t = 0.012."""
    method = make(CoMatch, labels_of(6), width=4, bank=30, temperature=0.005, dtype=torch.float32)
    for step in range(2):
        x, *u = drawn(step, dtype=torch.float32)
        with one_step(method, x, Y, u, ROWS_X, step=step) as objective:
            assert objective.loss.isfinite()
            assert all(g.isfinite().all() for g in gradients(objective.loss, [x, *u]))


def test_no_gradient_reaches_the_weak_view_and_both_strong_views_get_one():
    x, *u = drawn(7)
    with one_step(after(2, threshold=0.6), x, Y, u, ROWS_X, step=2) as objective:
        assert 0 < objective.logged["mask"] < 1
        weak, strong, other = gradients(objective.loss, u)
        only_contrast = gradients(objective.loss - objective.terms["contrast"], u)[2]
    assert not weak.any()
    assert strong.any()
    assert other.any()
    assert not only_contrast.any(), "the second strong view is in the graph term alone"


def test_all_rows_take_part_in_the_graph_confident_or_not():
    x, *u = drawn(8)
    with one_step(after(2, threshold=1.0), x, Y, u, ROWS_X, step=2) as objective:
        assert objective.logged["mask"] == 0
        assert (gradients(objective.loss, u)[1].abs().sum(-1) > 0).all()


def test_the_order_of_the_unlabeled_rows_does_not_matter():
    order = torch.randperm(GROUPS * MU, generator=torch.Generator().manual_seed(0))
    losses = []
    for rows in (torch.arange(GROUPS * MU), order):
        x, *u = drawn(5)
        with one_step(after(2), x, Y, [view[rows] for view in u], ROWS_X, step=2) as objective:
            losses.append(objective.loss)
    torch.testing.assert_close(*losses)


def test_a_restored_method_goes_on_with_the_same_loss():
    method, again = after(4), make(CoMatch, labels_of(6), width=4, bank=30, seed=9)
    again.load_state_dict(method.state_dict())
    assert torch.equal(*(objective_and_method(5, step=5, method=m)[0].loss for m in (method, again)))


def test_a_batch_with_soft_labels_is_remembered_with_them():
    method = comatch()
    x, *u = drawn(0)
    soft = torch.tensor([[0.2, 0.8, 0.0]] * GROUPS, dtype=torch.float64)
    with one_step(method, x, soft, u, ROWS_X):
        pass
    assert torch.equal(method.bank.q[9:12], soft)
