"""One run: a method, its data, its optimiser and its averaged weights, all made from one configuration."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from interlude import augment, data, distributed, evaluate, machine, models, rng
from interlude.batches import Batches
from interlude.config import Config
from interlude.data import Images, Sampler, Split
from interlude.distributed import pick_device
from interlude.errors import UserError
from interlude.features import controls
from interlude.features.batches import FeatureBatches
from interlude.features.cache import default_folder
from interlude.features.extract import Extractor
from interlude.features.plan import Pilot, Work, plan
from interlude.journal import Meter
from interlude.method import Batch, Method, Task, find_method
from interlude.models import Frozen
from interlude.models.dropout import draw_for_all
from interlude.optimizer import Optimizer
from interlude.parts.ema import Ema
from interlude.parts.norm import synchronize
from interlude.tables import Table, TableBatches

FIRST = -1  # the "step" whose generator initialises the weights
SAMPLE = 4096  # unlabeled images whose vectors say how to scale all


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
    if cfg.model.frozen and not cfg.model.pretrained and cfg.model.weights is None and tell:
        tell("warning: a frozen network needs weights: --model.pretrained, or --model.weights FILE")
    name, labels, fold = data.parse_address(cfg.data.name, cfg.labels, cfg.fold)
    short = name.rstrip("/").rpartition("/")[2]
    out = cfg.out or f"runs/{short}@{labels or 'all'}-{method.name}-seed{cfg.seed}"
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


def settle_views(
    cfg: Config, split: Split, method: type[Method], tell: Callable[[str], None] | None = None
) -> Config:
    """The configuration with the views of a frozen network filled in, by a short trial of its speed."""
    if not cfg.model.frozen or cfg.model.unfreeze != "nothing":
        return cfg

    def pilot(size: int) -> Pilot:
        model_cfg, features = replace(cfg.model, input_size=size), replace(cfg.features, weak=1)
        vectors = Run(replace(cfg, model=model_cfg, features=features), split, method).vectors
        assert vectors is not None
        extractor = vectors.extractor
        pace = extractor.pace(split.labeled, vectors.realisations("weak")[0])
        return Pilot(pace, extractor.network.about_layer() if cfg.model.layer is None else "")

    others = [split.unlabeled, *split.tests.values(), *([split.validation] if split.validation else [])]
    work = Work(
        training=len(split.unlabeled if method.unlabeled else split.labeled),
        clean=sum(map(len, others)),
    )
    settled = plan(
        cfg.features,
        cfg.model.input_size,
        work=work,
        side=max(split.labeled.image_size),
        pilot=pilot,
    )
    if tell:
        for reason in settled.reasons:
            tell(reason)
    return replace(cfg, model=replace(cfg.model, input_size=settled.input_size), features=settled.features)


def make_model(cfg: Config, split: Split) -> models.Classifier:
    """The network for this data, freshly initialised."""
    return models.build(
        cfg.model,
        num_classes=split.num_classes,
        channels=split.labeled.channels,
        image_size=split.labeled.image_size,
        precision=cfg.precision,
    )


def normalised_for(backbone: models.Backbone, split: Split) -> Split:
    """The split with images normalised as a frozen network was trained on them; else it stays as it is."""
    if isinstance(backbone, Frozen) and backbone.mean is not None and backbone.std is not None:
        return replace(split, mean=backbone.mean, std=backbone.std)
    return split


def make_batches(cfg: Config, split: Split, model: models.Classifier, device: torch.device) -> Batches:
    """What makes the batches of this run: of images, or of vectors where the network is frozen."""
    assert cfg.mu is not None
    augmentations, network = augment.build(cfg.augment), model.backbone
    sizes = {"batch": cfg.batch, "mu": cfg.mu, "seed": cfg.seed}
    if isinstance(split.labeled, Table):
        views = split.labeled.variation.views(split.labeled.channels)
        return TableBatches(split, views, **sizes, device=device, backend=cfg.augment.backend)
    if not (cfg.model.frozen and isinstance(network, Frozen) and network.takes_vectors):
        return Batches(split, augmentations, **sizes, device=device, backend=cfg.augment.backend)
    extractor = Extractor(
        network,
        Path(cfg.features.cache).expanduser() if cfg.features.cache else default_folder(),
        name=cfg.model.name,
        shape=(split.labeled.channels, *split.labeled.image_size),
        mean=split.mean,
        std=split.std,
        device=device,
        backend=cfg.augment.backend,
    )
    return FeatureBatches(split, augmentations, extractor, cfg.features, **sizes, device=device)


class Run:
    """All that training moves from step to step; `state` and `load` make and take its checkpoint."""

    def __init__(self, cfg: Config, split: Split, method: type[Method]) -> None:
        assert cfg.mu is not None, "settle the configuration first"
        if cfg.select == "validation" and split.validation is None:
            raise UserError("select=validation needs validation images: set some aside by data.validation")
        torch.set_num_threads(cfg.threads)
        models.use(cfg.model.backend)
        distributed.share_out(cfg.batch)
        self.cfg, self.device = cfg, pick_device(cfg.device)
        rng.seed(cfg.seed, FIRST)
        model = self.make_model(split)
        self.split = split = normalised_for(model.backbone, split)
        self.batches = make_batches(cfg, split, model, self.device)
        self.task = self.make_task()
        self.method = method(cfg.method, model, self.task)
        no_pixels = "rows of a table" if isinstance(split.labeled, Table) else "vectors of a frozen network"
        if self.method.needs_pixels and type(self.batches) is not Batches:
            raise UserError(f"{self.method.name} cannot learn from {no_pixels}: {self.method.needs_pixels}")
        draw_for_all(self.method)
        if cfg.sync_batch_norm:
            synchronize(self.method)
        self.method.to(self.device)
        self.ema = Ema(self.method.model, cfg.ema.decay, warmup=cfg.ema.warmup).to(self.device)
        self.task.ema = self.ema.model
        self.optimizer = Optimizer(cfg.optimizer, self.method, cfg.steps)
        self.meter = Meter()
        self.step = 0
        self.seconds = self.extraction_seconds = 0.0
        self.best: dict[str, Any] = {}  # step, score and averaged weights of the best so far

    @property
    def vectors(self) -> FeatureBatches | None:
        """What extracts and serves vectors, if the network is frozen."""
        return self.batches if isinstance(self.batches, FeatureBatches) else None

    def prepare(self, *, quiet: bool = True) -> None:
        """What a frozen network needs before the first step: its vectors, and their scale; else nothing."""
        parts = (*self.method.modules(), *self.ema.modules())
        networks = [part for part in parts if isinstance(part, Frozen)]
        if self.vectors:
            self.vectors.extractor.quiet = quiet
            others = [*self.split.tests.values(), *([self.split.validation] if self.split.validation else [])]
            self.vectors.extract(self.method.labeled, self.method.unlabeled, others)
        if networks:
            pool = self.split.unlabeled if len(self.split.unlabeled) else self.split.labeled
            rows = Sampler(len(pool), seed=self.cfg.seed, stream="scale").rows(0, min(len(pool), SAMPLE))
            with torch.no_grad():
                views = self.batches.clean(pool.subset(rows))
                sample = torch.cat([view if view.ndim == 2 else networks[0].extract(view) for view in views])
        for network in networks:
            network.settle(sample)

    def make_model(self, split: Split) -> models.Classifier:
        """The network of this run, freshly initialised."""
        return make_model(self.cfg, split)

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
        """Class probabilities of the averaged weights; many processes share the images out."""
        model, count, rank = self.ema.model, distributed.num_processes(), distributed.rank()
        if count == 1 or self.vectors or len(images) < count:  # vectors are sooner judged than sent
            return evaluate.predict(model, self.batches.clean(images))
        ends = [len(images) * number // count for number in range(count + 1)]
        part = images.subset(torch.arange(ends[rank], ends[rank + 1]))
        sizes = [end - begin for begin, end in pairwise(ends)]
        return distributed.gather_sizes(evaluate.predict(model, self.batches.clean(part)), sizes)

    def classify(self, vectors: controls.Rows) -> controls.Labels:
        """The classes that the averaged weights find for vectors of a frozen network."""
        batches = iter([torch.from_numpy(vectors).to(self.device)])
        return evaluate.predict(self.ema.model, batches).argmax(-1).numpy()

    def figures(self, images: Images) -> dict[str, Any]:
        """Figures of merit of the averaged weights on labeled images."""
        return evaluate.figures(self.predict(images), images.labels_of())

    def about_vectors(self, labels_alone: "Run | None" = None) -> dict[str, Any]:
        """What a summary says of a run on vectors: their extraction, and the controls on them.

        `labels_alone` is this run without its unlabeled images, trained, which then is a control too.
        """
        if not self.vectors:
            return {}
        extractor = self.vectors.extractor
        return {
            "extraction_seconds": round(self.extraction_seconds + extractor.seconds, 3),
            "vectors": {"extracted": extractor.num_extracted, "found": extractor.num_found},
            "controls": self.controls(self.vectors, labels_alone),
        }

    def controls(self, vectors: FeatureBatches, labels_alone: "Run | None" = None) -> dict[str, Any]:
        """Simple classifiers on the same vectors, judged on all that is judged, and beside this run."""

        def rows(images: Images) -> controls.Rows:
            return torch.cat([*vectors.clean(images)]).cpu().numpy()

        split = self.split
        pool = rows(split.unlabeled) if len(split.unlabeled) else rows(split.labeled)[:0]
        fitted = controls.fit_controls(rows(split.labeled), split.labeled.labels_of().numpy(), pool)
        if labels_alone:
            fitted["the same head on labels alone"] = labels_alone.classify
        judged = dict(split.tests) | ({"validation": split.validation} if split.validation else {})
        sets = {name: (rows(images), images.labels_of().numpy()) for name, images in judged.items()}
        result: dict[str, Any] = {"figures": controls.judge(fitted, sets)}
        for name, images in list(split.tests.items())[:1]:
            predicted = self.predict(images).argmax(-1).numpy()
            result["comparison"] = controls.compare(predicted, sets[name][1], sets[name][0], fitted)
        return result

    def _extracting(self) -> float:
        return self.vectors.extractor.seconds if self.vectors else 0.0

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
            "extraction_seconds": self.extraction_seconds + self._extracting(),
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
            state.get("fingerprint") != self.cfg.fingerprint()
            or state.get("split_hash") != self.split.record.split_hash
        ):
            raise UserError(
                "the checkpoint belongs to another method, configuration or split; "
                "start a new run in another folder"
            )
        try:
            self.method.load_state_dict(state["method"])
            self.ema.load_state_dict(state["ema"])
            self.optimizer.torch.load_state_dict(state["optimizer"])
            self.step, self.seconds = int(state["step"]), float(state["seconds"])
        except (RuntimeError, LookupError, TypeError, ValueError, AttributeError) as error:
            raise UserError(
                "the checkpoint does not fit this network; was it written by another version of interlude? "
                "Go on with that one, or start a new run in another folder"
            ) from error
        self.extraction_seconds = state.get("extraction_seconds", 0.0)
        self.best = state.get("best", {})
