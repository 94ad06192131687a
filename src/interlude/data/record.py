"""Which images of a data set were chosen: the content of a run's `split.json`."""

import json
from dataclasses import asdict, dataclass, field, fields
from hashlib import blake2b
from pathlib import Path
from typing import Any, Self

from interlude.errors import UserError
from interlude.files import write_whole

ROWS = ("labeled", "validation", "pool")
KINDS = {
    "data": str,
    "fold": int,
    "content_hash": str,
    "sizes": dict,
    "out_of_class": float,
    "known_classes": list,
}


@dataclass(frozen=True)
class SplitRecord:
    """The chosen rows of the training images, and a fingerprint of the data they were chosen from.

    Only `labeled` is needed in a file written by hand; what is missing is not checked.
    """

    labeled: tuple[int, ...]
    validation: tuple[int, ...] = ()
    data: str = ""
    fold: int = 0
    content_hash: str = ""
    sizes: dict[str, int] = field(default_factory=dict)
    out_of_class: float | None = None  # this and the next only where some classes are not known
    known_classes: tuple[str, ...] = ()
    pool: tuple[int, ...] = ()  # only where not all other rows are in it

    @property
    def labels(self) -> int:
        """How many labels are used."""
        return len(self.labeled)

    @property
    def split_hash(self) -> str:
        """A fingerprint of the images and of their division, whatever the data set is called."""
        division: list[Any] = [self.content_hash, self.sizes, self.labeled, self.validation]
        if self.pool:
            division += [self.known_classes, self.pool]
        return blake2b(json.dumps(division, sort_keys=True).encode(), digest_size=16).hexdigest()

    def to_json(self, path: Path) -> None:
        """Write the file, whole or not at all."""
        content = asdict(self)
        rows = {name: content.pop(name) for name in ROWS}
        if not self.pool:
            del rows["pool"]
        if self.out_of_class is None:
            del content["out_of_class"], content["known_classes"]
        content = {"labels": self.labels, **content, "split_hash": self.split_hash, **rows}
        lines = ",\n".join(f"  {json.dumps(name)}: {json.dumps(value)}" for name, value in content.items())
        write_whole(path, f"{{\n{lines}\n}}\n")

    @classmethod
    def from_json(cls, path: Path) -> Self:
        """Read a file of `to_json`, or one written by hand."""
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
        except OSError as error:
            raise UserError(f"cannot read split file {path}: {error.strerror}") from None
        except ValueError as error:
            raise UserError(f"split file {path} is not JSON: {error}") from None
        return cls._from_content(content, path)

    @classmethod
    def _from_content(cls, content: Any, path: Path) -> Self:
        """The record, after checking what a hand may have changed."""
        if not isinstance(content, dict) or "labeled" not in content:
            raise UserError(f"split file {path} has no list 'labeled' of row numbers")
        for name, kind in KINDS.items():
            if not isinstance(content.get(name, kind()), kind):
                raise UserError(f"split file {path}: {name!r} must be of type {kind.__name__}; delete it")
        content["known_classes"] = tuple(map(str, content.get("known_classes", ())))
        for name in ROWS:
            rows = content.get(name, [])
            if not isinstance(rows, list) or not all(type(row) is int for row in rows):
                raise UserError(f"split file {path}: {name!r} must be a list of row numbers")
            content[name] = tuple(sorted(rows))
        record = cls(**{item.name: content[item.name] for item in fields(cls) if item.name in content})
        if content.get("split_hash", record.split_hash) != record.split_hash:
            raise UserError(
                f"split file {path} was changed or damaged; delete its 'split_hash' to use it as it is"
            )
        return record
