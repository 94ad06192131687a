"""Everything that is not the network's forward and backward pass, as a share of a whole training step.

A step is what `interlude.train` does from one step's end to the next: choosing images, augmentation, network,
losses, optimiser, averaged weights, journal; CPU time of all threads. The network is the call of the
classifier (with the fusion in it) and the backward pass from the logits to the last weight.
"""

import time
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import measure
import ours

from interlude.session import Session

LOG_EVERY = 5  # ten times more often than by default, so that the share of the journal is in every run
STRETCH = 8  # steps whose batches are made together, or a multiple of their number
STRETCHES = 6


class NetworkTime:
    """Adds up the CPU time that one thread spends in a network."""

    def __init__(self, session: Session) -> None:
        self.seconds = 0.0
        model = session.run.method.model
        model.register_forward_pre_hook(self.begin)
        model.register_forward_hook(self.end_forward)
        gradients = session.run.optimizer.gradients
        gradients.of = self.ended_by(gradients.of)  # type: ignore[method-assign]

    def begin(self, *_: Any) -> None:
        """The network starts to work."""
        self.began = time.thread_time()

    def end(self, *_: Any) -> None:
        """It has done a part."""
        self.seconds += time.thread_time() - self.began

    def ended_by(self, work: Callable[[Any], None]) -> Callable[[Any], None]:
        """The network has done a part when this work is done."""

        def both(loss: Any) -> None:
            work(loss)
            self.end()

        return both

    def end_forward(self, model: Any, inputs: Any, logits: Any) -> None:
        """The forward pass is done; the backward pass begins when the logits have their gradient."""
        self.end()
        if logits.requires_grad:
            logits.register_hook(self.begin)


def rows() -> list[dict[str, Any]]:
    """The share with three networks."""
    return [
        row_of("rest-small", "wrn-10-1", batch=64),
        row_of("rest-large", "wrn-28-2", batch=8),
        row_of("rest-cnn", "cnn", batch=64),
    ]


def row_of(name: str, model: str, *, batch: int) -> dict[str, Any]:
    """Shares of stretches of steps, the first two steps left out."""
    seconds, network = step_times(model, batch=batch)
    shares = [100 * (1 - inside / whole) for whole, inside in zip(seconds, network, strict=True)]
    times = measure.milliseconds({"step": seconds, "network": network})
    return measure.row(name, shares, conditions=f"1 thread, {model}, B {batch}, mu 7, {times}")


def step_times(model: str, *, batch: int) -> tuple[list[float], list[float]]:
    """CPU seconds of a step in each stretch, and of the network in it."""
    marks: list[float] = []
    inside: list[float] = []
    meter: list[NetworkTime] = []

    def after_step(session: Session) -> None:
        if not meter:
            meter.append(NetworkTime(session))
        marks.append(time.process_time())
        inside.append(meter[0].seconds)
        if len(marks) == STRETCH * STRETCHES + 2:
            raise ours.Enough

    ours.train(after_step, method="interlude", model=model, batch=batch, mu=7, log_every=LOG_EVERY)
    return per_step(marks), per_step(inside)


def per_step(marks: list[float]) -> list[float]:
    """From the beginning of each stretch to the next, for a single step."""
    return [(after - before) / STRETCH for before, after in pairwise(marks[1::STRETCH])]


if __name__ == "__main__":
    measure.main(rows)
