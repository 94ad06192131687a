"""The vectors of a frozen network in the time there is for them: what all runs of a fit then see alike."""

from collections.abc import Callable
from dataclasses import replace

import torch
from torch import Tensor

from interlude.config import Config
from interlude.data import Split
from interlude.data.choose import in_order
from interlude.features.in_time import Reached, extract_in_time
from interlude.fitting.choose import Choice
from interlude.fitting.request import PLAN, Memo, Request
from interlude.method import find_method
from interlude.progress import note
from interlude.run import Run, settle_views

VIEWS, REACHED = "views", "extracted"
WHY = "there was no time for more: this machine is slower than its trial was, or --budget is short"


def settled_views(request: Request, cfg: Config, split: Split) -> Config:
    """How a frozen network sees the images, by a short trial of its speed when the fit begins."""
    memo = Memo(request.out / PLAN)
    before = memo.read(VIEWS)
    if before is not None:
        model = replace(cfg.model, input_size=before["input_size"])
        return replace(cfg, model=model, features=replace(cfg.features, **before["features"]))
    cfg = settle_views(cfg, split, find_method(cfg.method.name), tell=None if request.quiet else note)
    views = {"weak": cfg.features.weak, "strong": cfg.features.strong}
    memo.write(VIEWS, {"input_size": cfg.model.input_size, "features": views})
    return cfg


def extracted(
    request: Request, cfg: Config, split: Split, left: Callable[[], float]
) -> tuple[Config, Split, list[Choice]]:
    """Settings and images of which all vectors are there, and what to tell where time cut them down.

    A fit that goes on keeps what it had settled on, whatever the time.
    """
    run, memo = Run(cfg, split, find_method(cfg.method.name)), Memo(request.out / PLAN)
    if run.vectors is None:
        return cfg, split, []
    order, always = _order(split)
    before = memo.read(REACHED)
    if before is None:
        run.vectors.extractor.quiet = request.quiet
        others = [*split.tests.values(), *([split.validation] if split.validation else [])]
        kinds = run.method.labeled, run.method.unlabeled
        reached = extract_in_time(run.vectors, *kinds, others, order=order, always=always, left=left)
        memo.write(REACHED, reached._asdict())
    else:
        reached = Reached(**before)
    told = _told(cfg, len(order), reached)
    cfg = replace(cfg, features=replace(cfg.features, weak=reached.weak, strong=reached.strong))
    if reached.pool < len(order):
        cfg = replace(cfg, data=replace(cfg.data, pool=reached.pool))
        split = _smaller(split, order[: reached.pool])
    if before is not None:
        Run(cfg, split, find_method(cfg.method.name)).prepare(quiet=request.quiet)
    return cfg, split, told


def _order(split: Split) -> tuple[Tensor, int]:
    """The places of the pool in the order in which they are used, and how many of them are always used."""
    pool, labeled = split.unlabeled.rows, split.labeled.rows
    assert pool is not None, "a split lists the rows of its parts"
    assert labeled is not None
    always = labeled[torch.isin(labeled, pool)]
    total = len(split.unlabeled.labels)
    place = torch.empty(total, dtype=torch.int64)
    place[pool] = torch.arange(len(pool))
    return place[in_order(pool, always=always, total=total)], len(always)


def _smaller(split: Split, places: Tensor) -> Split:
    """The split with these places of its pool alone."""
    places = places.sort().values
    pool, groups = split.unlabeled.subset(places), split.groups
    assert pool.rows is not None
    return replace(
        split,
        unlabeled=pool,
        groups=groups and groups._replace(unlabeled=groups.unlabeled[places]),
        record=replace(split.record, pool=tuple(pool.rows.tolist())),
    )


def _told(cfg: Config, pool: int, reached: Reached) -> list[Choice]:
    """What was cut down, and why; nothing where all that was planned is there."""
    told = []
    planned = {"weak": cfg.features.weak or 0, "strong": cfg.features.strong or 0}
    missing = {kind: count - getattr(reached, kind) for kind, count in planned.items()}
    if any(missing.values()):
        words = " and ".join(
            f"{missing[kind]} of {planned[kind]} {kind}" for kind in planned if missing[kind]
        )
        kept = f"{reached.weak} weak and {reached.strong} strong"
        told.append(Choice("views", kept, f"{words} views are left out to keep the budget: {WHY}"))
    if reached.pool < pool:
        reason = f"a random part, to keep the budget: {WHY}"
        told.append(Choice("unlabeled images", f"{reached.pool:,} of {pool:,}", reason))
    return told
