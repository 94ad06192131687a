"""Folders of made-up pictures, and the doctor's opinion of them."""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from interlude.data.listing import list_folder
from interlude.doctor import Diagnosis, Finding, examine


def picture(number: int, side: int = 48) -> Image.Image:
    """A picture of soft coloured spots, another one for each number."""
    spots = np.random.default_rng(number).integers(0, 256, (6, 6, 3), np.uint8)
    return Image.fromarray(spots).resize((side, side), Image.Resampling.BICUBIC)


class Folder:
    """A folder that pictures are put into."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.made = 0

    def add(self, path: str, content: Image.Image | bytes | None = None, **options) -> Path:
        """Write a picture, by default one that is not there yet, or bytes."""
        target = self.root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, bytes):
            target.write_bytes(content)
            return target
        self.made += 1
        (content or picture(1000 + self.made)).save(target, **options)
        return target

    def fill(self, labeled: int = 4, unlabeled: int = 20, test: int = 0, below: str = "") -> "Folder":
        """Cats and dogs, so many labeled and tested of each, and unlabeled images."""
        train = "train/" if test else below
        for name in ("cat", "dog"):
            for number in range(labeled):
                self.add(f"{train}{name}/{number}.png")
            for number in range(test):
                self.add(f"test/{name}/{number}.png")
        for number in range(unlabeled):
            self.add(f"{train}unlabeled/{number}.png")
        return self

    def examine(self, labels: str | None = None, group: str | None = None) -> Diagnosis:
        """The doctor's opinion; `labels` is the text of a table."""
        table = None
        if labels is not None:
            table = self.root.parent / "labels.csv"
            table.write_text(labels)
        return examine(list_folder(self.root, table, group), quiet=True)

    def find(self, kind: str, **options) -> Finding | None:
        """The finding of a kind, if there is one."""
        found = [finding for finding in self.examine(**options).findings if finding.kind == kind]
        assert len(found) <= 1, found
        return found[0] if found else None


@pytest.fixture
def folder(tmp_path):
    """An empty folder."""
    (tmp_path / "images").mkdir()
    return Folder(tmp_path / "images")


@pytest.fixture
def draw():
    """`draw(number, side)` is a picture, another one for each number."""
    return picture
