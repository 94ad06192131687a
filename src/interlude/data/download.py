"""Open a data set that torchvision can fetch, and say in one line what to do where it cannot."""

import os
import pickle
import tarfile
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from hashlib import md5
from pathlib import Path
from typing import Any, NamedTuple

from interlude.data.options import DataConfig
from interlude.errors import UserError
from interlude.lock import held

# what torchvision lets through when a file is missing or damaged, a server is silent or a disk full
FAILURES = (RuntimeError, OSError, EOFError, ValueError, tarfile.TarError, zlib.error, pickle.UnpicklingError)


class Archive(NamedTuple):
    """A file as it is published."""

    folder: Path
    file: str
    md5: str


def root(cfg: DataConfig) -> Path:
    """The folder of downloaded data, laid out as torchvision does."""
    return Path(cfg.root or os.environ.get("INTERLUDE_DATA") or "~/.cache/interlude").expanduser()


def fetch(
    kind: Any,
    cfg: DataConfig,
    archives: Sequence[Archive],
    parts: Sequence[dict[str, Any]],
    *,
    damaged: Sequence[Path] = (),
) -> list[Any]:
    """The torchvision data set `kind`, opened once for each of the parts; what is missing is downloaded.

    A damaged archive is fetched again; a whole one is unpacked again where the unpacked files are not. Files
    in `damaged` are set aside first: torchvision would take their presence for their being whole.
    """

    def open_parts(download: bool) -> list[Any]:
        return [kind(root(cfg), download=download, **part) for part in parts]

    failure: Exception = RuntimeError("damaged")
    if not damaged:
        try:
            return open_parts(download=False)
        except FAILURES as error:
            failure = error
    if cfg.download or all(map(_is_whole, archives)):  # a whole archive only needs unpacking
        try:
            with _alone(root(cfg)):
                for path in filter(Path.exists, damaged):
                    path.replace(path.with_name(f"{path.name}.damaged"))
                return open_parts(download=True)
        except FAILURES as error:
            failure = error
    raise _not_available(cfg, archives, damaged, failure)


def _not_available(
    cfg: DataConfig, archives: Sequence[Archive], damaged: Sequence[Path], failure: Exception
) -> UserError:
    """The error that names each file to bring, the folder it belongs in, and why it is not there."""
    folder, wrong = archives[0].folder, [archive for archive in archives if not _is_whole(archive)]
    reason = " ".join(str(failure).split()) or type(failure).__name__
    if not wrong:
        return UserError(
            f"cannot unpack {cfg.name} in {folder} ({reason}); delete what is unpacked and try again"
        )
    bad = [path.name for path in damaged] + [item.file for item in wrong if (folder / item.file).exists()]
    state = f"{' and '.join(bad)} in {folder} is damaged" if bad else "it is not on this machine"
    tried = f"the download failed ({reason})" if cfg.download else "download is off"
    return UserError(
        f"cannot open {cfg.name}: {state} and {tried}. Put {', '.join(item.file for item in wrong)} "
        f"into {folder} (INTERLUDE_DATA or --data.root choose another folder)"
    )


def _is_whole(archive: Archive) -> bool:
    path = archive.folder / archive.file
    if not path.is_file():
        return False
    digest = md5(usedforsecurity=False)
    with path.open("rb") as file:
        while chunk := file.read(1 << 20):
            digest.update(chunk)
    return digest.hexdigest() == archive.md5


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Let one process at a time download into the folder: two would write into the same file."""
    folder.mkdir(parents=True, exist_ok=True)
    with held(folder / ".download.lock", waiting=lambda who: None):
        yield
