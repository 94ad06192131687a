"""Which files to judge: files, folders, patterns and lists, read as a stream however many there are."""

import os
import shutil
import sys
import tempfile
from codecs import BOM_UTF8
from collections.abc import Iterable, Iterator
from glob import has_magic, iglob
from hashlib import sha256
from itertools import islice
from pathlib import Path
from typing import IO, NamedTuple

from interlude.data.walk import NOT_OURS, is_image
from interlude.errors import UserError

PIPED = "@-"
PIECE = 1 << 14  # names of one folder that are held and sorted at a time
CHUNK = 1 << 16  # bytes of a list that are read at a time


class Listed(NamedTuple):
    """The files that a command means, in short."""

    number: int
    digest: str


class Inputs:
    """The files that the arguments of a command mean, in order; can be gone through more than once.

    An argument is a file, a folder with all images below it, a pattern, `@FILE` for a list of files and
    folders, or `@-` for a list on standard input. Lists have one name a line, or NUL between names.
    """

    def __init__(self, arguments: Iterable[str]) -> None:
        self.arguments = list(arguments)
        self.piped: IO[bytes] | None = None
        if PIPED in self.arguments:
            self.piped = tempfile.TemporaryFile()  # noqa: SIM115  (gone with this object)
            shutil.copyfileobj(sys.stdin.buffer, self.piped)

    def __iter__(self) -> Iterator[str]:
        for argument in self.arguments:
            if argument == PIPED and self.piped is not None:
                self.piped.seek(0)
                yield from _listed(self.piped)
            elif os.path.lexists(argument):
                yield from _below(argument)
            elif argument.startswith("@"):
                yield from _in_list(argument[1:])
            elif has_magic(argument):
                yield from _matching(argument)
            else:
                yield argument

    def listed(self) -> Listed:
        """How many files there are, and a fingerprint of their names in order."""
        number, digest = 0, sha256()
        for name in self:
            number += 1
            digest.update(os.fsencode(name) + b"\0")
        return Listed(number, digest.hexdigest())


def walk(folder: str) -> Iterator[str]:
    """The image files below a folder, those of each folder before those of the folders in it.

    Names are sorted, in very large folders piece by piece. Links to folders are not followed.
    """
    waiting = [folder]
    while waiting:
        folders: list[str] = []
        yield from _files(waiting.pop(), folders)
        waiting += sorted(folders, reverse=True)


def _files(folder: str, folders: list[str]) -> Iterator[str]:
    """The image files in a folder; `folders` is added what is to be read after it."""
    try:
        scan = os.scandir(folder)
    except OSError:
        yield folder  # opening it as an image fails too, which gives it a row in the table
        return
    with scan:
        while piece := sorted(islice(scan, PIECE), key=lambda entry: entry.name):
            for entry in piece:
                if entry.name.startswith(".") or entry.name in NOT_OURS:
                    continue
                if entry.is_dir(follow_symlinks=False):
                    folders.append(entry.path)
                elif is_image(entry.name):
                    yield entry.path


def _below(path: str) -> Iterator[str]:
    """The file itself, or all images below a folder."""
    if Path(path).is_dir():
        yield from walk(path)
    else:
        yield path


def _matching(pattern: str) -> Iterator[str]:
    """The files that a pattern means; ** stands for any folders."""
    found = False
    matches = iglob(pattern, recursive=True)  # noqa: PTH207  (a Path would change the names)
    while piece := sorted(islice(matches, PIECE)):
        found = True
        for path in piece:
            yield from _below(path)
    if not found:
        raise UserError(f"no file matches {pattern}")


def _in_list(name: str) -> Iterator[str]:
    """The files named in a list."""
    try:
        with Path(name).open("rb") as file:
            yield from _listed(file)
    except OSError as error:
        raise UserError(f"the list {name} cannot be read: {(error.strerror or '').lower()}") from error


def _listed(file: IO[bytes]) -> Iterator[str]:
    """The files that a list means."""
    start = file.read(CHUNK).removeprefix(BOM_UTF8)
    separator = b"\0" if b"\0" in start else b"\n"
    rest = b""
    while start:
        *names, rest = (rest + start).split(separator)
        for name in names:
            yield from _named(name)
        start = file.read(CHUNK)
    yield from _named(rest)


def _named(name: bytes) -> Iterator[str]:
    """The files that a line of a list means; none if it is empty."""
    path = os.fsdecode(name.removesuffix(b"\r"))
    return _below(path) if path else iter(())
