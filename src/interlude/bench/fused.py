"""Fusion at evaluation: the authors' release fuses each test image with the next one of its batch."""

import json
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from interlude import data, evaluate, rng
from interlude.config import Config, read_file, resolve
from interlude.data import Images
from interlude.files import write_whole
from interlude.method import find_method
from interlude.predictor import Predictor

BATCH = 128  # test images in a batch, as in the release


def write_fused(folder: Path) -> None:
    """Measure the finished run in `folder` once, into its `fused.json`: {} if its method fuses nothing."""
    path = folder / "fused.json"
    cfg = resolve([read_file(folder / "config.yaml")])
    if not path.exists():
        errors = fused_errors(folder, cfg) if hasattr(cfg.method, "fusion_point") else {}
        write_whole(path, json.dumps(errors) + "\n")


def fused_errors(folder: Path, cfg: Config) -> dict[str, float]:
    """Test error in percent, fused in three orders of the test images, and as it should be: not fused."""
    predictor = Predictor.load(folder)
    record = data.SplitRecord.from_json(folder / "split.json")
    all_labels = find_method(cfg.method.name).needs_all_labels
    split = data.load(cfg.data, labels=cfg.labels, fold=cfg.fold, all_labels=all_labels, record=record)
    images = next(iter(split.tests.values()))
    labels = images.labels_of()
    orders = {
        "stored": torch.arange(len(images)),
        "sorted": labels.argsort(stable=True),
        "shuffled": torch.randperm(len(images), generator=rng.generator(0, "order of the test images")),
    }
    errors = {name: fused_error(predictor, images.subset(rows), cfg.method) for name, rows in orders.items()}
    return {"alone": fused_error(predictor, images, None), **errors}


@torch.inference_mode()
def fused_error(predictor: Predictor, images: Images, method: Any) -> float:
    """Test error in percent with the fusion that `method` configures, or with none."""
    batches = evaluate.normalized_batches(
        images, predictor.mean, predictor.std, device=torch.device("cpu"), size=BATCH
    )
    how = {} if method is None else {"midway": partial(fuse, method), "at": method.fusion_point}
    predictor.model.eval()
    predicted = torch.cat([predictor.model(batch, **how).argmax(-1) for batch in batches])
    return round(100 * float((predicted != images.labels_of()).double().mean()), 4)


def fuse(method: Any, rows: Tensor) -> Tensor:
    """Each row takes a share of its neighbour in the batch, the last one of the first (or the reverse)."""
    return torch.lerp(rows, rows.roll(-1 if method.neighbour == "next" else 1, dims=0), method.alpha)
