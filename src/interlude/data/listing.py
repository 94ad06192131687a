"""The images of a user's folder with what is known of each: label, part of the data, group.

Labels come from the names of sub-folders (`cat/1.jpg`), or from a table with a column for them. Folders
called train, val and test at the top divide the images, unlabeled and _unlabeled hold those without a label.
"""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from interlude.data.find_file import Finder
from interlude.data.images import UNKNOWN
from interlude.data.label_file import CONFLICT, PARTS, UNLABELED, Entry, LabelFile, merge, read_label_file
from interlude.data.problem import Problem, shown
from interlude.data.walk import SUFFIXES, find_images
from interlude.errors import UserError

__all__ = ["SPLITS", "Item", "Listing", "Problem", "find_images", "list_folder", "shown"]

SPLITS = ("train", "val", "test")
TABLES = ("labels.csv", "labels.tsv", "metadata.csv", "metadata.tsv")  # found by themselves
NUMBER = re.compile(r"(\d+)")

Numbers = NDArray[np.int64]


class Item(NamedTuple):
    """One image file: its path from the folder on, and what is known of it."""

    path: str
    label: str | None
    split: str  # one of SPLITS
    group: str | None


@dataclass(frozen=True, eq=False)
class Listing:
    """The image files of a folder in columns, sorted by path; `listing[row]` is an Item."""

    root: Path
    paths: list[str]  # from the root on, with forward slashes
    labels: Numbers  # a number in `class_names`, or -1
    splits: Numbers  # a number in SPLITS
    groups: Numbers | None  # a number in `group_names`, or -1; None where nothing is known of groups
    class_names: tuple[str, ...]
    problems: tuple[Problem, ...] = ()
    group_names: tuple[str, ...] = ()
    table: Path | None = None  # the label file, where there is one
    sampled: NDArray[np.bool_] | None = None  # drawn at random; None where the table does not say which are

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, row: int) -> Item:
        label, group = self.labels[row], UNKNOWN if self.groups is None else self.groups[row]
        return Item(
            self.paths[row],
            self.class_names[label] if label != UNKNOWN else None,
            SPLITS[self.splits[row]],
            self.group_names[group] if group != UNKNOWN else None,
        )

    def __iter__(self) -> Iterator[Item]:
        return map(self.__getitem__, range(len(self)))

    def of(self, split: str) -> Numbers:
        """The rows of one part."""
        return np.flatnonzero(self.splits == SPLITS.index(split))

    def path(self, row: int) -> Path:
        """Where the file of a row is."""
        return self.root / self.paths[row]


class Said(NamedTuple):
    """What is known of each path: label, split, group, and whether it was drawn at random."""

    labels: list[str | None]
    splits: list[str]
    groups: list[str | None] | None = None
    sampled: list[bool] | None = None


def list_folder(
    root: Path | str,
    labels: Path | str | None = None,
    group: str | None = None,
    *,
    classes: Sequence[str] | None = None,
) -> Listing:
    """The images below `root`; `labels` is a table of labels, `group` its column of what belongs together.

    The classes are those of the training images, unless a model's `classes` are given.
    Raises a `UserError` where training could not go on; everything else is a row of `problems`.
    """
    root = Path(root).expanduser()
    paths, problems = find_images(root)
    if not paths:
        raise UserError(f"there is no image in {root}; its names must end in {', '.join(SUFFIXES)}")
    folders = _folders(paths)
    table = _table(root, labels, group, folders)
    if table is None:
        if group is not None:
            raise UserError(f"to group by {group!r}, give a labels file with this column")
        said = _by_folder(paths, folders)
    else:
        said = _by_table(root, paths, folders, table, problems)
    names, numbers = _number_classes(said, problems, classes)
    group_names, groups = _number_groups(said.groups)
    splits = np.array([SPLITS.index(split) for split in said.splits])
    problems.sort(key=lambda problem: (problem.kind, problem.path))
    return Listing(
        root,
        paths,
        numbers,
        splits,
        groups,
        class_names=names,
        problems=tuple(problems),
        group_names=group_names,
        table=table.path if table else None,
        sampled=None if said.sampled is None else np.array(said.sampled, np.bool_),
    )


class Folders(NamedTuple):
    """The folders at the top that hold images: those that divide them, and all others."""

    parts: dict[str, str]
    others: list[str]

    def place(self, path: str) -> tuple[str, str]:
        """The part that a path is in, and the path inside of it."""
        top, slash, rest = path.partition("/")
        return (self.parts[top], rest) if slash and top in self.parts else ("train", path)


def _folders(paths: Sequence[str]) -> Folders:
    """Which folders at the top divide the images.

    `train` may be the name of a class too: it divides only if it has sub-folders, or stands alone.
    """
    tops: dict[str, bool] = {}  # whether there are folders in it
    for path in paths:
        top, slash, rest = path.partition("/")
        if slash:
            tops[top] = tops.get(top, False) or "/" in rest
    named = {top: PARTS[top.lower()] for top in tops if top.lower() in PARTS and top.lower() not in UNLABELED}
    others = [top for top in tops if top not in named and top.lower() not in UNLABELED]
    parts = {top: part for top, part in named.items() if part != "train" or tops[top] or not others}
    return Folders(parts, [top for top in tops if top in others or (top in named and top not in parts)])


def _by_folder(paths: Sequence[str], folders: Folders) -> Said:
    """Labels and parts from the names of folders."""
    if "train" in folders.parts.values() and folders.others:
        divided, others = (", ".join(sorted(map(shown, names))) for names in folders)
        raise UserError(f"the folders {divided} divide the images, but beside them is {others}: move it away")
    labels, splits = [], []
    for path in paths:
        split, inside = folders.place(path)
        name, slash, _ = inside.partition("/")
        labels.append(name if slash and name.lower() not in UNLABELED else None)
        splits.append(split)
    return Said(labels, splits)


def _table(root: Path, labels: Path | str | None, group: str | None, folders: Folders) -> LabelFile | None:
    """The label file that is given, or that lies in the folder where sub-folders give no labels."""
    if labels is not None:
        given = Path(labels).expanduser()
        inside = root / given
        return read_label_file(inside if inside.exists() and not given.exists() else given, group)
    found = [root / name for name in TABLES if (root / name).is_file()]
    if not found:
        return None
    if len(found) > 1:
        names = " and ".join(path.name for path in found)
        raise UserError(f"{root} has {names}: say which holds the labels (--labels FILE)")
    table = read_label_file(found[0], group)
    if table.has_labels and len(folders.others) > 1:
        names = ", ".join(sorted(map(shown, folders.others))[:3])
        raise UserError(
            f"{root} has both {found[0].name} and the folders {names}...: say --labels {found[0]} to take "
            "the labels from the file, or move it away"
        )
    return table


def _by_table(
    root: Path, paths: Sequence[str], folders: Folders, table: LabelFile, problems: list[Problem]
) -> Said:
    """What the table says; images that it does not name are unlabeled, and in the part of their folder."""
    entries = _match(root, paths, table, problems)
    if table.has_labels:
        labels: list[str | None] = [None] * len(paths)
        splits = [folders.place(path)[0] for path in paths]
    else:
        labels, splits, *_ = _by_folder(paths, folders)
    groups: list[str | None] | None = [None] * len(paths) if table.has_groups else None
    sampled = [False] * len(paths) if table.has_sample else None
    for row, entry in entries.items():
        if table.has_labels and entry.label != CONFLICT:
            labels[row] = entry.label
        splits[row] = entry.split or splits[row]
        if groups is not None:
            groups[row] = entry.group
        if sampled is not None:
            sampled[row] = bool(entry.sampled)
    return Said(labels, splits, groups, sampled)


def _match(root: Path, paths: Sequence[str], table: LabelFile, problems: list[Problem]) -> dict[int, Entry]:
    """The entries of the table by the row of the file they are about."""
    problems += table.problems
    finder = Finder(paths)
    matched: dict[int, Entry] = {}
    for written, entry in table.entries.items():
        row = finder.find(written)
        if isinstance(row, str):
            problems.append(Problem("unknown-file", written, f"line {entry.line} of the label file: {row}"))
        elif row in matched:
            matched[row] = merge(paths[row], matched[row], entry, problems)
        else:
            matched[row] = entry
    if not matched:
        first = next(iter(table.entries))
        hint = "; is a quote not closed?" if "\n" in first else ""
        raise UserError(
            f"none of the {len(table.entries):,} files in {table.path} is in {root}, as {shown(first)[:80]}"
            f"{hint}"
        )
    return matched


def _number_classes(
    said: Said, problems: list[Problem], classes: Sequence[str] | None
) -> tuple[tuple[str, ...], Numbers]:
    """The classes given, or those of the training images in natural order; the number of each image's."""
    known = {label for label, split in zip(said.labels, said.splits, strict=True) if split == "train"}
    names = classes or sorted((label for label in known if label is not None), key=natural)
    number = {name: index for index, name in enumerate(names)}
    unknown = Counter(label for label in said.labels if label is not None and label not in number)
    for missing, count in unknown.items():
        detail = f"class {missing!r} has no training image; its {count:,} val and test images are left out"
        if classes:
            detail = f"class {missing!r} is none of the model's; its {count:,} images are left out"
        problems.append(Problem("unknown-class", "", detail))
    similar: dict[str, str] = {}
    for name in names:
        other = similar.setdefault(name.casefold(), name)
        if other != name:
            problems.append(Problem("similar-classes", "", f"{other!r} and {name!r} count as two classes"))
    numbers = np.array(
        [number.get(label, UNKNOWN) if label is not None else UNKNOWN for label in said.labels]
    )
    return tuple(names), numbers


def _number_groups(groups: list[str | None] | None) -> tuple[tuple[str, ...], Numbers | None]:
    """The names of the groups in order, and the number of each image's group."""
    if groups is None:
        return (), None
    names = sorted({name for name in groups if name is not None}, key=natural)
    number: dict[str | None, int] = {name: index for index, name in enumerate(names)}
    return tuple(names), np.array([number.get(name, UNKNOWN) for name in groups])


def natural(name: str) -> list[tuple[int, str]]:
    """A key that sorts 2 before 10, and a word as a dictionary does."""
    return [
        (len(part.lstrip("0")), part.lstrip("0")) if place % 2 else (0, part)
        for place, part in enumerate(NUMBER.split(name))
    ]
