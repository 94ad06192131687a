"""What is labeled now: classes, the mark of each image, and what an undo would take back."""

import csv
import io
import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from threading import RLock
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from interlude.app.log import Entry, Event, Log
from interlude.errors import UserError

NONE, SKIP, STRANGE = -1, -2, -3  # marks of images; a class is known by its number, 0 or more
WORDS = {SKIP: "skip", STRANGE: "strange"}
MARKS = {word: mark for mark, word in WORDS.items()}
NAMELESS = ("", "nan")  # what a table of labels takes for no label
LONGEST = 100  # letters of a class name
MOST = 500  # classes
BEFORE = ("folder", "table")  # who gave labels that were there before the page

Value = int | Literal["skip", "strange"] | None


class Conflict(UserError):
    """Something that cannot be done as things are now."""


class Missing(UserError):
    """Something that is not there."""


class Step(NamedTuple):
    """One event that can be taken back: the image and the mark that it had before."""

    event: int
    row: int
    before: int


class Undone(NamedTuple):
    """What an undo took back: the images, and the mark that they had been given."""

    rows: list[int]
    value: Value


class Labels:
    """Classes and marks of the images `paths`; every change is in the log before it is seen here."""

    def __init__(self, log: Log, paths: Sequence[str]) -> None:
        self.paths, self.log, self.lock = paths, log, RLock()
        self.row_of = {path: row for row, path in enumerate(paths)}
        self.marks: NDArray[np.int32] = np.full(len(paths), NONE, np.int32)
        self.touched = np.zeros(len(paths), np.bool_)  # images that something was ever said about
        self.by_hand = np.zeros(len(paths), np.bool_)  # images whose mark was given on the page
        self.classes: dict[int, str] = {}
        self.version = 0  # grows with every change
        self._next_class = 0
        self._stack: list[tuple[int, list[Step]]] = []  # actions that can be taken back
        self._fold(log.read())

    def add_classes(self, names: Sequence[str]) -> list[int]:
        """New classes, in this order; returns their numbers."""
        with self.lock:
            cleaned: list[str] = []
            for name in names:
                cleaned.append(self._checked(name, taken=[*self.classes.values(), *cleaned]))
            if not cleaned:
                raise UserError("name at least one class")
            if len(self.classes) + len(cleaned) > MOST:
                raise UserError(f"there can be at most {MOST} classes")
            numbers = [self._next_class + place for place in range(len(cleaned))]
            self._do([_about("class-add", *pair) for pair in zip(numbers, cleaned, strict=True)])
            return numbers

    def rename_class(self, number: int, name: str) -> None:
        """Another name for a class; its labels stay with it."""
        with self.lock:
            self._known(number)
            others = [text for key, text in self.classes.items() if key != number]
            self._do([_about("class-rename", number, self._checked(name, taken=others))])

    def remove_class(self, number: int) -> None:
        """Take away a class that no image is labeled with."""
        with self.lock:
            name = self._known(number)
            count = int((self.marks == number).sum())
            if count:
                images = "1 image is" if count == 1 else f"{count:,} images are"
                raise Conflict(f"{images} labeled {name!r}: give them another label first")
            self._do([_about("class-remove", number, name)])

    def mark(self, rows: Sequence[int], value: Value) -> None:
        """Give images a class, "skip", "strange" (none of the classes), or no mark at all (None)."""
        with self.lock:
            mark = NONE if value is None else MARKS[value] if isinstance(value, str) else value
            if isinstance(value, int):
                self._known(value)
            unique = list(dict.fromkeys(rows))
            if any(not 0 <= row < len(self.paths) for row in unique):
                raise Missing("there is no such image; load the page again")
            changed = [row for row in unique if self.marks[row] != mark]
            if changed:
                self._do([_entry(self.paths[row], mark) for row in changed])

    def read_in(self, found: Mapping[int, str], who: str) -> int:
        """Take over labels from before the page, by image; how many.

        What was ever said about an image here, be it that it has no label, is worth more.
        """
        with self.lock:
            new = {row: " ".join(name.split()) for row, name in found.items() if not self.touched[row]}
            numbers = {name.casefold(): number for number, name in self.classes.items()}
            names: dict[str, str] = {}
            for name in new.values():
                names.setdefault(name.casefold(), name)
            missing = [self._checked(name, taken=()) for key, name in names.items() if key not in numbers]
            if len(self.classes) + len(missing) > MOST:
                raise UserError(f"there can be at most {MOST} classes")
            added = list(enumerate(missing, self._next_class))
            numbers |= {name.casefold(): number for number, name in added}
            labels = [_entry(self.paths[row], numbers[name.casefold()]) for row, name in new.items()]
            if labels:
                self._do([*(_about("class-add", *pair) for pair in added), *labels], who)
            return len(labels)

    def undo(self) -> Undone | None:
        """Take back the last marks that were given at once; None if there are none."""
        with self.lock:
            if not self._stack:
                return None
            steps = self._stack[-1][1]
            value = self.value(steps[0].row)
            entries = [
                _entry(self.paths[step.row], self._still(step.before), undoes=step.event) for step in steps
            ]
            self._do(entries)
            return Undone([step.row for step in steps], value)

    @property
    def can_undo(self) -> bool:
        """Whether there is something to take back."""
        return bool(self._stack)

    def value(self, row: int) -> Value:
        """The mark of an image as the page knows it."""
        mark = int(self.marks[row])
        return None if mark == NONE else WORDS.get(mark, mark)  # type: ignore[return-value]

    def counts(self) -> dict[int, int]:
        """How many images have each class."""
        found = np.bincount(self.marks[self.marks >= 0], minlength=self._next_class)
        return {number: int(found[number]) for number in self.classes}

    def table(self, drawn: Collection[int] = ()) -> str:
        """The labels as `fit` reads them, file_name,label,sampled: `drawn` are those drawn at random."""
        text, sampled = io.StringIO(), set(drawn)
        rows = csv.writer(text, lineterminator="\n")
        rows.writerow(["file_name", "label", "sampled"])
        with self.lock:
            rows.writerows(
                [self.paths[row], self.classes[int(self.marks[row])], "yes" if row in sampled else "no"]
                for row in np.flatnonzero(self.marks >= 0).tolist()
            )
        return text.getvalue()

    def _checked(self, name: str, taken: Sequence[str]) -> str:
        """A class name as it is kept, unless it cannot be one."""
        name = " ".join(name.split())
        if name.lower() in NAMELESS or not name.isprintable() or len(name) > LONGEST:
            raise UserError(f"{name[:LONGEST]!r} cannot be the name of a class; choose another")
        if name.casefold() in {other.casefold() for other in taken}:
            raise Conflict(f"there is a class {name!r} already")
        return name

    def _known(self, number: int) -> str:
        if number not in self.classes:
            raise Missing("there is no such class; load the page again")
        return self.classes[number]

    def _still(self, mark: int) -> int:
        """A mark of before, unless its class is gone."""
        return mark if mark < 0 or mark in self.classes else NONE

    def _do(self, entries: Sequence[Entry], who: str | None = None) -> None:
        self._fold(self.log.append(entries, who))

    def _fold(self, events: Iterable[Event]) -> None:
        """Bring what is known up to date with these events."""
        for event in events:
            if event.kind.startswith("class-"):
                self._fold_class(event.kind, json.loads(event.value or "{}"))
            elif event.path in self.row_of:  # else its file is gone; it may come back
                self._fold_mark(event, self.row_of[event.path])
        self.version += 1

    def _fold_class(self, kind: str, value: dict[str, Any]) -> None:
        number, name = value["id"], value["name"]
        if kind == "class-remove":
            self.classes.pop(number, None)
            self.marks[self.marks == number] = NONE  # of files that were away at that time
        else:
            self.classes[number] = name
        self._next_class = max(self._next_class, number + 1)

    def _fold_mark(self, event: Event, row: int) -> None:
        before = int(self.marks[row])
        if event.kind == "label":
            self.marks[row] = self._still(int(event.value or NONE))
        else:
            self.marks[row] = MARKS.get(event.kind, NONE)
        self.touched[row], self.by_hand[row] = True, event.who not in BEFORE
        if not self.by_hand[row]:
            return
        if event.undoes is None:
            if not self._stack or self._stack[-1][0] != event.action:
                self._stack.append((event.action, []))
            self._stack[-1][1].append(Step(event.id, row, before))
        else:
            self._take_back(event.undoes)

    def _take_back(self, undone: int) -> None:
        """An event that was undone is not undone again."""
        if self._stack:
            action, steps = self._stack.pop()
            steps = [step for step in steps if step.event != undone]
            if steps:
                self._stack.append((action, steps))


def _about(kind: str, number: int, name: str) -> Entry:
    return Entry(kind, None, json.dumps({"id": number, "name": name}, ensure_ascii=False))


def _entry(path: str, mark: int, undoes: int | None = None) -> Entry:
    if mark >= 0:
        return Entry("label", path, str(mark), undoes)
    return Entry(WORDS.get(mark, "clear"), path, None, undoes)
