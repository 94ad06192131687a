"""The learning rate as a pure function of the step."""

import math


def factor(step: int, total: int, warmup: int = 0) -> float:
    """Linear warm-up over `warmup` steps, then cos(7 pi k / 16 K): from 1 down to 0.195 at the end."""
    if step < warmup:
        return step / warmup
    return math.cos(7 * math.pi / 16 * (step - warmup) / max(1, total - warmup))
