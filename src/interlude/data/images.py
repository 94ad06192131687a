"""A set of images and their labels: the one form in which every data set is held."""

from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import blake2b
from typing import Self

import torch
from torch import Tensor

UNKNOWN = -1  # the label of an image whose label is not known
CHUNK_BYTES = 1 << 24  # how much is read at once when all pixels are visited


@dataclass(frozen=True, eq=False)
class Images:
    """Images in one tensor, which may be a memory map. A subset shares the pixels and lists its rows."""

    pixels: Tensor  # uint8 (M, C, H, W)
    labels: Tensor  # int64 (M,)
    rows: Tensor | None = None  # int64, which of the M belong; None: all of them

    def __post_init__(self) -> None:
        assert self.pixels.dtype == torch.uint8, self.pixels.dtype
        assert self.pixels.ndim == 4, self.pixels.shape
        assert self.labels.dtype == torch.int64, self.labels.dtype
        assert self.labels.shape == self.pixels.shape[:1], (self.labels.shape, self.pixels.shape)

    def __len__(self) -> int:
        return len(self.labels if self.rows is None else self.rows)

    @property
    def channels(self) -> int:
        return self.pixels.shape[1]

    @property
    def image_size(self) -> tuple[int, int]:
        """Height and width."""
        return self.pixels.shape[2], self.pixels.shape[3]

    def take(self, rows: Tensor) -> Tensor:
        """The pixels of these rows, uint8 (n, C, H, W)."""
        return self.pixels.index_select(0, self._origin(rows))

    def labels_of(self, rows: Tensor | None = None) -> Tensor:
        """The labels of these rows, or of all images; -1 where none is known."""
        if rows is None:
            return self.labels if self.rows is None else self.labels[self.rows]
        return self.labels[self._origin(rows)]

    def subset(self, rows: Tensor) -> Self:
        """These rows alone, without copying a pixel."""
        return type(self)(self.pixels, self.labels, self._origin(rows))

    def chunks(self) -> Iterator[Tensor]:
        """All pixels in order, a few megabytes at a time."""
        size = max(1, CHUNK_BYTES // max(1, self.pixels[:1].numel()))
        for start in range(0, len(self), size):
            stop = min(start + size, len(self))
            yield self.pixels[start:stop] if self.rows is None else self.take(torch.arange(start, stop))

    def content_hash(self) -> str:
        """A fingerprint of shape, pixels and labels, whatever file they came from."""
        digest = blake2b(repr((len(self), *self.pixels.shape[1:])).encode(), digest_size=16)
        for chunk in self.chunks():
            digest.update(chunk.contiguous().numpy().data)
        digest.update(self.labels_of().contiguous().numpy().astype("<i8").data)
        return digest.hexdigest()

    def image_hashes(self) -> list[bytes]:
        """A fingerprint of the bytes of each image, in order."""
        return [
            blake2b(image.data, digest_size=16).digest()
            for chunk in self.chunks()
            for image in chunk.contiguous().numpy()
        ]

    def _origin(self, rows: Tensor) -> Tensor:
        return rows if self.rows is None else self.rows[rows]
