"""How long a run takes: measured by a few steps on made-up images, or read from a table of networks."""

import time
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import torch
import yaml

from interlude.bench.grid import Cell
from interlude.config import Config
from interlude.data import Images, Split, SplitRecord
from interlude.loop import fit
from interlude.method import find_method
from interlude.models import ModelConfig
from interlude.run import Run, settle

PILOT_BATCH = 4  # labeled images of a pilot's first steps
LONG = 1.0  # seconds of such a step beyond which the full batch is not tried
BUDGET = 90.0  # seconds for all pilots together; what comes later is scaled by images
POOL = 32  # made-up images of each kind
SLOW = 50.0  # images a second of a network that the table does not have


class Shape(NamedTuple):
    """What the images of a data set are like."""

    channels: int
    side: int
    classes: int


@cache
def tabulated() -> dict[str, Any]:
    """What is known without measuring: the images of data sets, the pace of networks."""
    text = Path(__file__).with_name("pace.yaml").read_text(encoding="utf-8")
    tree: dict[str, Any] = yaml.safe_load(text)
    return tree


def made_up(config: Config) -> Split:
    """Random images like those of a configuration's data, labeled and unlabeled."""
    shape = Shape(*tabulated()["images"].get(config.data.name, (3, 32, 10)))
    side = config.data.image_size or shape.side
    generator = torch.Generator().manual_seed(0)
    count = max(POOL, 2 * shape.classes)
    pixels = torch.randint(
        0, 256, (count, shape.channels, side, side), dtype=torch.uint8, generator=generator
    )
    images = Images(pixels, torch.arange(count) % shape.classes)
    return Split(
        labeled=images,
        unlabeled=images,
        validation=None,
        tests={},
        num_classes=shape.classes,
        class_names=tuple(map(str, range(shape.classes))),
        class_weights=None,
        mean=(0.5,) * shape.channels,
        std=(0.25,) * shape.channels,
        record=SplitRecord(tuple(range(count))),
    )


def pilot_run(config: Config) -> Run:
    """A run on made-up images, without weights from files, that starts where a real one begins its method."""
    model = replace(config.model, weights=None, pretrained=False)
    settled = settle(replace(config, model=model, labels_first=0, select="last", out="unused"))
    return Run(settled, made_up(config), find_method(config.method.name))


def advance(run: Run, steps: int) -> None:
    """Take some steps."""
    total = run.cfg.steps
    run.cfg = replace(run.cfg, steps=min(total, run.step + steps))
    fit(run)
    run.cfg = replace(run.cfg, steps=total)


@cache
def views_per_step(method: str, config: Config) -> int:
    """How many images the network sees in a step of a method."""
    tiny = replace(
        config,
        model=ModelConfig(name="cnn"),
        optimizer=replace(config.optimizer, layer_decay=1.0),  # only ViTs name their layers
        precision="fp32",
        device="cpu",
        batch=1,
    )
    return pilot_run(tiny).views_per_step * config.batch


@dataclass(frozen=True)
class Pace:
    """Seconds that a step takes, and how that is known."""

    seconds: float
    how: str


class Pacer:
    """Paces of configurations; each pair of method and network is measured at most once."""

    def __init__(self, *, pilot: bool) -> None:
        self.pilot = pilot
        self.spent = 0.0
        self.measured: dict[tuple[str, ...], float] = {}  # seconds an image, by method and network
        self.by_network: dict[tuple[str, ...], float] = {}

    def pace(self, config: Config) -> Pace:
        """The pace of one configuration."""
        views = views_per_step(config.method.name, _core(config))
        network = (config.model.name, config.data.name)
        key = (config.method.name, *network)
        if self.pilot and key not in self.measured and self.spent < BUDGET:
            self.measured[key] = self.by_network[network] = self._measure(config)
        if key in self.measured:
            return Pace(self.measured[key] * views, "measured")
        if network in self.by_network:
            return Pace(self.by_network[network] * views, "scaled")
        return Pace(views / tabulated()["images_per_second"].get(config.model.name, SLOW), "tabulated")

    def _measure(self, config: Config) -> float:
        """Seconds an image, from a few steps: of the full batch, unless even small ones take long."""
        began = time.monotonic()
        torch.set_num_threads(config.threads)
        small = min(config.batch, PILOT_BATCH)
        seconds, per_image = time_a_step(replace(config, batch=small))
        if seconds < LONG and small < config.batch:
            _, per_image = time_a_step(config)
        self.spent += time.monotonic() - began
        return per_image


def time_a_step(config: Config) -> tuple[float, float]:
    """Seconds of a step and of an image in it: the faster of two steps after one to warm up.

    Small batches are made for several steps at once, in the first of them: a percent or two is left out then.
    """
    run = pilot_run(config)
    # one thread's own time, where there is only one: others may be at work on this machine
    clock = time.process_time if run.device.type == "cpu" and config.threads == 1 else time.perf_counter
    advance(run, 1)
    seconds = []
    for _ in range(2):
        start = clock()
        advance(run, 1)
        seconds.append(clock() - start)
    return min(seconds), min(seconds) / run.views_per_step


def _core(config: Config) -> Config:
    """What the number of images in a step depends on."""
    return replace(config, seed=0, fold=0)


def plan(cells: Iterable[Cell], pacer: Pacer) -> list[tuple[Cell, int, Pace]]:
    """Each cell with the images of a step and its pace."""
    return [
        (cell, views_per_step(cell.config.method.name, _core(cell.config)), pacer.pace(cell.config))
        for cell in cells
    ]
