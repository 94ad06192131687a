"""Files as one zip archive, sent while it is made."""

import io
from collections.abc import Iterable, Iterator
from pathlib import Path
from zipfile import ZIP_STORED, ZipFile, ZipInfo

PIECE = 1 << 20  # bytes


def zipped(files: Iterable[Path], folder: str) -> Iterator[bytes]:
    """The bytes of an archive with these files in one folder; weights do not compress, so none is."""
    sink = _Sink()
    with ZipFile(sink, "w", ZIP_STORED) as archive:
        for path in files:
            with path.open("rb") as source, archive.open(ZipInfo(f"{folder}/{path.name}"), "w") as target:
                while piece := source.read(PIECE):
                    target.write(piece)
                    yield sink.take()
    yield sink.take()


class _Sink(io.RawIOBase):
    """Takes what is written and gives it away; it cannot go back, which zipfile respects."""

    def __init__(self) -> None:
        self._kept = bytearray()

    def writable(self) -> bool:
        return True

    def write(self, data: "bytes | bytearray | memoryview") -> int:  # type: ignore[override]
        self._kept += data
        return len(data)

    def take(self) -> bytes:
        """What was written since the last call."""
        given = bytes(self._kept)
        self._kept.clear()
        return given
