"""A set of images and their labels: the one form in which every data set is held."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from hashlib import blake2b
from math import prod
from typing import Any, Protocol, Self

import torch
from torch import Tensor

from interlude.data.names import Names

UNKNOWN = -1  # the label of an image whose label is not known
CHUNK_BYTES = 1 << 24  # how much is read at once when all pixels are visited


class Pixels(Protocol):
    """What is asked of pixels, uint8 (M, C, H, W): a tensor has it, and images decoded when needed do too."""

    @property
    def shape(self) -> torch.Size: ...

    @property
    def dtype(self) -> torch.dtype: ...

    def __getitem__(self, rows: Any, /) -> Tensor: ...

    def index_select(self, dim: int, index: Tensor, /) -> Tensor: ...


@dataclass(frozen=True, eq=False)
class Images:
    """Images in one tensor, which may be a memory map. A subset shares the pixels and lists its rows."""

    pixels: Pixels  # uint8 (M, C, H, W)
    labels: Tensor  # int64 (M,)
    rows: Tensor | None = None  # int64, which of the M belong; None: all of them
    digests: Tensor | None = None  # uint8 (M, 16), a fingerprint of each, where known without reading pixels
    names: Names | None = None  # of the M files that they come from, if they do

    def __post_init__(self) -> None:
        assert self.pixels.dtype == torch.uint8, self.pixels.dtype
        assert len(self.pixels.shape) == 4, self.pixels.shape
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

    def names_of(self) -> list[str]:
        """The file of each image, from its folder on; its number in the data set where there are no files."""
        rows = range(len(self)) if self.rows is None else self.rows.tolist()
        return list(map(str, rows)) if self.names is None else [self.names[row] for row in rows]

    def subset(self, rows: Tensor) -> Self:
        """These rows alone, without copying a pixel."""
        return replace(self, rows=self._origin(rows))

    def chunks(self) -> Iterator[Tensor]:
        """All pixels in order, a few megabytes at a time."""
        size = max(1, CHUNK_BYTES // max(1, prod(self.pixels.shape[1:])))
        for start in range(0, len(self), size):
            stop = min(start + size, len(self))
            yield self.pixels[start:stop] if self.rows is None else self.take(torch.arange(start, stop))

    def content_hash(self) -> str:
        """A fingerprint of shape, pixels and labels, whatever file they came from."""
        digest = blake2b(repr((len(self), *self.pixels.shape[1:])).encode(), digest_size=16)
        for chunk in self.chunks() if self.digests is None else [self._digests()]:
            digest.update(chunk.contiguous().numpy().data)
        digest.update(self.labels_of().contiguous().numpy().astype("<i8").data)
        return digest.hexdigest()

    def image_hashes(self) -> list[bytes]:
        """A fingerprint of the bytes of each image, in order."""
        if self.digests is not None:
            return [digest.tobytes() for digest in self._digests().numpy()]
        return [
            blake2b(image.data, digest_size=16).digest()
            for chunk in self.chunks()
            for image in chunk.contiguous().numpy()
        ]

    def _digests(self) -> Tensor:
        assert self.digests is not None
        return self.digests if self.rows is None else self.digests[self.rows]

    def _origin(self, rows: Tensor) -> Tensor:
        return rows if self.rows is None else self.rows[rows]
