"""SAA on FixMatch: steps a second way with every image's history, Otsu by brute force, and what must hold."""

import by_hand
import numpy as np
import pytest
import torch
from stand_in import Bare, computing_in, gradients, labels_of
from torch import nn

from interlude import testing
from interlude.method import Batch, Clock, Task
from interlude.methods import fixmatch_saa
from interlude.methods.fixmatch import FixMatch
from interlude.methods.fixmatch_saa import FixMatchSAA, diversify, otsu

GROUPS, MU, POOL, SIDE = 4, 3, 20, 4
LABELS = labels_of(GROUPS)


def make(method=FixMatchSAA, *, pool=POOL, seed=0, **options):
    """The method over a linear network of the pixels, and a pool of unlabeled images."""
    head = nn.Linear(SIDE * SIDE, 3, dtype=torch.float64)
    nn.init.normal_(head.weight, std=0.5, generator=torch.Generator().manual_seed(seed))
    nn.init.zeros_(head.bias)
    task = Task(3, torch.arange(3), labeled=None, unlabeled=range(pool), sweep=None)
    with computing_in(torch.float64):
        model = Bare(head, body=nn.Flatten())
        return method(method.Config(name=method.name, **options), model, task).double()


def views_of(seed):
    """x_weak, u_weak and two strong views, as small images that take gradients."""
    generator = torch.Generator().manual_seed(seed)
    sizes = (GROUPS, GROUPS * MU, GROUPS * MU, GROUPS * MU)
    images = [torch.randn(n, 1, SIDE, SIDE, generator=generator, dtype=torch.float64) for n in sizes]
    return [image.requires_grad_() for image in images]


def rows_of(seed, pool=POOL):
    return torch.randperm(pool, generator=torch.Generator().manual_seed(100 + seed))[: GROUPS * MU]


def run_step(method, views, *, rows=None, step=0, total=10):
    """The objective of a step whose later lines have run too."""
    x, *u = views
    rows = torch.arange(len(u[0])) if rows is None else rows
    (objective,) = method.step(Batch((x,), LABELS, tuple(u), torch.arange(GROUPS), rows), Clock(step, total))
    return objective


def brute_force_otsu(values, num_bins=256):
    """Try every edge of the histogram; the best splits off the parts with the most variance between them."""
    low, high = values.min(), values.max()
    width = (high - low) / num_bins
    centres = [low + (min(int((v - low) / width), num_bins - 1) + 0.5) * width for v in values]
    best, threshold = -1.0, None
    for k in range(1, num_bins):
        edge = low + k * width
        lower, upper = [c for c in centres if c < edge], [c for c in centres if c >= edge]
        between = len(lower) * len(upper) * (np.mean(lower) - np.mean(upper)) ** 2 if upper else 0.0
        if between > best * (1 + 1e-9):
            best, threshold = between, edge
    return threshold


def test_terms_gradients_and_state_equal_the_loops_over_five_steps(monkeypatch):
    """Odds are replaced by a known list, so that the halves are known."""
    tau, weight, decay, total = 0.8, 0.7, 0.2, 10
    method = make(threshold=tau, weight=weight, decay=decay, start=0.2, period=0.1)
    head = method.model.head
    history, easy, shares = [None] * POOL, [False] * POOL, []
    for step in range(5):
        views, rows = views_of(step), rows_of(step)
        chance = torch.rand(len(rows), 1, 1, generator=torch.Generator().manual_seed(step))
        monkeypatch.setattr(fixmatch_saa.torch, "rand", lambda *shape, chance=chance, **kind: chance)
        objective = run_step(method, views, rows=rows, step=step, total=total)

        x, u_weak, first, second = (view.detach().numpy() for view in views)
        strong = first.copy()
        for i, image in enumerate(rows.tolist()):
            if easy[image] and chance[i] < 0.5:
                strong[i, :, :, : SIDE // 2] = second[i, :, :, : SIDE // 2]  # the left half
            elif easy[image]:
                strong[i, :, : SIDE // 2, :] = second[i, :, : SIDE // 2, :]  # the top half
        weight_of = head.weight.detach().numpy().copy()  # the bias is 0
        x, u_weak, logits = ([weight_of @ v.ravel() for v in view] for view in (x, u_weak, strong))
        q = by_hand.softmaxes(u_weak)
        mask, label = q.max(1) >= tau, q.argmax(1)
        assert 0 < mask.sum() < len(mask), "this batch does not test the mask"
        expected = {
            "supervised": by_hand.supervised(np.stack(x), LABELS.numpy()),
            "unlabeled": weight * by_hand.unlabeled(logits, label, mask),
        }
        assert {name: term.item() for name, term in objective.terms.items()} == pytest.approx(
            expected, abs=1e-10
        )
        assert objective.logged["mask"].item() == pytest.approx(mask.mean())
        shares.append(np.mean([easy[image] for image in rows.tolist()]))
        assert objective.logged["easy"].item() == pytest.approx(shares[-1])

        for row, c, image in zip(logits, label, rows.tolist(), strict=True):
            history[image] = decay * (history[image] or 0.0) + (1 - decay) * by_hand.cross_entropy(row, c)
        if step + 1 >= 2:
            threshold = brute_force_otsu(np.array([h for h in history if h is not None]))
            easy = [h is not None and h < threshold for h in history]
        kept = [-1 if h is None else h for h in history]
        np.testing.assert_allclose(method.history.numpy(), kept, atol=1e-10)
        assert method.easy.tolist() == easy

        def loss(at, strong=strong, fixed=(label, mask)):
            return weight * by_hand.unlabeled([at[0] @ v.ravel() for v in strong], *fixed)

        direction = np.random.default_rng(step).standard_normal(head.weight.shape)
        (found,) = gradients(objective.terms["unlabeled"], [head.weight])
        slope = float((found.numpy() * direction).sum())
        assert slope == pytest.approx(by_hand.slope(loss, [weight_of], [direction]), abs=1e-6)
        with torch.no_grad():
            head.weight -= 0.1 * found
    assert shares[:2] == [0, 0], "easy images are selected from the second step on"
    assert all(0 < share < 1 for share in shares[2:]), "no batch tests the halves"


@pytest.mark.parametrize("seed", range(4))
def test_otsu_splits_as_the_brute_force_search_does(seed):
    generator = np.random.default_rng(seed)
    values = np.concatenate([generator.exponential(0.05, 60), generator.normal(2.0, 0.5, 40).clip(0)])
    found = otsu(torch.from_numpy(values)).item()
    expected = brute_force_otsu(values)
    assert ((values < found) == (values < expected)).all()
    assert 0 < (values < found).mean() < 1


def test_otsu_finds_the_gap_between_two_heaps():
    assert 1 < otsu(torch.tensor([0.0, 0.5, 1.0, 7.0, 8.0])) <= 7


def test_equal_losses_are_not_split():
    values = torch.full((5,), 0.3)
    assert not (values < otsu(values)).any()


def test_diverse_views_take_the_left_or_the_top_half_at_even_odds():
    first, second = torch.zeros(400, 2, 6, 4), torch.ones(400, 2, 6, 4)
    easy = torch.arange(400) % 4 != 0
    torch.manual_seed(0)
    views = diversify(first, second, easy)
    left, top = torch.zeros(2, 6, 4), torch.zeros(2, 6, 4)
    left[:, :, :2], top[:, :3, :] = 1, 1
    is_left, is_top = (torch.tensor([torch.equal(view, half) for view in views]) for half in (left, top))
    assert not views[~easy].any(), "the view of an image that is not easy is its first one"
    assert (is_left | is_top)[easy].all()
    assert 0.4 < is_left[easy].float().mean() < 0.6


def test_without_easy_images_the_loss_is_that_of_fixmatch():
    views = views_of(0)
    ours = run_step(make(threshold=0.8, start=1.0), views)
    x, u_weak, u_strong, _ = views
    batch = Batch((x,), LABELS, (u_weak, u_strong), torch.arange(GROUPS), torch.arange(GROUPS * MU))
    (theirs,) = make(FixMatch, threshold=0.8).step(batch, Clock(0, 10))
    assert 0 < theirs.logged["mask"] < 1, "this batch does not test the mask"
    torch.testing.assert_close(ours.loss, theirs.loss)


def test_the_second_strong_view_is_trained_on_in_easy_rows_only():
    method, views = make(threshold=0.0), views_of(0)
    method.easy[:6] = True
    first, second = gradients(run_step(method, views).loss, views)[2:]
    touched = second.flatten(1).any(1)
    assert touched.tolist() == [True] * 6 + [False] * 6
    assert first.flatten(1).any(1).all(), "half of the first view remains"


def test_the_history_is_of_all_rows_confident_or_not():
    method = make(threshold=1.0)
    objective = run_step(method, views_of(0))
    assert objective.logged["mask"] == 0
    assert (method.history[: GROUPS * MU] > 0).all()


def test_images_not_drawn_yet_are_not_easy():
    """In the authors' code they have the loss 0, move the threshold, and are all easy."""
    method = make(start=0.0)
    run_step(method, views_of(0), rows=torch.arange(GROUPS * MU))
    assert (method.history[GROUPS * MU :] == -1).all()
    assert not method.easy[GROUPS * MU :].any()
    assert 0 < method.easy[: GROUPS * MU].float().mean() < 1


def test_an_easy_image_can_become_hard_again():
    method = make(start=0.0)
    method.easy.fill_(True)
    run_step(method, views_of(0))
    assert not method.easy.all()


def test_the_selection_reaches_the_very_next_batch():
    """The authors' mask lives in the data set, whose persistent workers keep the copy they started with."""
    method, rows = make(start=0.0, period=0.1), torch.arange(GROUPS * MU)
    assert run_step(method, views_of(0), rows=rows, step=0).logged["easy"] == 0
    expected = method.easy[rows].double().mean()
    assert 0 < expected < 1
    assert run_step(method, views_of(1), rows=rows, step=1).logged["easy"] == pytest.approx(expected.item())


def test_the_paper_s_run_selects_after_402_epochs_of_256_steps_and_then_after_each():
    method, total = make(), 2**20
    due = [step + 1 for step in range(255, total, 256) if method.due(Clock(step, total))]
    assert due[0] == 402 * 256
    assert due == list(range(402 * 256, total + 1, 256))
    assert not any(method.due(Clock(step, total)) for step in range(402 * 256, 403 * 256 - 1))


def test_a_short_run_passes_through_both_phases():
    method = make()
    due = [method.due(Clock(step, 300)) for step in range(300)]
    assert not any(due[:28])
    assert all(due[30:])


def test_the_history_of_the_authors_is_almost_the_last_loss():
    method = make()
    method.remember(torch.tensor([3]), torch.tensor([2.0]))
    assert method.history[3].item() == pytest.approx(0.999 * 2)
    method.remember(torch.tensor([3]), torch.tensor([1.0]))
    assert method.history[3].item() == pytest.approx(0.001 * 0.999 * 2 + 0.999 * 1)


def test_a_restored_method_gives_the_same_next_loss():
    """The authors' checkpoint holds neither the history nor the mask."""
    method, again, fresh = (make(start=0.0, threshold=0.5) for _ in range(3))
    for step in range(2):
        run_step(method, views_of(step), rows=rows_of(step), step=step)
    again.load_state_dict(method.state_dict())
    losses = []
    for each in (method, again, fresh):
        torch.manual_seed(0)
        losses.append(run_step(each, views_of(2), rows=rows_of(2), step=2).loss)
    assert torch.equal(losses[0], losses[1])
    assert not torch.equal(losses[0], losses[2]), "the state makes no difference here"


def test_no_gradient_reaches_the_weak_view():
    views = views_of(0)
    _, u_weak, u_strong, _ = gradients(run_step(make(threshold=0.5), views).loss, views)
    assert not u_weak.any()
    assert u_strong.any()


def test_later_selections_keep_the_contract():
    testing.check_method(FixMatchSAA, start=0.5, period=0.3, decay=0.5)
