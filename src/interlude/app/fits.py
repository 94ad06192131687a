"""The fits of a folder: the one that runs, those that are finished, and what they came to."""

import json
import os
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from interlude.app.beliefs import Beliefs, read_beliefs
from interlude.app.jobs import INTERLUDE, Job, Orphan, is_taken, last_line
from interlude.app.labels import Conflict, Labels, Missing
from interlude.errors import UserError
from interlude.files import write_whole
from interlude.fitting.budget import parse_time
from interlude.lock import LOCK

OUTCOME, POOL, REPORT = "fit.json", "unlabeled.csv", "report.html"
MODEL = ("config.json", "model.safetensors", "calibration.safetensors")
LONGEST = 24 * 3600.0  # seconds of a budget
NOT_DRAWN = "none of its labels was known to be drawn at random; train again"


@dataclass(frozen=True)
class Fit:
    """What a finished fit came to; `accuracy` is balanced, of labels drawn at random, in percent."""

    fit: str
    labels: int
    accuracy: float | None
    low: float | None
    high: float | None
    judged: int  # labels that were drawn at random, and held out in turn
    basis: str  # the same in words
    reason: str  # why there is no accuracy
    verdict: str
    outcome: str
    seconds: float
    time: str

    def to_json(self) -> dict[str, Any]:
        """As the page knows it."""
        return asdict(self)


class Fits:
    """The folder `place`, with a run folder for each fit and beside it what it was begun with."""

    def __init__(self, folder: Path, place: Path, labels: Labels, weights: str | None) -> None:
        self.folder, self.place, self.labels, self.weights = folder, place, labels, weights
        self.version = 0
        self.job: Job | Orphan | None = None
        self.name: str | None = None  # of the fit that runs, or ran last
        self.outcome, self.message = "idle", ""
        self._began, self._budget, self._line, self._asked = 0.0, 1.0, "", False
        self._told: dict[str, Any] = {}  # what the page knows of the fit that runs
        self._read: dict[str, Fit] = {}
        self._adopt()

    def start(self, budget: str, table: str, *, force: bool = False) -> str:
        """Begin a fit with the labels of this moment; returns its name."""
        with self.labels.lock:
            if self.job is not None:
                raise Conflict("a fit is running already; wait for it, or stop it")
            self._check_labels()
            seconds = parse_time(budget)
            if seconds > LONGEST:
                raise UserError("a fit can take a day at most")
            name = f"{max([0, *map(int, self._names())]) + 1:03d}"
            write_whole(self._beside(name, "labels.csv"), table, sync=True)
            self.job = Job(self._command(name, budget, force=force), log=self._beside(name, "log"))
            self.name, self.outcome, self.message = name, "running", ""
            self._began, self._budget, self._line, self._asked = time.time(), seconds, "", False
            numbers = {text: number for number, text in self.labels.classes.items()}
            about = {"pid": self.job.pid, "began": self._began, "budget": seconds, "classes": numbers}
            write_whole(self._beside(name, "json"), json.dumps(about) + "\n", sync=True)
            self.version += 1
            return name

    def stop(self) -> None:
        """Ask the fit that runs to end."""
        if self.job is None:
            raise Conflict("no fit is running")
        self._asked = True
        self.job.stop()

    def close(self) -> None:
        """End the fit that runs; it would outlive us otherwise."""
        if self.job is not None:
            self.job.end()

    def poll(self) -> bool:
        """Look after the fit that runs; whether it has just been finished."""
        with self.labels.lock:
            return self._poll()

    def _poll(self) -> bool:
        if self.job is None:
            return False
        code, self._line = self.job.code, last_line(self.job.log)
        if code is None:
            before, self._told = self._told, self.state()
            self.version += self._told != before
            return False
        self.job, line = None, self._line
        self.version += 1
        if code == 0 and self.name in self._finished():
            self.outcome, self.message = "done", ""
            return True
        self.outcome = "idle" if self._asked else "failed"
        self.message = "stopped" if self._asked else line.removeprefix("error: ") or f"exit code {code}"
        return False

    def state(self) -> dict[str, Any]:
        """What the page shows of the fit that runs."""
        share = min(0.99, (time.time() - self._began) / self._budget)
        return {
            "state": self.outcome,
            "fit": self.name,
            "line": self._line if self.job is not None else "",
            "fraction": round(share, 2) if self.job is not None else None,
            "message": self.message,
        }

    def all(self) -> list[Fit]:
        """The finished fits, oldest first."""
        return [fit for name in self._finished() if (fit := self._fit(name)) is not None]

    def latest(self) -> Fit | None:
        """The last one."""
        return next((fit for name in reversed(self._finished()) if (fit := self._fit(name))), None)

    def beliefs(self) -> Beliefs | None:
        """What the model of the last fit believes of the images that it had no labels of."""
        latest = self.latest()
        if latest is None:
            return None
        about = self._about(latest.fit)
        return read_beliefs(self.place / latest.fit / POOL, self.labels.row_of, about.get("classes", {}))

    def run(self, name: str) -> Path:
        """The run folder of a finished fit."""
        if name not in self._finished():
            raise Missing("there is no such fit")
        return self.place / name

    def findings(self) -> Path | None:
        """What the doctor said at the beginning of the last fit."""
        found = [path for name in self._names() if (path := self.place / name / "doctor.json").exists()]
        return found[-1] if found else None

    def _check_labels(self) -> None:
        """Say what is missing for a fit."""
        counts = self.labels.counts()
        used = sum(count > 0 for count in counts.values())
        if len(counts) < 2:
            raise UserError("name at least two classes first")
        if used < 2:
            raise UserError(f"label images of at least two classes first; there are labels of {used}")

    def _command(self, name: str, budget: str, *, force: bool) -> list[str]:
        table, run = self._beside(name, "labels.csv"), self.place / name
        command = [*INTERLUDE, "fit", str(self.folder), "--labels", str(table), "--out", str(run)]
        command += ["--budget", budget, *(["--force"] if force else [])]
        return command + (["--weights", self.weights] if self.weights else [])

    def _adopt(self) -> None:
        """Go on with a fit that outlived the server which began it."""
        names = self._names()
        if not names or names[-1] in self._finished():
            return
        name, about = names[-1], self._about(names[-1])
        lock = self.place / name / LOCK
        if about and is_taken(lock):
            done = self.place / name / OUTCOME
            self.job = Orphan(lock, int(about["pid"]), log=self._beside(name, "log"), done=done)
            self.name, self.outcome = name, "running"
            self._began, self._budget = float(about["began"]), float(about["budget"])

    def _names(self) -> list[str]:
        """Of all fits that were begun."""
        found = [entry.name.partition(".")[0] for entry in os.scandir(self.place)]
        return sorted({name for name in found if name.isdecimal()}, key=int)

    def _finished(self) -> list[str]:
        return [name for name in self._names() if (self.place / name / OUTCOME).exists()]

    def _beside(self, name: str, ending: str) -> Path:
        return self.place / f"{name}.{ending}"

    def _about(self, name: str) -> dict[str, Any]:
        return read_json(self._beside(name, "json"))

    def _fit(self, name: str) -> Fit | None:
        """What a finished fit came to; None if its file is damaged."""
        if name not in self._read:
            for fit in _summary(name, read_json(self.place / name / OUTCOME)):
                self._read[name] = fit
        return self._read.get(name)


def _summary(name: str, content: dict[str, Any]) -> Iterator[Fit]:
    """The outcome of a fit in short."""
    try:
        kept = next(x for x in content["candidates"] if x["name"] == content["verdict"]["kept"])
        crossed = content["cross_validation"]
        is_honest = crossed.get("sampled") is not None  # else the labels were chosen, and flatter or lower it
        figures = kept["balanced_accuracy"] if is_honest else None
        figures = figures or {}
        yield Fit(
            fit=name,
            labels=sum(content["counts"]["labeled"].values()),
            accuracy=figures.get("mean"),
            low=figures.get("low"),
            high=figures.get("high"),
            judged=crossed["images"] if is_honest else 0,
            basis=crossed.get("basis", ""),
            reason=crossed["why_not"] if is_honest else NOT_DRAWN,
            verdict=content["verdict"]["sentence"],
            outcome=content["verdict"]["outcome"],
            seconds=content["seconds"]["total"],
            time=content["created"],
        )
    except (KeyError, StopIteration, TypeError, AttributeError):
        return


def read_json(path: Path) -> dict[str, Any]:
    """An object in a file; an empty one if there is none."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}
