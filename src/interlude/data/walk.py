"""All image files below a folder, in one fixed order; what is odd on the way is told, not followed."""

import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path, PurePath

from interlude.data.decode import NAMES
from interlude.data.problem import Problem
from interlude.errors import UserError

NOT_OURS = ("@eaDir", "__MACOSX", "$RECYCLE.BIN")  # what file servers and archives leave behind
SUFFIXES = tuple(NAMES)
TOLD = 5  # kinds of other files that are named


def find_images(root: Path | str) -> tuple[list[str], list[Problem]]:
    """Paths of image files relative to the folder, sorted, and what is odd about the rest.

    Hidden files are passed over. A link is followed if it stays below the folder; no folder is read twice.
    """
    top = Path(root).expanduser().resolve()
    if not top.is_dir():
        state = "is a file; give the folder that holds the images" if top.exists() else "does not exist"
        raise UserError(f"the image folder {root} {state}")
    walk = _Walk(top)
    walk.read()
    return sorted(walk.paths), walk.problems


def is_image(name: str) -> bool:
    """Whether a file is called like an image."""
    return name.lower().endswith(SUFFIXES)


class _Walk:
    """One pass through a folder: real folders first, then those behind links."""

    def __init__(self, top: Path) -> None:
        self.top = top
        self.paths: list[str] = []
        self.problems: list[Problem] = []
        self.seen: set[tuple[int, int]] = set()
        self.links: list[str] = []
        self.others: Counter[str] = Counter()

    def read(self) -> None:
        """Collect the paths and problems of the whole folder."""
        self._folders("")
        while self.links:
            links, self.links = self.links, []
            for link in links:
                self._folders(link)
        if self.others:
            kinds = ", ".join(f"{count:,} {suffix}" for suffix, count in self.others.most_common(TOLD))
            total = f"{self.others.total():,} files are not called like images and are ignored"
            self.problems.append(Problem("other-files", "", f"{total}: {kinds}"))

    def _folders(self, start: str) -> None:
        """Read a folder and all that is below it."""
        waiting = [start]
        while waiting:
            folder = waiting.pop()
            try:
                status = (self.top / folder).stat()
            except OSError:  # it was there a moment ago
                continue
            if (status.st_dev, status.st_ino) in self.seen:
                self._tell("link", folder, "leads to a folder that is read already")
                continue
            self.seen.add((status.st_dev, status.st_ino))
            waiting += sorted(self._folder(folder), reverse=True)

    def _folder(self, folder: str) -> Iterator[str]:
        """Take in the files of one folder; yields the folders in it."""
        try:
            with os.scandir(self.top / folder) as scan:
                entries = sorted(scan, key=lambda entry: entry.name)
        except OSError as error:
            self._tell("unreadable-folder", folder, f"cannot be listed: {(error.strerror or '').lower()}")
            return
        if not entries:
            self._tell("empty-folder", folder, "has nothing in it")
        for entry in entries:
            if entry.name.startswith(".") or entry.name in NOT_OURS:
                continue
            path = f"{folder}/{entry.name}" if folder else entry.name
            if entry.is_symlink():
                self._link(path)
            elif entry.is_dir():
                if is_image(entry.name):
                    self._tell("folder", path, "is a folder with the name of an image")
                yield path
            else:
                self._file(path, entry.is_file())

    def _file(self, path: str, is_ordinary: bool) -> None:
        if not is_image(path):
            self.others[PurePath(path).suffix.lower() or "without ending"] += 1
        elif is_ordinary:
            self.paths.append(path)
        else:
            self._tell("unreadable", path, "it is no ordinary file")

    def _link(self, path: str) -> None:
        """Follow a link that stays below the folder."""
        target = Path(os.path.realpath(self.top / path))  # unlike `resolve`, never fails on a loop
        if not target.exists():
            self._tell("link", path, "leads nowhere")
        elif not target.is_relative_to(self.top):
            self._tell("link", path, f"leads out of the folder, to {target}; put the files themselves here")
        elif target.is_dir():
            self.links.append(path)
        else:
            self._file(path, target.is_file())

    def _tell(self, kind: str, path: str, detail: str) -> None:
        self.problems.append(Problem(kind, path, detail))
