"""Small files, written whole or not at all."""

import os
from pathlib import Path
from threading import get_ident


def write_whole(path: Path, content: str | bytes, *, sync: bool = False) -> None:
    """Write a file by the side and then put it in its place; an error names the place and leaves what was.

    With `sync` it is on the disk, and not only on its way there, before it takes the place of the old one.
    """
    fresh = path.with_name(f"{path.name}.{os.getpid()}-{get_ident()}.tmp")
    try:
        with fresh.open("wb") as file:
            file.write(content.encode() if isinstance(content, str) else content)
            if sync:
                file.flush()
                os.fsync(file.fileno())
        fresh.replace(path)
    except OSError as error:
        error.filename = str(path)
        raise
    finally:
        fresh.unlink(missing_ok=True)
