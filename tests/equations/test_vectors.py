"""Every entry of `tests/data/vectors.json`, made apart from this code, comes out of it."""

import json
import re
from pathlib import Path

import numpy as np
import pytest
import torch
from stand_in import Bare, batch_of, change, computing_in, fusion, gradients, make, objective_of
from torch import nn

from interlude import evaluate, schedule
from interlude.method import Clock, Objective
from interlude.methods.fixmatch import FixMatch
from interlude.methods.freematch import FreeMatch
from interlude.methods.interlude import InterLUDE, delta_consistency
from interlude.methods.interlude_plus import InterLUDEPlus
from interlude.methods.supervised import Supervised
from interlude.optimizer import Optimizer, OptimizerConfig
from interlude.parts.adaptive import AdaptiveThreshold
from interlude.parts.ema import Ema
from interlude.parts.layout import order, sizes
from interlude.parts.losses import cross_entropy, masked_mean, probabilities

TESTS = Path(__file__).parents[1]
VECTORS = json.loads((TESTS / "data" / "vectors.json").read_text(encoding="utf-8"))
ELSEWHERE = {"randaugment_levels": "units/augment", "cutout": "units/augment"}
CLAIMED = set(ELSEWHERE)

LAYOUTS = {"low": "low-i", "high1": "high-i1", "high2": "high-i2", "high3": "high-i3"}
PRECISIONS = {torch.float32: 1e-6, torch.float64: 1e-12}

dtypes = pytest.mark.parametrize("dtype", PRECISIONS, ids=str)


def claims(*names):
    """The test reproduces these entries; it is run once for each."""
    CLAIMED.update(names)
    return pytest.mark.parametrize("vector", [VECTORS[name] for name in names], ids=names)


def close(got, expected, *, dtype=torch.float64):
    """Equal to the precision of the type, whatever mixture of tensors, arrays and lists it is."""
    tolerance = PRECISIONS[dtype]
    got = got.detach().double().numpy() if isinstance(got, torch.Tensor) else np.asarray(got)
    np.testing.assert_allclose(got, np.asarray(expected), rtol=tolerance, atol=tolerance)


def tensors(vector, *names, dtype):
    return [torch.tensor(vector[name], dtype=dtype) for name in names]


def test_every_vector_is_claimed_by_a_test():
    forgotten = set(VECTORS) - CLAIMED
    assert not forgotten, f"no test reproduces {sorted(forgotten)} of vectors.json"
    assert set(VECTORS) >= CLAIMED, f"vectors.json has lost {sorted(CLAIMED - set(VECTORS))}"


@pytest.mark.parametrize(("name", "folder"), ELSEWHERE.items(), ids=ELSEWHERE)
def test_a_vector_claimed_elsewhere_is_read_there(name, folder):
    readers = [
        path for path in (TESTS / folder).glob("*.py") if re.search(rf"['\"]{name}['\"]", path.read_text())
    ]
    assert readers, f"no file of tests/{folder} reads the vector {name!r}"


# Layouts


def adjacencies(layout, groups, mu):
    """How often labeled and unlabeled rows meet on the circle, counted row by row."""
    unlabeled = order(layout, groups, mu) >= 2 * groups
    labeled = ~unlabeled
    before_u, after_u = labeled & unlabeled.roll(-1), labeled & unlabeled.roll(1)
    return {
        "rows": len(labeled),
        "cyclic_LU_adjacencies": int((labeled != labeled.roll(-1)).sum()),
        "labeled_rows": int(labeled.sum()),
        "labeled_rows_whose_next_is_unlabeled": int(before_u.sum()),
        "labeled_rows_whose_prev_is_unlabeled": int(after_u.sum()),
    }


@claims("layout_B2_mu2", "layout_B8_mu1")
@pytest.mark.parametrize("name", LAYOUTS)
def test_rows_stand_in_the_order_of_the_vectors(vector, name):
    groups, mu, expected = vector["B"], vector["mu"], vector["layouts"][name]
    x, u = range(groups), range(groups * mu)
    tags = [f"lw{i}" for i in x] + [f"ls{i}" for i in x] + [f"uw{j}" for j in u] + [f"us{j}" for j in u]
    assert [tags[view] for view in order(LAYOUTS[name], groups, mu)] == expected["order"]
    places = order(LAYOUTS[name], groups, mu).argsort().split(sizes(groups, mu))
    assert [rows.tolist() for rows in places] == [expected[f"rows_{tag}"] for tag in ("lw", "ls", "uw", "us")]
    assert adjacencies(LAYOUTS[name], groups, mu) == expected["stats"]


@claims("layout_stats_B64_mu7", "layout_stats_B64_mu5")
@pytest.mark.parametrize("name", LAYOUTS)
def test_labeled_and_unlabeled_rows_meet_as_often_as_in_the_vectors(vector, name):
    assert adjacencies(LAYOUTS[name], vector["B"], vector["mu"]) == vector["stats"][name]


# Fusion


@claims("fusion_alpha0.1", "fusion_alpha0.3")
@dtypes
def test_fusion_of_an_embedding(vector, dtype):
    (z,) = tensors(vector, "Z", dtype=dtype)
    fuse = fusion(vector["alpha"])
    close(fuse(z), vector["out_next"], dtype=dtype)
    close(fusion(vector["alpha"], "previous")(z), vector["out_prev"], dtype=dtype)
    close(z.mean(0), vector["column_mean_before"], dtype=dtype)
    close(fuse(z).mean(0), vector["column_mean_after"], dtype=dtype)


@claims("fusion_alpha0.1", "fusion_alpha0.3")
def test_the_fusion_matrix(vector):
    matrix = fusion(vector["alpha"])(torch.eye(6, dtype=torch.float64))
    close(matrix, vector["matrix_next"])
    close(torch.linalg.det(matrix), vector["det_next"])
    close(torch.linalg.det(matrix), vector["det_formula"])
    close(torch.linalg.svdvals(matrix).flip(0), vector["singular_values_next"])
    close(torch.linalg.svdvals(matrix).min(), vector["min_singular_formula"])


@claims("fusion_edge")
@dtypes
def test_fusion_of_one_row_and_of_two(vector, dtype):
    for case in (vector["Q1"], vector["Q2"]):
        (z,) = tensors(case, "Z", dtype=dtype)
        close(fusion(case["alpha"])(z), case["out"], dtype=dtype)
        close(fusion(0.0)(z), case["Z"], dtype=dtype)


@claims("fusion_edge")
@pytest.mark.parametrize("rows", [4, 5])
def test_fusion_by_one_half_is_singular_for_an_even_number_of_rows(vector, rows):
    half = torch.eye(rows, dtype=torch.float64).lerp(torch.eye(rows, dtype=torch.float64).roll(1, 1), 0.5)
    close(torch.linalg.det(half), vector[f"det_alpha_half_Q{rows}"])


@claims("fusion_featuremap")
@dtypes
def test_fusion_of_a_feature_map(vector, dtype):
    z = torch.arange(24, dtype=dtype).view(3, 2, 2, 2)
    close(fusion(vector["alpha"])(z), vector["out_next"], dtype=dtype)


@claims("fusion_linear_head")
@dtypes
def test_fusing_before_a_linear_head_mixes_the_logits(vector, dtype):
    z, weight, bias = tensors(vector, "Z", "W", "b", dtype=dtype)
    fuse = fusion(vector["alpha"])
    close(nn.functional.linear(fuse(z), weight, bias), vector["logits_from_fused"], dtype=dtype)
    close(fuse(nn.functional.linear(z, weight, bias)), vector["mixed_logits"], dtype=dtype)


# Delta-consistency


def delta_views(dtype=torch.float64):
    names = ("logits_lw", "logits_ls", "logits_uw", "logits_us")
    return [view.requires_grad_() for view in tensors(VECTORS["dc_loss"], *names, dtype=dtype)]


def delta_term(views, **options):
    method = make(InterLUDE, alpha=0, dtype=views[0].dtype, **options)
    return objective_of(method, views, torch.tensor([0, 1])).terms["delta"]


@claims("dc_loss")
@dtypes
def test_the_changes_and_their_distance(vector, dtype):
    x_weak, x_strong, u_weak, u_strong = delta_views(dtype)
    delta_x, delta_u = change(x_weak, x_strong), change(u_weak, u_strong)
    mean_u = delta_u.view(2, 2, 3).mean(1)
    close(delta_x, vector["delta_L"], dtype=dtype)
    close(mean_u, vector["delta_U"], dtype=dtype)
    every = torch.ones(2, 2, dtype=torch.int64)
    per_group = [delta_consistency(delta_x[i : i + 1], delta_u[2 * i : 2 * i + 2], every[:1]) for i in (0, 1)]
    close(torch.stack(per_group), vector["per_group_sq"], dtype=dtype)
    close(delta_consistency(delta_x, delta_u, every), vector["loss_paper"], dtype=dtype)
    close(delta_consistency(delta_x, delta_u, every, reduction="mean"), vector["loss_code"], dtype=dtype)


@claims("dc_loss")
@dtypes
def test_the_delta_term_and_its_gradients(vector, dtype):
    views = delta_views(dtype)
    term = delta_term(views)
    close(term, vector["loss_paper"], dtype=dtype)
    for gradient, tag in zip(gradients(term, views), ("lw", "ls", "uw", "us"), strict=True):
        close(gradient, vector[f"grad_{tag}"], dtype=dtype)


@claims("dc_loss")
@dtypes
def test_the_released_delta_term_and_its_gradients(vector, dtype):
    views = delta_views(dtype)
    term = delta_term(views, delta_detach=True, delta_reduction="mean")
    close(term, vector["loss_code"], dtype=dtype)
    x_weak, x_strong, u_weak, u_strong = gradients(term, views)
    assert not x_weak.any(), "the labeled change is detached, yet x_weak has a gradient"
    assert not x_strong.any(), "the labeled change is detached, yet x_strong has a gradient"
    close(u_weak, np.array(vector["grad_uw"]) / vector["C"], dtype=dtype)
    close(u_strong, np.array(vector["grad_us"]) / vector["C"], dtype=dtype)


@claims("dc_bound")
@dtypes
def test_the_largest_delta(vector, dtype):
    x_weak, x_strong, u_weak, u_strong = tensors(vector, "p_w", "p_s", "q_w", "q_s", dtype=dtype)
    changes = x_weak - x_strong, u_weak - u_strong, torch.ones(1, 1, dtype=torch.int64)
    close(delta_consistency(*changes), vector["loss_paper"], dtype=dtype)
    close(delta_consistency(*changes, reduction="mean"), vector["loss_code"], dtype=dtype)


@claims("dc_zero")
@dtypes
def test_no_delta_between_identical_views_and_none_from_a_constant(vector, dtype):
    x_weak, x_strong, u_weak, u_strong = delta_views(dtype)
    close(delta_term([x_weak, x_weak, u_weak, u_weak]), vector["loss_identical"], dtype=dtype)
    shifted = [
        view + shift for view, shift in zip((x_weak, x_strong, u_weak, u_strong), (5, -3, 2, 7), strict=True)
    ]
    close(delta_term(shifted), vector["loss_shifted_logits"], dtype=dtype)


@claims("dc_class_dependent_code")
@dtypes
def test_the_class_matched_delta_masks_whole_groups(vector, dtype):
    x_weak, x_strong, u_weak, u_strong = delta_views(dtype)
    label, y = torch.tensor(vector["pseudo"]), torch.tensor(vector["labels"])
    match = make(InterLUDE, delta_groups="class-matched").match(label, y)
    assert match.flatten().tolist() == vector["match_mask"]
    assert (match.sum(1) > 0).tolist() == vector["group_has_match"]
    loss = delta_consistency(change(x_weak, x_strong), change(u_weak, u_strong), match, reduction="mean")
    close(loss, vector["loss_intended"], dtype=torch.float32)  # the vector divides by count + 1e-8


@claims("dc_class_dependent_code")
@dtypes
def test_the_released_class_matched_value_is_the_whole_error_times_the_share_of_groups(vector, dtype):
    x_weak, x_strong, *_ = delta_views(dtype)
    (delta_u,) = tensors(vector, "delta_U", dtype=dtype)
    every = torch.ones(2, 1, dtype=torch.int64)
    whole = delta_consistency(change(x_weak, x_strong), delta_u, every, reduction="mean")
    close(whole * np.mean(vector["group_has_match"]), vector["loss_code"], dtype=dtype)


# Labeled and unlabeled cross-entropy


@claims("sup_ce")
@dtypes
def test_the_labeled_loss_with_and_without_class_weights(vector, dtype):
    (logits,), y = tensors(vector, "logits", dtype=dtype), torch.tensor(vector["labels"])
    close(cross_entropy(logits, y), vector["per_row"], dtype=dtype)
    batch = batch_of([logits], y)
    for weights, expected in ((None, "loss_mean"), (vector["weights"], "loss_weighted")):
        method = make(Supervised, class_weights=weights, dtype=dtype)
        (objective,) = method.step(batch, Clock(0, 1))
        close(objective.loss, vector[expected], dtype=dtype)


@claims("masked_ce")
@dtypes
def test_confidences_labels_and_row_losses(vector, dtype):
    weak, strong = tensors(vector, "logits_uw", "logits_us", dtype=dtype)
    q = probabilities(weak)
    confidence, label = q.max(-1)
    close(q, vector["q_w"], dtype=dtype)
    close(confidence, vector["max_prob"], dtype=dtype)
    assert label.tolist() == vector["pseudo"]
    close(cross_entropy(strong, label), vector["ce_hard"], dtype=dtype)
    close(cross_entropy(strong, q), vector["ce_soft"], dtype=dtype)
    sure = [0, 1, 3]  # row 2 lies on the threshold
    expected = [bool(vector["mask_strict"][row]) for row in sure]
    assert (confidence > vector["tau"])[sure].tolist() == expected
    assert (confidence >= vector["tau"])[sure].tolist() == expected


@claims("masked_ce")
@dtypes
def test_the_masked_mean_divides_by_all_rows(vector, dtype):
    hard, soft = tensors(vector, "ce_hard", "ce_soft", dtype=dtype)
    strict, at_least = (torch.tensor(vector[name]).bool() for name in ("mask_strict", "mask_ge"))
    close(masked_mean(hard, strict), vector["loss_hard_strict"], dtype=dtype)
    close(masked_mean(hard, at_least), vector["loss_hard_ge"], dtype=dtype)
    close(masked_mean(soft, strict), vector["loss_soft_strict"], dtype=dtype)


@claims("masked_ce")
@dtypes
@pytest.mark.parametrize(
    ("method", "options", "expected"),
    [
        (InterLUDE, {"alpha": 0}, "loss_hard_strict"),
        (InterLUDE, {"alpha": 0, "soft_targets": True}, "loss_soft_strict"),
        (FixMatch, {}, "loss_hard_ge"),
    ],
)
def test_the_unlabeled_term_of_a_method(vector, dtype, method, options, expected):
    weak, strong = tensors(vector, "logits_uw", "logits_us", dtype=dtype)
    nudge = -1e-4 if expected.endswith("ge") else 1e-4  # decides row 2, which rounding would decide otherwise
    method = make(method, threshold=vector["tau"] + nudge, dtype=dtype, **options)
    views = [torch.zeros(2, 3, dtype=dtype), torch.zeros(2, 3, dtype=dtype), weak, strong]
    close(objective_of(method, views, torch.tensor([0, 1])).terms["unlabeled"], vector[expected], dtype=dtype)


# Adaptive threshold and fairness


@claims("sat_saf_lambda0.5", "sat_saf_lambda0.9", "sat_saf_lambda0.999")
@dtypes
def test_three_updates_of_the_adaptive_threshold(vector, dtype):
    with computing_in(dtype):
        threshold = AdaptiveThreshold(3, vector["lam"])
    steps = zip(*tensors(vector, "logits_uw", "logits_us", dtype=dtype), vector["steps"], strict=True)
    for weak, strong, expected in steps:
        q = probabilities(weak)
        threshold.update(q)
        label, mask = threshold.select(q)
        close(q.max(-1).values, expected["max_prob"], dtype=dtype)
        close(q.max(-1).values.mean(), expected["mean_max"], dtype=dtype)
        close(threshold.tau.value, expected["tau"], dtype=dtype)
        close(threshold.prior.value, expected["p_tilde"], dtype=dtype)
        close(threshold.histogram.value, expected["h_tilde"], dtype=dtype)
        close(threshold.per_class(), expected["tau_c"], dtype=dtype)
        assert label.tolist() == expected["pseudo"]
        assert mask.tolist() == expected["mask"]
        close(masked_mean(cross_entropy(strong, label), mask), expected["loss_u_hard"], dtype=dtype)
        close(threshold.fairness(strong, mask), expected["saf_loss_eps1e_12"], dtype=dtype)
        close(threshold.fairness(strong, mask, floor=1e-9), expected["saf_loss_eps1e_9"], dtype=dtype)


@claims("sat_saf_lambda0.5", "sat_saf_lambda0.9", "sat_saf_lambda0.999")
@pytest.mark.parametrize("kind", [FreeMatch, InterLUDEPlus])
def test_three_steps_of_the_methods_with_an_adaptive_threshold(vector, kind):
    off = {"alpha": 0} if kind is InterLUDEPlus else {}
    method = make(kind, decay=vector["lam"], fairness_weight=0.05, dtype=torch.float32, **off)
    steps = zip(*tensors(vector, "logits_uw", "logits_us", dtype=torch.float32), vector["steps"], strict=True)
    for weak, strong, expected in steps:
        terms = objective_of(method, [weak[:2], weak[:2], weak, strong], torch.tensor([0, 1])).terms
        close(terms["unlabeled"], expected["loss_u_hard"], dtype=torch.float32)
        close(terms["fairness"], 0.05 * expected["saf_loss_eps1e_12"], dtype=torch.float32)


@claims("saf_full_support")
@dtypes
def test_fairness_when_every_class_is_predicted(vector, dtype):
    threshold = AdaptiveThreshold(3, 0.9).to(dtype)
    strong, threshold.prior.value, threshold.histogram.value = tensors(
        vector, "logits_us", "p_tilde", "h_tilde", dtype=dtype
    )
    mask = torch.tensor(vector["mask"], dtype=dtype)
    close(threshold.fairness(strong, mask), vector["loss"], dtype=dtype)


@claims("saf_empty_mask")
@dtypes
def test_fairness_of_no_row_is_zero_and_pulls_at_nothing(vector, dtype):
    strong = torch.tensor(VECTORS["saf_full_support"]["logits_us"], dtype=dtype, requires_grad=True)
    threshold = AdaptiveThreshold(3, 0.9).to(dtype)
    loss = threshold.fairness(strong, torch.tensor(vector["mask"], dtype=dtype))
    assert loss.item() == vector["loss"]
    (gradient,) = torch.autograd.grad(loss, strong)
    assert torch.equal(gradient, torch.zeros_like(strong)), "an empty mask must have a zero, finite gradient"


# The rest


@claims("total_loss")
def test_an_objective_is_the_sum_of_its_weighted_terms(vector):
    part = {name: torch.tensor(value, dtype=torch.float64) for name, value in vector["inputs"].items()}
    terms = {
        "supervised": part["LL"],
        "unlabeled": part["lambda_u"] * part["LU"],
        "delta": part["lambda_dc"] * part["LDC"],
    }
    close(Objective(**terms).loss, vector["interlude"])
    close(Objective(**terms, fairness=part["lambda_saf"] * part["LSAF"]).loss, vector["interlude_plus"])


@claims("lr_schedule")
def test_the_learning_rate(vector):
    optimizer = Optimizer(OptimizerConfig(rate=0.03), make(Supervised, model=Bare(nn.Linear(2, 2))), 2**20)
    for step, rate in vector["points"].items():
        close(optimizer.rate(int(step)), rate)
    close(schedule.factor(2**20, 2**20), vector["end_factor"])


@claims("ema")
@dtypes
def test_averaged_weights_and_copied_buffers(vector, dtype):
    model = nn.Module()
    model.weight = nn.Parameter(torch.ones((), dtype=dtype))
    model.register_buffer("statistic", torch.ones((), dtype=dtype))
    ema = Ema(model, 0.999)
    for value, average, buffer in zip((2, 3, -1), vector["ema_after"], vector["buffer_after"], strict=True):
        nn.init.constant_(model.weight, value)
        model.statistic.fill_(value)
        ema.update(model)
        close(ema.model.weight, average, dtype=dtype)
        assert ema.model.statistic == buffer


@claims("balanced_accuracy")
def test_accuracy_and_balanced_accuracy(vector):
    def figures(confusion):
        pairs = [(t, p) for t, row in enumerate(confusion) for p, n in enumerate(row) for _ in range(n)]
        truth, predicted = torch.tensor(pairs).unbind(1)
        return evaluate.figures(nn.functional.one_hot(predicted, 4).double(), truth)

    four, three = figures(vector["cm"]), figures(vector["cm_three_class"])
    close(four["recall"], 100 * np.array(vector["recalls"]))
    close(four["balanced_accuracy"], vector["balanced_acc"])
    close(four["balanced_error"], vector["error"])
    close(four["accuracy"], vector["plain_acc"])
    close(three["balanced_accuracy"], vector["balanced_acc_three_class"])
    assert three["recall"][1] is None, "a class without images has no recall"


@claims("h2h_constants")
@pytest.mark.parametrize("split", ["0", "1", "2"])
def test_heart2heart_class_weights_and_step_counts(vector, split):
    expected = vector["splits"][split]
    counts = np.array(expected["counts"])
    weights = (1 / counts) / (1 / counts).sum()
    np.testing.assert_allclose(weights, expected["class_weights"], atol=5e-5)
    images, epochs, batch = int(counts.sum()), 1000, 64
    assert images == expected["total"]
    assert images // batch == expected["steps_per_epoch"]
    assert epochs * images // batch == expected["schedule_K"]
    assert epochs * (images // batch) == expected["steps_run"]
    # with them every class counts the same: all images weighted, or one of each class, is the same loss
    y = torch.arange(4).repeat_interleave(torch.tensor(counts.astype(int)))
    rows = torch.linspace(-1, 1, 4, dtype=torch.float64).diag()
    method = make(Supervised, num_classes=4, class_weights=weights.tolist())
    (objective,) = method.step(batch_of([rows[y]], y), Clock(0, 1))
    close(objective.loss, cross_entropy(rows, torch.arange(4)).mean())
