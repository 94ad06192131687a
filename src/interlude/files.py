"""Small files, written whole or not at all."""

from pathlib import Path


def write_whole(path: Path, content: str | bytes) -> None:
    """Write a file by the side and then put it in its place; an error names the place and leaves what was."""
    fresh = path.with_name(f"{path.name}.tmp")
    try:
        fresh.write_bytes(content.encode() if isinstance(content, str) else content)
        fresh.replace(path)
    except OSError as error:
        error.filename = str(path)
        raise
    finally:
        fresh.unlink(missing_ok=True)
