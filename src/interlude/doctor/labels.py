"""What the labels of a folder allow: are there enough of each class, and enough images beside them?"""

import re
from collections.abc import Iterator

import numpy as np

from interlude.data.images import UNKNOWN
from interlude.doctor.diagnosis import (
    LABELED,
    ROLES,
    TEST,
    UNLABELED,
    VALIDATION,
    Cast,
    Finding,
    Severity,
    files,
)

FEW = 3  # labels of a class below which an estimate of its accuracy says little
UNEVEN = 10  # times as many labels in the largest class as in the smallest
SHOWN = 5  # names in a sentence

ONE_ROW = "Keep one row for each file."
# kind of problem -> how serious it is, what there is a number of, more words, what to do
PROBLEMS: dict[str, tuple[Severity, str, str, str]] = {
    "unknown-file": (
        "warn",
        "row",
        "of the label file with the name of no image in the folder",
        "Correct the names, or add the files.",
    ),
    "unknown-class": (
        "warn",
        "class",
        "known only from validation or test images, which are left out",
        "Label some training images of these classes, or correct the names.",
    ),
    "label-row": ("warn", "row", "of the label file that cannot be used", "Correct these rows."),
    "conflicting-labels": ("warn", "row", "of the label file that contradicts another on the label", ONE_ROW),
    "conflicting-splits": ("warn", "row", "of the label file that contradicts another on the split", ONE_ROW),
    "conflicting-groups": ("warn", "row", "of the label file that contradicts another on the group", ONE_ROW),
    "duplicate-row": ("note", "row", "of the label file that says what another one says", "Nothing."),
    "link": ("warn", "link", "not followed", "Put the files themselves into the folder."),
    "unreadable-folder": ("warn", "folder", "that cannot be listed", "Give yourself the right to read them."),
    "unreadable": ("warn", "thing", "called like an image that is no file", "Remove them."),
    "empty-folder": ("warn", "folder", "without an image", "Put images into them, or remove them."),
    "folder": ("note", "folder", "with the name of an image", "Nothing: the images inside are used."),
    "other-files": ("note", "remark", "on other files", "Nothing, unless they should be images."),
}


def check_problems(cast: Cast) -> Iterator[Finding]:
    """A finding for each kind of problem met when the folder was listed, whatever its kind."""
    kinds: dict[str, list[tuple[str, str]]] = {}
    for kind, path, detail in cast.listing.problems:
        if kind != "similar-classes":  # looked for here too, and more widely
            kinds.setdefault(kind, []).append((path, detail))
    for kind, found in kinds.items():
        severity, noun, words, do = PROBLEMS.get(kind, ("warn", "remark", f"({kind})", "Look at them."))
        details: dict[str, str] = {}
        for path, detail in found:
            details[path] = f"{details[path]}; {detail}" if path in details else detail
        yield Finding(
            "no-file" if kind == "unreadable" else kind,  # that kind is for files
            severity,
            f"{found[0][1]}." if kind == "other-files" else f"{files(len(found), noun)} {words}.",
            do,
            tuple(path for path in details if path),
            details,
            count=len(found),
        )


def check_classes(cast: Cast) -> Iterator[Finding]:
    """Findings on the number of classes and of labels in each."""
    counts = {name: roles[ROLES[LABELED]] for name, roles in cast.counts().items()}
    if not counts:
        yield Finding(
            "no-labels",
            "stop",
            "None of the training images has a label.",
            "Put some images of each class into a folder of its name, or give a table (--labels FILE).",
        )
        return
    if len(counts) == 1:
        yield Finding(
            "one-class",
            "stop",
            f"All labels are the same, {next(iter(counts))!r}: there is nothing to tell apart.",
            "Label images of at least one other class.",
        )
    yield from check_numbers(counts)
    yield from check_names(list(counts))


def check_numbers(counts: dict[str, int]) -> Iterator[Finding]:
    """Findings on classes with few labels, and on classes of very different size."""
    none = [name for name, count in counts.items() if not count]
    single = [name for name, count in counts.items() if count == 1]
    few = [name for name, count in counts.items() if 1 < count < FEW]
    if none:
        yield Finding(
            "class-without-images",
            "stop",
            f"{files(len(none), 'class')} without a readable labeled image: {listed(none)}.",
            "Replace the unreadable files, or leave these classes out.",
        )
    if single:
        yield Finding(
            "one-label",
            "warn",
            f"{files(len(single), 'class')} with one label only: {listed(single)}. No estimate of accuracy "
            "is possible from the labels: the one image cannot be both learned from and asked about.",
            "Label at least two more images of each.",
        )
    if few:
        yield Finding(
            "few-labels",
            "warn",
            f"{files(len(few), 'class')} with fewer than {FEW} labels: {listed(few)}. Estimates of accuracy "
            "will be very wide.",
            "Label a few more images of each.",
        )
    least, most = min(counts.values()), max(counts.values())
    if least and most >= UNEVEN * least:
        small, large = min(counts, key=counts.__getitem__), max(counts, key=counts.__getitem__)
        yield Finding(
            "uneven-classes",
            "warn",
            f"The largest class, {large!r}, has {most:,} labels, the smallest, {small!r}, {least:,}. Judge "
            "by balanced accuracy, in which each class counts the same.",
            "Label more images of the small classes, if you can.",
        )


def check_names(names: list[str]) -> Iterator[Finding]:
    """A finding where class names differ only in case, spaces or signs."""
    alike: dict[str, list[str]] = {}
    for name in names:
        alike.setdefault(re.sub(r"[\W_]+", "", name.casefold()) or name, []).append(name)
    pairs = [" and ".join(map(repr, same)) for same in alike.values() if len(same) > 1]
    if pairs:
        yield Finding(
            "similar-classes",
            "warn",
            f"Class names that are nearly the same count as different classes: {listed(pairs)}.",
            "If they mean the same, give them one name.",
        )


def check_parts(cast: Cast) -> Iterator[Finding]:
    """Findings on images that have no label where one is needed, and on the size of the unlabeled pool."""
    for role in (VALIDATION, TEST):
        rows = cast.rows(role)
        bare = rows[cast.listing.labels[rows] == UNKNOWN]
        if len(bare):
            yield Finding(
                f"unlabeled-{ROLES[role]}",
                "warn",
                f"{files(len(bare), f'{ROLES[role]} image')} without a label of a known class: nothing can "
                "be measured on them.",
                "Label them, or move them to the unlabeled images.",
                cast.names(bare),
                count=len(bare),
            )
    labeled, test = cast.rows(LABELED), cast.rows(TEST)
    tested = np.unique(cast.listing.labels[test])
    missing = [name for number, name in enumerate(cast.listing.class_names) if number not in tested]
    if len(test) and missing:
        yield Finding(
            "untested-classes",
            "note",
            f"{files(len(missing), 'class')} without a test image: {listed(missing)}. The test says nothing "
            "about them.",
            "Add test images of these classes, if you can.",
        )
    yield from check_pool(len(cast.rows(UNLABELED)), len(labeled))


def check_pool(unlabeled: int, labeled: int) -> Iterator[Finding]:
    """A finding where there are too few unlabeled images to matter."""
    if labeled and unlabeled < labeled:
        there = f"only {unlabeled:,} unlabeled images beside" if unlabeled else "no unlabeled images beside"
        yield Finding(
            "few-unlabeled",
            "note",
            f"There are {there} {labeled:,} labeled ones: they can add little to what the labels say.",
            "Add more images without labels, if you have them; several times as many as labeled ones.",
        )


def listed(names: list[str]) -> str:
    """The first names, and how many more there are."""
    more = f" and {len(names) - SHOWN:,} more" if len(names) > SHOWN else ""
    return ", ".join(names[:SHOWN]) + more
