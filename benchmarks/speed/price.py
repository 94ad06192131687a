"""What InterLUDE costs beyond FixMatch, and what its own two parts (fusion, delta loss) cost of that.

Both take whole steps of one network in one process, FixMatch with all views in one pass. The two parts are
timed alone, forward and backward, on tensors of the shapes that a step has.
"""

from collections.abc import Callable
from typing import Any

import measure
import ours
import torch

from interlude.parts.losses import softmax
from interlude.run import Run

SETTINGS = {"model": {"name": "wrn-10-1", "targets": "joint"}, "batch": 64, "mu": 7}


def rows() -> list[dict[str, Any]]:
    """The ratio of the steps, and the share of the two parts."""
    ours.single_steps()
    interlude, fixmatch = (ours.run(method=name, **SETTINGS) for name in ("interlude", "fixmatch"))
    sides = {
        "interlude": lambda: ours.advance(interlude),
        "fixmatch": lambda: ours.advance(fixmatch),
        "parts": own_parts(interlude),
    }
    times = measure.interleaved(sides)
    conditions = f"1 thread, WRN-10-1, B 64, mu 7, {measure.milliseconds(times)}"
    shares = [100 * ratio for ratio in measure.ratios(times["parts"], times["interlude"])]
    return [
        measure.row("price", measure.ratios(times["interlude"], times["fixmatch"]), conditions=conditions),
        measure.row("price-own", shares, conditions=conditions),
    ]


def own_parts(run: Run) -> Callable[[], None]:
    """Fusion and delta loss of one step, forward and backward."""
    method, groups, mu = run.method, run.cfg.batch, run.cfg.mu or 1
    views = 2 * groups * (1 + mu)
    z = torch.rand(views, method.model.num_features, requires_grad=True)
    logits = torch.rand(views, ours.CLASSES, requires_grad=True)
    labels = torch.arange(groups) % ours.CLASSES
    sizes = [groups, groups, groups * mu, groups * mu]

    def both() -> None:
        fused = method.fuse(z, groups=groups, mu=mu)
        fused.backward(torch.ones_like(fused))
        x_weak, x_strong, u_weak, u_strong = torch.split(softmax(logits), sizes)
        match = method.match(u_weak.argmax(-1), labels)
        method.delta(x_weak - x_strong, u_weak - u_strong, match=match).backward()

    return both


if __name__ == "__main__":
    measure.main(rows)
