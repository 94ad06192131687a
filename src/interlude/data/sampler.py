"""Which image stands at which position of an endless shuffled stream, computed without keeping any order."""

from functools import lru_cache
from math import isqrt

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from interlude import rng
from interlude.errors import UserError

AT_ONCE = 4096  # positions; numpy takes little longer for them than for the few of a step
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
        self.size, self._key = size, rng.key(seed, "sampler", stream)

    def rows(self, start: int, count: int) -> Tensor:
        """The rows at positions start .. start + count."""
        first, last = start // AT_ONCE, max(start, start + count - 1) // AT_ONCE
        pieces = [_piece(self.size, self._key, number) for number in range(first, last + 1)]
        return torch.from_numpy(np.concatenate(pieces)[start - first * AT_ONCE :][:count].copy())


@lru_cache(maxsize=16)
def _piece(size: int, key: int, number: int) -> NDArray[np.int64]:
    """The rows at AT_ONCE positions from a multiple of it on, kept for all the steps that meet in it."""
    position = np.arange(number * AT_ONCE, (number + 1) * AT_ONCE, dtype=np.uint64)
    epoch, place = np.divmod(position, np.uint64(size))
    keys = _mix(np.uint64(key) + _mix(epoch * np.uint64(_GOLDEN)))
    row = _permute(size, place, keys)
    # what falls outside walks on until it is back inside: still a bijection
    while (outside := np.flatnonzero(row >= size)).size:
        row[outside] = _permute(size, row[outside], keys[outside])
    return row.astype(np.int64)


def _permute(size: int, place: Words, keys: Words) -> Words:
    """A bijection of a grid just large enough: each half in turn is moved by a hash of the other half."""
    columns = isqrt(size - 1) + 1
    width, height = np.uint64(columns), np.uint64(-(-size // columns))  # place = left * width + right
    left, right = np.divmod(place, width)
    for number, round_key in enumerate(_ROUND_KEYS):
        if number % 2:
            left = _wrapped(left + _below(height, _mix(keys + round_key ^ right)), height)
        else:
            right = _wrapped(right + _below(width, _mix(keys + round_key ^ left)), width)
    mixed: Words = left * width + right
    return mixed


def _wrapped(words: Words, bound: np.uint64) -> Words:
    """Words below twice a bound, modulo it, without a division; below zero is far above."""
    wrapped: Words = np.minimum(words, words - bound)
    return wrapped


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
