"""The papers' formulas a second time, in numpy with loops and float64; nothing here comes from the package.

Targets (pseudo-labels, masks, running state) are computed apart from the terms that use them, so that a term
can be differentiated numerically with its targets held fixed: that is what "no gradient" means.
"""

from math import gcd
from types import SimpleNamespace

import numpy as np

FLOOR = 1e-12  # inside the logarithm of the fairness term


def softmax(logits):
    exponentials = np.exp(logits - np.max(logits))
    return exponentials / exponentials.sum()


def softmaxes(logits):
    return np.stack([softmax(row) for row in logits])


def cross_entropy(logits, target):
    """-sum_c t_c log p_c for a label or a distribution."""
    p = softmax(logits)
    if np.ndim(target) == 0:
        return -np.log(p[int(target)])
    return -sum(target[c] * np.log(p[c]) for c in range(len(p)))


def supervised(logits, y, weights=None):
    """sum_i w_{y_i} CE_i / sum_i w_{y_i}; the mean where all classes weigh the same."""
    weights = np.ones(logits.shape[1]) if weights is None else weights
    total = sum(weights[label] * cross_entropy(row, label) for row, label in zip(logits, y, strict=True))
    return total / sum(weights[label] for label in y)


def unlabeled(strong, target, mask):
    """Cross-entropy of the kept rows, divided by the number of all rows."""
    total = 0.0
    for row in range(len(strong)):
        if mask[row]:
            total += cross_entropy(strong[row], target[row])
    return total / len(strong)


def row_of(layout, groups, mu):
    """In which row of the batch each view stands: the index formulas of the four layouts, one by one."""
    rows = SimpleNamespace(x_weak=[], x_strong=[], u_weak=[], u_strong=[])
    chunks = gcd(groups, 2 * (mu + 1))
    b = groups // chunks
    for i in range(groups):
        if layout == "low-i":
            weak, strong = i, groups + i
        elif layout == "high-i1":
            base = 2 * (1 + mu) * b * (i // b)
            weak, strong = base + i % b, base + b + i % b
        elif layout == "high-i2":
            weak, strong = 2 * (1 + mu) * i, 2 * (1 + mu) * i + 1
        elif layout == "high-i3":
            weak, strong = 2 * (1 + mu) * i, 2 * (1 + mu) * i + 1 + mu
        rows.x_weak.append(weak)
        rows.x_strong.append(strong)
    for j in range(groups * mu):
        i, m = j // mu, j % mu
        if layout == "low-i":
            weak, strong = 2 * groups + j, 2 * groups + mu * groups + j
        elif layout == "high-i1":
            base = 2 * (1 + mu) * b * (j // (mu * b))
            weak, strong = base + 2 * b + j % (mu * b), base + 2 * b + mu * b + j % (mu * b)
        elif layout == "high-i2":
            weak, strong = 2 * (1 + mu) * i + 2 + m, 2 * (1 + mu) * i + 2 + mu + m
        elif layout == "high-i3":
            weak, strong = 2 * (1 + mu) * i + 1 + m, 2 * (1 + mu) * i + 1 + mu + 1 + m
        rows.u_weak.append(weak)
        rows.u_strong.append(strong)
    return rows


def interdigitate(views, layout, mu):
    """The four views as one batch, each image put into its row."""
    rows = row_of(layout, len(views[0]), mu)
    batch = np.full((sum(map(len, views)), *views[0].shape[1:]), np.nan)
    for places, view in zip(vars(rows).values(), views, strict=True):
        for place, image in zip(places, view, strict=True):
            batch[place] = image
    assert not np.isnan(batch).any(), "a row was left empty"
    return batch


def pick_out(batch, layout, groups, mu):
    """The four views of an interdigitated batch."""
    return [batch[places] for places in vars(row_of(layout, groups, mu)).values()]


def fuse(z, alpha, neighbour="next"):
    """z'_i = (1 - alpha) z_i + alpha z_{i+1}, on a circle."""
    towards = {"next": 1, "previous": -1}[neighbour]
    fused = np.empty_like(z)
    for i in range(len(z)):
        fused[i] = (1 - alpha) * z[i] + alpha * z[(i + towards) % len(z)]
    return fused


def fused_logits(views, weight, bias, options):
    """Layout, fusion of the embeddings, linear head: the logits of the four views."""
    groups, mu = len(views[0]), len(views[2]) // len(views[0])
    z = fuse(interdigitate(views, options["layout"], mu), options["alpha"], options["neighbour"])
    logits = np.stack([weight @ row + bias for row in z])
    return pick_out(logits, options["layout"], groups, mu)


def delta(p_x, p_u, count, options):
    """Mean over groups of ||Delta_L - Delta_U||^2, for pairs of weak and strong probabilities.

    `count` (groups, mu) says which unlabeled images of a group are averaged; a group without any adds 0.
    """
    groups, mu = count.shape
    total = 0.0
    for i in range(groups):
        members = [i * mu + m for m in range(mu) if count[i, m]]
        if not members:
            continue
        delta_l = p_x[0][i] - p_x[1][i]
        delta_u = sum(p_u[0][j] - p_u[1][j] for j in members) / len(members)
        squares = [(delta_l[c] - delta_u[c]) ** 2 for c in range(len(delta_l))]
        total += sum(squares) / (len(squares) if options["delta_reduction"] == "mean" else 1)
    return total / groups


class Thresholds:
    """FreeMatch's running tau, p~ and h~; they are updated first and used then."""

    def __init__(self, num_classes, decay):
        self.decay = decay
        self.tau = 1 / num_classes
        self.prior = np.full(num_classes, 1 / num_classes)
        self.histogram = np.full(num_classes, 1 / num_classes)

    def update(self, q):
        old, new = self.decay, 1 - self.decay
        counts = np.zeros(q.shape[1])
        for row in q:
            counts[row.argmax()] += 1
        self.tau = old * self.tau + new * np.mean([row.max() for row in q])
        self.prior = old * self.prior + new * q.mean(0)
        self.histogram = old * self.histogram + new * counts / len(q)

    def mask(self, q):
        per_class = [self.tau * p / self.prior.max() for p in self.prior]
        return np.array([row.max() >= per_class[row.argmax()] for row in q])


def sum_norm(ratios):
    return ratios / ratios.sum()


def fairness_targets(state, p_strong, mask):
    """The constants of the fairness term: a = SumNorm(p~ / h~), and the histogram of the kept strong rows."""
    kept = np.zeros(p_strong.shape[1])
    for row, keep in zip(p_strong, mask, strict=True):
        if keep:
            kept[row.argmax()] += 1
    return sum_norm(state.prior / state.histogram), kept


def fairness(strong, mask, a, kept):
    """+ sum_c a_c log b_c, with b = SumNorm(p_bar / h_bar) and 0 for a class that no kept row predicts."""
    if not mask.any():
        return 0.0
    p_bar = sum(softmax(row) for row, keep in zip(strong, mask, strict=True) if keep)
    b = sum_norm(np.array([p / h if h else 0.0 for p, h in zip(p_bar, kept, strict=True)]))
    return sum(a_c * np.log(b_c + FLOOR) for a_c, b_c in zip(a, b, strict=True))


def interlude_targets(logits, y, options, state=None):
    """Everything in the losses of InterLUDE (or, with a state, InterLUDE+) that takes no gradient."""
    x_weak, x_strong, u_weak, u_strong = logits
    q = softmaxes(u_weak)
    label = q.argmax(1)
    if state is None:
        mask, a, kept = q.max(1) > options["threshold"], None, None
    else:
        state.update(q)
        mask = state.mask(q)
        a, kept = fairness_targets(state, softmaxes(u_strong), mask)
    count = np.ones((len(y), len(q) // len(y)), bool)
    if options["delta_groups"] == "class-matched":
        count = label.reshape(count.shape) == y[:, None]
    return SimpleNamespace(
        target=q if options["soft_targets"] else label,
        mask=mask,
        count=count,
        p_x=(softmaxes(x_weak), softmaxes(x_strong)),
        a=a,
        kept=kept,
    )


def interlude_terms(logits, y, fixed, options):
    """The weighted terms of InterLUDE (and InterLUDE+), given what is held fixed."""
    x_weak, x_strong, u_weak, u_strong = logits
    p_x = fixed.p_x if options["delta_detach"] else (softmaxes(x_weak), softmaxes(x_strong))
    p_u = (softmaxes(u_weak), softmaxes(u_strong))
    terms = {
        "supervised": supervised(x_weak, y),
        "unlabeled": options["unlabeled_weight"] * unlabeled(u_strong, fixed.target, fixed.mask),
        "delta": options["delta_weight"] * delta(p_x, p_u, fixed.count, options),
    }
    if fixed.a is not None:
        terms["fairness"] = options["fairness_weight"] * fairness(u_strong, fixed.mask, fixed.a, fixed.kept)
    return terms


def slope(function, at, direction, width=1e-5):
    """The derivative of `function(list of arrays)` along a direction, by central differences."""
    ahead = function([value + width * part for value, part in zip(at, direction, strict=True)])
    behind = function([value - width * part for value, part in zip(at, direction, strict=True)])
    return (ahead - behind) / (2 * width)
