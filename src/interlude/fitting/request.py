"""What the user asked of a fit, what is known of the images, and the settings that follow."""

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from interlude.config import Config, Layer, resolve
from interlude.data.decode import Unreadable, look
from interlude.data.listing import Listing
from interlude.errors import UserError
from interlude.files import write_whole
from interlude.fitting.budget import parse_time
from interlude.fitting.choose import Facts, Plan
from interlude.fitting.options import FitOptions
from interlude.run import settle

SAMPLE = 200  # files that are looked at
PLAN = "plan.json"  # in the run folder: what a fit that goes on keeps to


@dataclass(frozen=True)
class Request:
    """A folder, and what is to be made of it."""

    folder: Path
    options: FitOptions
    command: str = ""

    def __post_init__(self) -> None:
        parse_time(self.options.budget)  # a wrong one is told before any work

    @property
    def out(self) -> Path:
        """The run folder."""
        return Path(self.options.out or f"runs/{self.folder.resolve().name}-fit")

    @property
    def budget(self) -> float:
        """Seconds it may take."""
        return parse_time(self.options.budget)

    @property
    def wishes(self) -> dict[str, Any]:
        """What the result depends on, by the names of the options."""
        free = ("out", "threads", "force", "resume", "quiet")
        said = {name: value for name, value in asdict(self.options).items() if name not in free}
        return {"folder": str(self.folder.expanduser().resolve()), **said}

    @property
    def quiet(self) -> bool:
        """Whether nothing but the result is wanted."""
        return self.options.quiet


def facts_of(listing: Listing) -> Facts:
    """Size and colour of images from all over the folder."""
    step = max(1, len(listing) // SAMPLE)
    sides, grey = [], True
    for row in range(0, len(listing), step):
        try:
            seen = look(listing.path(row))
        except Unreadable:
            continue
        sides.append(min(seen.width, seen.height))
        grey = grey and seen.grey
    if not sides:
        raise UserError(f"no image in {listing.root} can be read; `interlude doctor {listing.root}` says why")
    return Facts(sorted(sides)[len(sides) // 2], grey)


def configure(request: Request, plan: Plan, method: Mapping[str, Any]) -> Config:
    """The settings of one candidate, as `train` would take them."""
    common = {**plan.common, "method": dict(method)}
    common["data"] = {
        **plan.common["data"],
        "name": f"folder:{request.folder}",
        "labels_file": request.options.labels,
        "group": request.options.group,
    }
    common |= {"seed": request.options.seed, "threads": request.options.threads, "out": str(request.out)}
    return settle(resolve([Layer("fit", common)]))


class Watch:
    """Seconds of each part of a fit."""

    def __init__(self) -> None:
        self.began = self.last = time.monotonic()
        self.seconds: dict[str, float] = {}

    def lap(self, name: str) -> None:
        """The time since the last lap went into this part."""
        now = time.monotonic()
        self.seconds[name] = self.seconds.get(name, 0.0) + now - self.last
        self.last = now

    @property
    def total(self) -> float:
        """Seconds since the beginning."""
        return time.monotonic() - self.began

    def countdown(self, seconds: float) -> Callable[[], float]:
        """What says how many are left of these seconds from now on; below zero when they are over."""
        end = self.total + seconds
        return lambda: end - self.total


class Memo:
    """What was measured when a fit began, so that it goes on with the same numbers."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def read(self, name: str) -> dict[str, Any] | None:
        """What was noted under this name; None if nothing was, or the file is damaged."""
        values = self._noted().get(name)
        return values if isinstance(values, dict) else None

    def write(self, name: str, values: Mapping[str, Any]) -> None:
        """Note it, beside what is noted already."""
        write_whole(self.path, json.dumps({**self._noted(), name: dict(values)}, indent=2) + "\n")

    def _noted(self) -> dict[str, Any]:
        try:
            return dict(json.loads(self.path.read_text(encoding="utf-8")))
        except (OSError, ValueError, TypeError):
            return {}
