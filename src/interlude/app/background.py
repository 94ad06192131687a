"""What is found out about the images beside the labeling, once: their vectors, and what the doctor says."""

import json
import re
import sys
from pathlib import Path
from typing import Any

import numpy as np

from interlude.app.fits import read_json
from interlude.app.images import Album
from interlude.app.jobs import INTERLUDE, Job, last_line
from interlude.app.looks import Looks
from interlude.app.select import Points
from interlude.files import write_whole

UNAVAILABLE = 3  # exit code of vectors.py
DONE = re.compile(r"(\d+)/(\d+)")
ABOUT_LABELS = ("no-labels",)  # a finding that is none before the labeling has begun


class Features:
    """Vectors of a frozen network, extracted in a process of their own and kept on disk."""

    def __init__(self, album: Album, looks: Looks, place: Path, weights: str | None) -> None:
        self.album, self.looks, self.place = album, looks, place
        self.weights = None if weights is None else str(Path(weights).expanduser().resolve())
        self.job: Job | None = None
        self.outcome, self.reason = "waiting", ""
        self.done, self.total = 0, len(looks.order)
        self.version = 0
        self.points: Points | None = None  # of all images, NaN where there is none
        key = album.digest() + ("" if self.weights is None else f"-{Path(self.weights).stem}")
        self._file = place / f"vectors-{key}.npz"

    def start(self) -> None:
        """Begin, unless the vectors are there already."""
        if self.outcome != "waiting":
            return
        listed, order = self.place / "vectors.json", self.looks.order.tolist()
        write_whole(listed, json.dumps({"rows": order, "paths": [self.album.paths[row] for row in order]}))
        command = [sys.executable, "-m", "interlude.app.vectors", str(self.album.root), str(listed)]
        command += [str(self._file), *([self.weights] if self.weights else [])]
        log = self.place / "vectors.log"
        log.unlink(missing_ok=True)
        self.job, self.outcome = Job(command, log=log), "running"
        self.version += 1

    def poll(self) -> None:
        """Look after the extraction."""
        if self.job is None:
            return
        code, line = self.job.code, last_line(self.job.log)
        found = DONE.search(line)
        done = int(found[1]) if found else self.done
        self.version += done != self.done
        self.done = done
        if code is not None:
            self.job = None
            self.version += 1
            if code != 0 or not self.load():
                self.outcome = "unavailable"
                self.reason = line if code == UNAVAILABLE else f"the extraction failed: {line}"

    def state(self) -> dict[str, Any]:
        """What the page shows of it."""
        return {"state": self.outcome, "done": self.done, "total": self.total, "reason": self.reason}

    def load(self) -> bool:
        """Take the vectors that are on the disk; whether there are any."""
        try:
            with np.load(self._file, allow_pickle=False) as kept:
                rows, points = kept["rows"], kept["points"]
        except (OSError, ValueError, KeyError):
            return False
        self.points = np.full((len(self.album), points.shape[1]), np.nan, np.float32)
        self.points[rows] = points
        self.outcome, self.done, self.reason = "ready", self.total, ""
        return True


class Doctor:
    """The doctor's findings on the folder, kept on disk as long as it has the same files."""

    def __init__(self, album: Album, place: Path) -> None:
        self.album, self.place = album, place
        self.job: Job | None = None
        self._file = place / f"doctor-{album.digest()}.json"
        self._fresh = self._file.with_suffix(".part")
        self.failure = ""

    def start(self) -> None:
        """Begin, unless the findings are there already."""
        if self.job is not None or self.failure or self._file.exists():
            return
        table = self.place / "doctor.csv"  # it takes no folder for a class, and no image for labeled
        write_whole(table, f'file_name,label\n"{self.album.paths[0].replace(chr(34), chr(34) * 2)}",\n')
        command = [*INTERLUDE, "doctor", str(self.album.root), "--labels", str(table), "--json", "--quiet"]
        self.job = Job(command, log=self.place / "doctor.log", out=self._fresh)

    def poll(self) -> bool:
        """Whether it has just ended."""
        if self.job is None or self.job.code is None:
            return False
        self.job = None
        if read_json(self._fresh):
            self._fresh.replace(self._file)
        else:
            self.failure = last_line(self.place / "doctor.log") or "the doctor said nothing"
        return True

    def state(self, newer: Path | None) -> dict[str, Any]:
        """The findings; `newer` are those of a fit, which knows the labels too."""
        content = read_json(newer) if newer is not None else read_json(self._file)
        if content:
            return {"findings": [_told(finding) for finding in content["findings"] if _counts(finding)]}
        return {"findings": [], "failure": self.failure} if self.failure else {"running": True}


def _counts(finding: dict[str, Any]) -> bool:
    return finding.get("kind") not in ABOUT_LABELS


def _told(finding: dict[str, Any]) -> dict[str, Any]:
    """A finding as the page knows it."""
    told = {"severity": finding["severity"], "title": finding["says"], "detail": finding["do"]}
    return told | {"count": finding["count"], "files": finding["files"][:20]}
