"""The learning rate as a pure function of the step."""

import math

FALL = 7 / 16


def factor(step: int, total: int, warmup: int = 0, fall: float = FALL) -> float:
    """Linear warm-up over `warmup` steps, then cos(fall pi k / K): 7/16 takes it from 1 down to 0.195."""
    if step < warmup:
        return step / warmup
    return math.cos(fall * math.pi * (step - warmup) / max(1, total - warmup))
