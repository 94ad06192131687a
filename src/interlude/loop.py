"""The training loop: the same for every method."""

from collections.abc import Callable

from interlude import rng
from interlude.method import Clock
from interlude.run import Run


def fit(run: Run, after_step: Callable[[], None] = lambda: None) -> None:
    """Advance `run` to its last step. Nothing here knows which method is training."""
    run.method.train()
    while run.step < run.cfg.steps:
        batch = run.batch(run.step)
        rng.seed(run.cfg.seed, run.step)  # what the network itself draws (dropout) follows from here
        for objective in run.method.step(batch, Clock(run.step, run.cfg.steps)):
            run.optimizer.step(run.step, objective.loss, objective.rate)
            run.meter.add(run.step, objective)
        run.ema.update(run.method.model)
        run.step += 1
        after_step()
