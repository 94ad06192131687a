"""One run: a method, its data, its optimiser and its averaged weights, all made from one configuration."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from interlude import augment, data, evaluate, machine, models, rng
from interlude.batches import Batches
from interlude.config import Config
from interlude.data import Images, Split
from interlude.distributed import pick_device
from interlude.errors import UserError
from interlude.journal import Meter
from interlude.method import Batch, Method, Task, find_method
from interlude.optimizer import Optimizer
from interlude.parts.ema import Ema

FIRST = -1  # the "step" whose generator initialises the weights


def settle(cfg: Config, tell: Callable[[str], None] | None = None) -> Config:
    """The configuration with everything filled in that follows from the rest or from this machine.

    `tell` is given a line about a choice that may surprise.
    """
    method = find_method(cfg.method.name)
    if cfg.labels_first >= cfg.steps:
        raise UserError(
            f"labels_first must be below the {cfg.steps} steps of the run, got {cfg.labels_first}; "
            "for labels alone there is a method of its own, see `interlude list methods`"
        )
    name, labels, fold = data.parse_address(cfg.data.name, cfg.labels, cfg.fold)
    out = cfg.out or f"runs/{name.rpartition('/')[2]}@{labels or 'all'}-{method.name}-seed{cfg.seed}"
    return replace(
        cfg,
        data=replace(cfg.data, name=name),
        labels=labels,
        fold=fold,
        mu=cfg.mu or method.mu,
        threads=cfg.threads or free_threads(tell),
        out=out,
    )


def free_threads(tell: Callable[[str], None] | None) -> int:
    """How many threads to compute with on this machine now; says why if that is not all cores."""
    count, why = machine.threads()
    if why and tell:
        noun = "thread" if count == 1 else "threads"
        tell(f"computing with {count} {noun}, as {why}; --threads N takes N")
    return count


class Run:
    """All that training moves from step to step; `state` and `load` make and take its checkpoint."""

    def __init__(self, cfg: Config, split: Split, method: type[Method]) -> None:
        assert cfg.mu is not None, "settle the configuration first"
        if cfg.select == "validation" and split.validation is None:
            raise UserError("select=validation needs validation images: set some aside by data.validation")
        torch.set_num_threads(cfg.threads)
        self.cfg, self.split = cfg, split
        self.device = pick_device(cfg.device)
        self.batches = Batches(
            split,
            augment.build(cfg.augment),
            batch=cfg.batch,
            mu=cfg.mu,
            seed=cfg.seed,
            device=self.device,
            backend=cfg.augment.backend,
        )
        rng.seed(cfg.seed, FIRST)
        self.task = self.make_task()
        self.method = method(cfg.method, self.make_model(), self.task)
        self.method.to(self.device)
        self.ema = Ema(self.method.model, cfg.ema.decay, warmup=cfg.ema.warmup).to(self.device)
        self.task.ema = self.ema.model
        self.optimizer = Optimizer(cfg.optimizer, self.method, cfg.steps)
        self.meter = Meter()
        self.step = 0
        self.seconds = 0.0
        self.best: dict[str, Any] = {}  # step, score and averaged weights of the best so far

    def make_model(self) -> models.Classifier:
        """The network for this data, freshly initialised."""
        labeled = self.split.labeled
        return models.build(
            self.cfg.model,
            num_classes=self.split.num_classes,
            channels=labeled.channels,
            image_size=labeled.image_size,
            precision=self.cfg.precision,
        )

    def make_task(self) -> Task:
        """What the method may know of the problem."""
        weights = self.split.class_weights
        return Task(
            num_classes=self.split.num_classes,
            labels=self.split.labeled.labels_of().to(self.device),
            labeled=self.split.labeled,
            unlabeled=self.split.unlabeled,
            sweep=self.batches.sweep,
            class_weights=None if weights is None else torch.as_tensor(weights, device=self.device),
        )

    def batch(self, step: int) -> Batch:
        """The batch of a step, with the views that the method declares."""
        method = self.method
        if step < self.cfg.labels_first:
            return self.batches(step, method.labeled, (), shared_draws=False)
        return self.batches(step, method.labeled, method.unlabeled, shared_draws=method.shared_draws)

    @property
    def views_per_step(self) -> int:
        """How many images the network sees in a step."""
        assert self.cfg.mu is not None
        return self.cfg.batch * (len(self.method.labeled) + self.cfg.mu * len(self.method.unlabeled))

    def predict(self, images: Images) -> Tensor:
        """Class probabilities of the averaged weights."""
        batches = evaluate.normalized_batches(images, self.split.mean, self.split.std, device=self.device)
        return evaluate.predict(self.ema.model, batches)

    def figures(self, images: Images) -> dict[str, Any]:
        """Figures of merit of the averaged weights on labeled images."""
        return evaluate.figures(self.predict(images), images.labels_of())

    def consider(self, score: float) -> None:
        """Remember the averaged weights if none before scored as high."""
        if not self.best or score > self.best["score"]:
            weights = {name: value.clone() for name, value in self.ema.state_dict().items()}
            self.best = {"step": self.step, "score": score, "ema": weights}

    def take_best(self) -> int:
        """Go back to the remembered weights, if any; the step that the averaged weights are now of."""
        if not self.best:
            return self.step
        self.ema.load_state_dict(self.best["ema"])
        step: int = self.best["step"]
        return step

    def state(self) -> dict[str, Any]:
        """Everything a resumed run needs, as plain values; draws and rates follow from `step`."""
        return {
            "step": self.step,
            "seconds": self.seconds,
            "method": self.method.state_dict(),
            "ema": self.ema.state_dict(),
            "optimizer": self.optimizer.torch.state_dict(),
            "fingerprint": self.cfg.fingerprint(),
            "split_hash": self.split.record.split_hash,
            **({"best": self.best} if self.best else {}),
        }

    def load(self, state: Mapping[str, Any]) -> None:
        """Continue from a state of the same configuration and the same split."""
        if (
            state["fingerprint"] != self.cfg.fingerprint()
            or state["split_hash"] != self.split.record.split_hash
        ):
            raise UserError(
                "the checkpoint belongs to another method, configuration or split; "
                "start a new run in another folder"
            )
        self.method.load_state_dict(state["method"])
        self.ema.load_state_dict(state["ema"])
        self.optimizer.torch.load_state_dict(state["optimizer"])
        self.step, self.seconds = state["step"], state["seconds"]
        self.best = state.get("best", {})
