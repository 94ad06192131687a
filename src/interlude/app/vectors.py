"""Vectors of a frozen network for some images of a folder, as a program of its own.

    python -m interlude.app.vectors FOLDER LIST OUT [WEIGHTS]

LIST has the numbers and paths of the images as JSON, OUT becomes an npz file of `rows` and `points`. It ends
with code 3 and the reason on the last line if no weights can be had.
"""

import json
import sys
from collections.abc import Iterator, Sequence
from io import BytesIO
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from interlude import machine
from interlude.app.select import Points, Rows
from interlude.augment import normalize
from interlude.config import Layer, resolve
from interlude.data.decode import Unreadable, look, read_pixels
from interlude.data.parallel import chunks, in_order
from interlude.errors import UserError
from interlude.files import write_whole
from interlude.fitting.choose import Facts, choose
from interlude.fitting.options import FitOptions
from interlude.models import Frozen, build
from interlude.progress import Progress

UNAVAILABLE = 3
BATCH = 32
SEEN = 96  # pixels a side at which the network sees images: enough to tell what is alike
LOOKED_AT = 50  # files from which the usual size follows
WIDTH = 64  # numbers that are kept of a vector
Pixels = NDArray[np.uint8]


def main(root: str, listed: str, out: str, weights: str | None = None) -> int:
    """The exit code."""
    images = json.loads(Path(listed).read_text(encoding="utf-8"))
    rows, files = np.array(images["rows"], np.int64), [Path(root, path) for path in images["paths"]]
    threads = machine.threads().number
    torch.set_num_threads(threads)
    try:
        network, side = network_for(files, weights)
    except UserError as error:
        print(error, file=sys.stderr)
        return UNAVAILABLE
    kept, vectors = extract(network, files, side, threads)
    write(Path(out), rows[kept], shortened(vectors))
    return 0


def network_for(files: Sequence[Path], weights: str | None) -> tuple[Frozen, int]:
    """The network that `fit` would use, and the pixels a side of the images given to it."""
    plan = choose(FitOptions(weights=weights), Facts(usual_side(files), grey=False))
    if plan.lane != "features":
        raise UserError(plan.choices[0].reason)
    cfg = resolve([Layer("app", {"model": {**plan.common["model"], "input_size": SEEN}})]).model
    side = int(plan.common["data"]["image_size"])
    classifier = build(cfg, num_classes=2, channels=3, image_size=(side, side)).eval()
    assert isinstance(classifier.backbone, Frozen)
    return classifier.backbone, side


def usual_side(files: Sequence[Path]) -> int:
    """The median of the shorter sides of some images."""
    sides = []
    for file in files[:LOOKED_AT]:
        try:
            seen = look(file)
        except Unreadable:
            continue
        sides.append(min(seen.width, seen.height))
    return sorted(sides)[len(sides) // 2] if sides else SEEN


def extract(network: Frozen, files: Sequence[Path], side: int, threads: int) -> tuple[Rows, Points]:
    """The places of the files that can be read, and their vectors."""
    mean, std = (values or (0.5, 0.5, 0.5) for values in (network.mean, network.std))
    kept, vectors = [], []
    with Progress("vectors", len(files), unit="image") as progress, torch.inference_mode():
        for places, pixels in batches(files, side, threads):
            views = normalize(torch.from_numpy(pixels), mean, std).contiguous(
                memory_format=torch.channels_last
            )
            vectors.append(network.extract(views).float().numpy())
            kept.append(places)
            progress.show(int(places[-1]) + 1, {"unreadable": int(places[-1]) + 1 - sum(map(len, kept))})
    if not kept:
        raise UserError("none of the images can be read")
    return np.concatenate(kept), np.concatenate(vectors)


def batches(files: Sequence[Path], side: int, threads: int) -> Iterator[tuple[Rows, Pixels]]:
    """Places of readable files and their pixels (n, 3, side, side)."""

    def read(file: Path) -> Pixels | None:
        try:
            return read_pixels(file, 3, side)
        except Unreadable:
            return None

    for places in chunks(range(len(files)), BATCH):
        found = list(in_order(read, [files[place] for place in places], threads=threads))
        good = [place for place, pixels in zip(places, found, strict=True) if pixels is not None]
        if good:
            yield np.array(good), np.stack([pixels for pixels in found if pixels is not None])


def shortened(vectors: Points, width: int = WIDTH) -> Points:
    """Directions of the vectors in the few dimensions in which they differ most."""
    units = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
    centred = units - units.mean(0)
    if centred.shape[1] <= width:
        return np.asarray(centred, np.float32)
    _, axes = np.linalg.eigh(centred.T @ centred)
    points: Points = (centred @ axes[:, ::-1][:, :width]).astype(np.float32)
    return points


def write(path: Path, rows: Rows, points: Points) -> None:
    """The file, whole or not at all."""
    content = BytesIO()
    np.savez(content, rows=rows, points=points)
    write_whole(path, content.getvalue())


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
