"""Our side of the benchmarks: random pictures as a data set, and runs that are stepped like any other."""

import importlib.util
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

import interlude
from interlude import batches, memory
from interlude.config import Layer, resolve
from interlude.data import Images, Split, SplitRecord
from interlude.loop import fit
from interlude.method import find_method
from interlude.run import Run, settle
from interlude.session import Session

CLASSES = 10
LABELED = 64
UNLABELED = 4096
MANY_STEPS = 10**6  # so that no run ends while it is measured


class Enough(Exception):
    """What ends a run that was only measured."""


def backends() -> list[str]:
    """The back ends of augmentation that are installed."""
    return ["torch", "numba"] if importlib.util.find_spec("numba") else ["torch"]


def pictures(count: int, size: int) -> np.ndarray:
    """Random pictures as a data set file holds them: uint8 (N, H, W, 3)."""
    return np.random.default_rng(0).integers(0, 256, (count, size, size, 3), dtype=np.uint8)


def pixels(count: int, size: int) -> Tensor:
    """The same pictures as we keep them: (N, 3, H, W)."""
    return torch.from_numpy(pictures(count, size)).permute(0, 3, 1, 2).contiguous()


def split(unlabeled: Tensor | None = None, *, size: int = 32) -> Split:
    """A data set of random pictures, `unlabeled` its pool."""
    pool = pixels(UNLABELED, size) if unlabeled is None else unlabeled
    labels = torch.arange(LABELED) % CLASSES
    return Split(
        labeled=Images(pixels(LABELED, size), labels),
        unlabeled=Images(pool, torch.full((len(pool),), -1)),
        validation=None,
        tests={},
        num_classes=CLASSES,
        class_names=tuple(map(str, range(CLASSES))),
        class_weights=None,
        mean=(0.4914, 0.4822, 0.4465),
        std=(0.2471, 0.2435, 0.2616),
        record=SplitRecord(tuple(range(LABELED))),
    )


def run(data: Split | None = None, *, model: str | dict[str, str] = "cnn", **settings: Any) -> Run:
    """A run with these settings, ready for its first step; heap and back ends are as in a long training."""
    values = {"threads": 1, "device": "cpu", "steps": MANY_STEPS, "model": network(model), **settings}
    memory.keep_heap()
    cfg = settle(resolve([Layer("benchmark", values)]))
    return Run(cfg, data or split(), find_method(cfg.method.name))


def single_steps() -> None:
    """From now on each step of this process makes its own batch, as if views were large.

    Otherwise one step in several makes those of the others too, and single steps cannot be compared.
    """
    batches.STEPS_AT_ONCE = 1


def network(model: str | dict[str, str]) -> dict[str, str]:
    """A network, computed by the back end that a run of more than a minute goes over to by itself."""
    return {"backend": backends()[-1], **({"name": model} if isinstance(model, str) else model)}


def advance(run: Run, steps: int = 1) -> None:
    """Take some steps as training takes them."""
    last = run.step + steps

    def stop() -> None:
        if run.step == last:
            raise Enough

    try:
        fit(run, stop)
    except Enough:
        return


def train(after_step: Callable[[Session], None], *, model: str, **settings: Any) -> None:
    """`interlude.train` on a file of random pictures; `after_step` may end it by raising `Enough`."""
    original = Session.after_step

    def both(session: Session) -> None:
        original(session)
        after_step(session)

    Session.after_step = both  # type: ignore[method-assign]
    try:
        with tempfile.TemporaryDirectory() as folder:
            file = write_file(Path(folder) / "pictures.npz")
            fixed = {"threads": 1, "device": "cpu", "out": f"{folder}/run", "quiet": True}
            fixed |= {"augment": {"backend": backends()[-1]}, "model": network(model)}
            interlude.train(data=f"npz:{file}", **fixed, **settings)
    except Enough:
        return
    finally:
        Session.after_step = original  # type: ignore[method-assign]


def write_file(path: Path) -> Path:
    """A data set of random pictures, as a user would give it."""
    labels = np.arange(LABELED) % CLASSES
    labeled, test, pool = np.split(pictures(2 * LABELED + UNLABELED, 32), [LABELED, 2 * LABELED])
    np.savez(path, x_train=labeled, y_train=labels, x_unlabeled=pool, x_test=test, y_test=labels)
    return path
