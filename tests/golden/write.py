"""Writes `traces.json`: the terms of the first five steps of every method on the toy pictures.

    python tests/golden/write.py              # all methods
    python tests/golden/write.py fixmatch     # these alone, the others stay as they are

A refactoring leaves the file untouched. A change that is meant to move the numbers rewrites it, and says so
in `CHANGELOG.md`.
"""

import json
import math
import sys
from pathlib import Path

import torch
from torch import nn

from interlude.method import Batch, Method, find_method, method_names
from interlude.run import Run
from interlude.testing import stop_after, toy_run

FILE = Path(__file__).with_name("traces.json")
STEPS = 5


def trace(method: type[Method]) -> dict[str, list[float]]:
    """The loss and each of its terms in the first steps of a toy run, in double precision.

    In single precision no trace could be shared: now and then the rounding of another processor puts a value
    on the other side of a ReLU's kink, and with four pictures BatchNorm magnifies that a thousandfold.
    """
    run = toy_run(method)
    set_weights(run.method)
    run.method.double()
    run.ema.double()
    run.optimizer.fill_momentum()
    run.batch = lambda step: in_double(Run.batch(run, step))  # type: ignore[method-assign]
    sweep = run.task.sweep
    run.task.sweep = lambda images, kind: (view.double() for view in sweep(images, kind))
    stop_after(run, STEPS)
    terms = {name: values for name, values in run.meter.values.items() if name.startswith("train/")}
    return {
        name.removeprefix("train/"): [round(value.item(), 7) for _, value in values]
        for name, values in terms.items()
    }


@torch.no_grad()
def set_weights(model: nn.Module) -> None:
    """Weights that are the same to the bit everywhere: evenly drawn between bounds that are powers of two."""
    generator = torch.Generator().manual_seed(0)
    for weight in model.parameters():
        if weight.ndim > 1 and weight.any():
            bound = 2.0 ** round(math.log2(weight.std().item() * math.sqrt(3)))
            weight.copy_((torch.rand(weight.shape, generator=generator) * 2 - 1) * bound)


def in_double(batch: Batch) -> Batch:
    """The same views in double precision."""
    return batch._replace(x=tuple(x.double() for x in batch.x), u=tuple(u.double() for u in batch.u))


def read() -> dict[str, dict[str, list[float]]]:
    """The stored traces by method."""
    return json.loads(FILE.read_text(encoding="utf-8")) if FILE.exists() else {}


def main(names: list[str]) -> None:
    """Rewrite the traces of these methods, or of all."""
    known = read() if names else {}
    traces = known | {name: trace(find_method(name)) for name in names or method_names()}
    lines = [
        f"  {json.dumps(name)}: {{\n"
        + ",\n".join(f"    {json.dumps(term)}: {json.dumps(values)}" for term, values in traces[name].items())
        + "\n  }"
        for name in sorted(traces)
    ]
    FILE.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
