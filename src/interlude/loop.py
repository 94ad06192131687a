"""The training loop: the same for every method."""

from collections.abc import Callable, Iterator
from dataclasses import replace

from interlude import distributed, rng
from interlude.method import Batch, Clock, Objective
from interlude.prefetch import ahead
from interlude.run import Run


def fit(run: Run, after_step: Callable[[], None] = lambda: None, *, overlap: bool = False) -> None:
    """Advance `run` to its last step. Nothing here knows which method is training.

    With `overlap` the next batch is made while the network computes; the result is the same.
    """
    run.method.train()
    with ahead(run.batch, range(run.step, run.cfg.steps), overlap=overlap) as batches:
        for batch in batches:
            rng.seed(run.cfg.seed, run.step)  # what the network itself draws (dropout) follows from here
            for objective in objectives(run, batch):
                run.optimizer.step(run.step, objective.loss, objective.rate)
                run.meter.add(run.step, objective)
            distributed.share_statistics(run.method)
            run.ema.update(run.method.model)
            run.step += 1
            after_step()


def trained_on_labels(run: Run) -> Run:
    """The same run from its start, with labels alone in every step: a control of what the others gave."""
    alone = Run(replace(run.cfg, labels_first=run.cfg.steps), run.split, type(run.method))
    alone.prepare()
    fit(alone)
    return alone


def objectives(run: Run, batch: Batch) -> Iterator[Objective]:
    """What the step in hand descends: the labels alone at first, if so configured; then the method's own."""
    first = run.cfg.labels_first
    if run.step < first:
        return run.method.step_on_labels(batch)
    return run.method.step(batch, Clock(run.step - first, run.cfg.steps - first))
