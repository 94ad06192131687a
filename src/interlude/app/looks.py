"""What images look like at a glance: the colours of an 8x8 version, collected in the background."""

import time
from threading import Event, Thread

import numpy as np
from PIL import Image

from interlude.app.images import Album
from interlude.app.sample import random_order
from interlude.app.select import Points, Rows
from interlude.data.decode import Unreadable

SIDE = 8
FIRST = 500  # images whose looks are enough for a first proposal
PATIENCE = 1.5  # seconds after which fewer have to do
MOST = 5000  # images that are looked at


class Looks:
    """Looks of a random part of the images, more from moment to moment."""

    def __init__(self, album: Album) -> None:
        self.album = album
        self.order = random_order(album.paths)[:MOST]
        self.points: Points = np.zeros((len(album), 3 * SIDE * SIDE), np.float32)
        self.seen = np.zeros(len(album), np.bool_)
        self.broken = np.zeros(len(album), np.bool_)
        self._began = 0.0
        self._enough, self._stop = Event(), Event()
        self._thread = Thread(target=self._collect, name="looks", daemon=True)

    def start(self) -> None:
        """Begin to look."""
        self._began = time.monotonic()
        self._thread.start()

    def stop(self) -> None:
        """Look no further."""
        self._stop.set()

    @property
    def are_enough(self) -> bool:
        """Whether a first proposal has all it needs."""
        return self._enough.is_set()

    def rows(self) -> Rows:
        """The images whose looks are known, after a short wait for the first ones."""
        self._enough.wait(max(0.0, self._began + PATIENCE - time.monotonic()))
        return np.flatnonzero(self.seen)

    def _collect(self) -> None:
        try:
            for number, row in enumerate(self.order.tolist()):
                if self._stop.is_set():
                    return
                self.look(row)
                if number + 1 >= FIRST:
                    self._enough.set()
                    time.sleep(0.001)  # who asks for a thumbnail comes first
        finally:
            self._enough.set()

    def look(self, row: int) -> None:
        """Take in one image."""
        try:
            picture = self.album.picture(row, 2 * SIDE)
        except (Unreadable, ValueError):
            self.broken[row] = True
            return
        small = picture.resize((SIDE, SIDE), Image.Resampling.BOX).convert("RGB")
        self.points[row] = np.asarray(small, np.float32).reshape(-1) / 255
        self.seen[row] = True
