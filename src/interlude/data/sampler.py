"""Which image stands at which position of an endless shuffled stream, computed without keeping any order."""

from math import isqrt

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from interlude import rng
from interlude.errors import UserError

Words = NDArray[np.uint64]

_GOLDEN = 0x9E3779B97F4A7C15
# with fewer than ten rounds, neighbours in small sets are visibly correlated
_ROUND_KEYS = [np.uint64(number * _GOLDEN % 2**64) for number in range(12)]


class Sampler:
    """An endless concatenation of fresh permutations of range(size), one for each epoch.

    Each permutation is a keyed bijection (a Feistel network), so that any stretch costs its own length,
    whatever the size, and the rows of a step are a function of seed, stream and position.
    """

    def __init__(self, size: int, *, seed: int, stream: str) -> None:
        if size < 1:
            raise UserError(f"there are no {stream} images to draw from")
        self.size = size
        self._key = np.uint64(rng.key(seed, "sampler", stream))
        # a grid just large enough: position = left * width + right
        self._width = isqrt(size - 1) + 1
        self._height = -(-size // self._width)

    def rows(self, start: int, count: int) -> Tensor:
        """The rows at positions start .. start + count."""
        position = np.arange(start, start + count, dtype=np.uint64)
        epoch, place = np.divmod(position, np.uint64(self.size))
        keys = _mix(self._key + _mix(epoch * np.uint64(_GOLDEN)))
        row = self._permute(place, keys)
        # what falls outside walks on until it is back inside: still a bijection
        while (outside := np.flatnonzero(row >= self.size)).size:
            row[outside] = self._permute(row[outside], keys[outside])
        return torch.from_numpy(row.astype(np.int64))

    def _permute(self, place: Words, keys: Words) -> Words:
        """A bijection of the grid: each half in turn is moved by a hash of the other half."""
        width, height = np.uint64(self._width), np.uint64(self._height)
        left, right = np.divmod(place, width)
        for number, round_key in enumerate(_ROUND_KEYS):
            if number % 2:
                left = (left + _below(height, _mix(keys + round_key ^ right))) % height
            else:
                right = (right + _below(width, _mix(keys + round_key ^ left))) % width
        mixed: Words = left * width + right
        return mixed


def _mix(words: Words) -> Words:
    """A hash of each word, its upper half above all."""
    words = words * np.uint64(0xBF58476D1CE4E5B9)
    words ^= words >> np.uint64(32)
    words *= np.uint64(0x94D049BB133111EB)
    words ^= words >> np.uint64(32)
    return words


def _below(bound: np.uint64, words: Words) -> Words:
    """Words mapped to 0 .. bound - 1, evenly, for a bound below 2**32."""
    scaled: Words = ((words >> np.uint64(32)) * bound) >> np.uint64(32)
    return scaled
