"""A random sample of the images that grows with the labeling: what the page's number rests on."""

from collections.abc import Sequence
from hashlib import blake2b

import numpy as np
from numpy.typing import NDArray

from interlude.app.select import Rows

KEY = b"interlude app: drawn at random"


def random_order(paths: Sequence[str]) -> Rows:
    """The images in an order that has nothing to do with them, by a hash of their paths.

    It is the same at every start; a new file falls anywhere, and leaves the order of the others as it was.
    """
    hashes = [blake2b(path.encode(), digest_size=8, key=KEY).digest() for path in paths]
    return np.array(sorted(range(len(paths)), key=hashes.__getitem__), np.int64)


class Sample:
    """The longest beginning of the random order in which every readable image has been marked.

    The beginning of a random order is a random sample, whatever else was marked and for whatever reason; so
    nothing is kept of it, and undo, new files and a new start change nothing. It can run on over images that
    were chosen: with k drawn and a share c of the others marked already, the chosen ones have c / (1 - c) too
    many in it, against k / (1 - c) images in all. That is a small part of one image, unless most are marked;
    and then most images are like those.
    """

    def __init__(self, paths: Sequence[str], unreadable: NDArray[np.bool_]) -> None:
        self.order, self.unreadable = random_order(paths), unreadable

    def drawn(self, marked: NDArray[np.bool_]) -> Rows:
        """The images of the sample, given which images are marked."""
        order = self._readable()
        return np.asarray(order[np.logical_and.accumulate(marked[order])])

    def waiting(self, marked: NDArray[np.bool_]) -> Rows:
        """The images that it grows by next, in order."""
        order = self._readable()
        return np.asarray(order[~marked[order]])

    def _readable(self) -> Rows:
        return np.asarray(self.order[~self.unreadable[self.order]])
