"""All that the page works on: the images of a folder, their labels, proposals, and the work in hand."""

import secrets
import sqlite3
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from threading import Event, Thread
from typing import Any, ParamSpec, TypeVar

from interlude.app.background import Doctor, Features
from interlude.app.before import labels_before
from interlude.app.beliefs import Beliefs
from interlude.app.fits import Fits
from interlude.app.forecast import Point, forecast
from interlude.app.images import Album
from interlude.app.labels import MARKS, NONE, Labels
from interlude.app.log import Log
from interlude.app.looks import Looks
from interlude.app.propose import Proposer
from interlude.errors import RunError, UserError
from interlude.files import write_whole
from interlude.fitting.sample import LEAST_SAMPLE

STATE = ".interlude"
P = ParamSpec("P")
R = TypeVar("R")
TICK = 0.5  # seconds between two looks at work in hand


class Project:
    """A folder of images with what is known of it; `start` sets off the work in the background."""

    def __init__(
        self, folder: Path, state: Path, *, weights: str | None = None, table: str | None = None
    ) -> None:
        self.folder, self.place = folder, state
        self.session = secrets.token_hex(8)
        self.album = Album(folder, state / "thumbnails")
        self.labels = Labels(Log(state / "labels.sqlite"), self.album.paths)
        found = labels_before(self.album, table)
        self.num_read_in = self.writing(self.labels.read_in, found.labels, found.where) if found else 0
        self.looks = Looks(self.album)
        self.proposer = Proposer(self.labels, self.looks)
        self.fits = Fits(self.album.root, state / "fits", self.labels, weights)
        self.features = Features(self.album, self.looks, state, weights)
        self.doctor = Doctor(self.album, state)
        self.proposer.learn(None, self.fits.beliefs())
        self._saved, self._more = (-1, 0), 0
        self._stop = Event()
        self._ticks = Thread(target=self._tick, name="ticks", daemon=True)

    def start(self) -> None:
        """Begin what goes on beside the page."""
        self.looks.start()
        self.features.load()
        self.proposer.learn(self.features.points, self.beliefs)
        self._ticks.start()

    def leave(self) -> None:
        """Begin the end: whoever listens to events is let go."""
        self._stop.set()

    def close(self) -> None:
        """End what goes on, and leave everything written down."""
        self.leave()
        self.looks.stop()
        if self._ticks.is_alive():
            self._ticks.join()
        self.fits.close()
        for job in (self.features.job, self.doctor.job):
            if job is not None:
                job.end()
        self.save()
        self.labels.log.close()

    @property
    def closing(self) -> bool:
        """Whether the end has begun."""
        return self._stop.is_set()

    @property
    def beliefs(self) -> Beliefs | None:
        """What the last model believes."""
        return self.proposer.beliefs

    @property
    def changed(self) -> int:
        """A number that grows with every change."""
        return self.labels.version + self.fits.version + self.features.version + self._more

    def state(self) -> dict[str, Any]:
        """What the page shows at all times."""
        with self.labels.lock:
            counts, marks, latest = self.labels.counts(), self.labels.marks, self.fits.latest()
            sampled = int((marks[self.proposer.sample.drawn(marks != NONE)] >= 0).sum())
            return {
                "session": self.session,
                "folder": self.album.root.name,
                "images": len(self.album),
                "classes": [
                    {"id": number, "name": name, "count": counts[number]}
                    for number, name in self.labels.classes.items()
                ],
                "labeled": sum(counts.values()),
                "sample": {"labels": sampled, "least": LEAST_SAMPLE},
                "skipped": int((marks == MARKS["skip"]).sum()),
                "strange": int((marks == MARKS["strange"]).sum()),
                "can_undo": self.labels.can_undo,
                "phase": self.proposer.phase,
                "features": self.features.state(),
                "training": self.fits.state(),
                "latest": None if latest is None else latest.to_json(),
                "changed": self.changed,
            }

    def writing(self, change: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """Make a change of the labels, which is on the disk when this returns."""
        try:
            return change(*args, **kwargs)
        except sqlite3.Error as error:
            raise RunError(f"this could not be written down ({error}); see to {self.place}") from error

    def save(self) -> Path:
        """The labels as a table for `fit`, written if it is not up to date."""
        path, version = self.place / "labels.csv", (self.labels.version, int(self.looks.broken.sum()))
        if version != self._saved or not path.exists():
            write_whole(path, self.table(), sync=True)
            self._saved = version
        return path

    def table(self) -> str:
        """The labels of this moment for `fit`, with which of them were drawn at random."""
        with self.labels.lock:
            return self.labels.table(self.proposer.sample.drawn(self.labels.marks != NONE).tolist())

    def results(self) -> dict[str, Any]:
        """What the fits came to, the curve over labels, and what more labels would buy."""
        fits = self.fits.all()
        points = [
            Point(fit.labels, fit.accuracy, fit.low, fit.high)
            for fit in fits
            if fit.accuracy is not None and fit.low is not None and fit.high is not None
        ]
        return {
            "fits": [fit.to_json() for fit in fits],
            "curve": [point._asdict() for point in sorted(points)],
            "forecast": forecast(points),
        }

    def _tick(self) -> None:
        while not self._stop.wait(TICK):
            with suppress(OSError):  # a full disk: the labels are safe in the log, the table is made again
                self.save()
            with suppress(OSError):
                self._look_after()

    def _look_after(self) -> None:
        """See what the processes beside us have done."""
        self.features.poll()
        with self.labels.lock:  # as `state` does: who hears that a fit is done finds its beliefs here
            finished = self.fits.poll()
            self.proposer.learn(self.features.points, self.fits.beliefs() if finished else self.beliefs)
            self._more += finished
        if self.looks.are_enough:  # who has just started to label is not to wait for what comes later
            self.features.start()
            if self.features.job is None:
                self.doctor.start()
        self._more += self.doctor.poll()


def make_place(folder: Path, out: Path | None) -> Path:
    """The folder in which labels, thumbnails and fits are kept."""
    place = out or folder / STATE
    if not folder.is_dir():
        state = "is a file; give the folder that holds the images" if folder.exists() else "does not exist"
        raise UserError(f"the image folder {folder} {state}")
    try:
        (place / "fits").mkdir(parents=True, exist_ok=True)
        probe = place / "app.lock"
        probe.open("a").close()
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise UserError(f"{place} cannot be written: {reason}; choose another place by --out DIR") from None
    return place
