"""What is odd about single pictures: unreadable, of one colour, of strange size, grey among colour."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from interlude.doctor.diagnosis import Cast, Finding, Severity, files
from interlude.doctor.scan import Scan

FAR = 4  # times smaller or larger than usual
TINY = 16  # pixels that show little, where others have twice as many
LONG = 3  # times more drawn out than usual

Mask = NDArray[np.bool_]


def check_readable(cast: Cast, scan: Scan, excluded: dict[str, str]) -> Iterator[Finding]:
    """A finding for files that hold no picture; they are left out of training."""
    if not scan.unreadable:
        return
    reasons = {cast.listing.paths[row]: reason for row, reason in sorted(scan.unreadable.items())}
    excluded |= reasons
    none_left = len(reasons) == len(cast.listing)
    yield Finding(
        "unreadable",
        "stop" if none_left else "warn",
        f"{'None' if none_left else f'{len(reasons):,}'} of {files(len(cast.listing), 'file')} can"
        f"{'' if none_left else 'not'} be read as an image.",
        "Replace them, or remove them; they are left out." if not none_left else "Look at the reasons below.",
        tuple(reasons),
        reasons,
        count=len(reasons),
    )


def check_pictures(cast: Cast, scan: Scan) -> Iterator[Finding]:
    """Findings on the readable pictures."""
    if not scan.readable.any():
        return
    yield from check_remarks(cast, scan)
    yield from _finding(
        cast,
        scan.readable & scan.flat,
        "flat",
        "warn",
        "of a single colour: nothing can be learned from such an image",
        "Remove them, or find out what went wrong when they were made.",
    )
    yield from check_sizes(cast, scan)
    grey, colour = scan.readable & (scan.channels == 1), scan.readable & (scan.channels == 3)
    if grey.any() and colour.any():
        rarer, what = (
            (grey, "grey, the others in colour")
            if grey.sum() <= colour.sum()
            else (colour, "in colour, the others grey")
        )
        yield from _finding(
            cast,
            rarer,
            "mixed-channels",
            "note",
            f"{what}; all are brought to one form",
            "Nothing, unless it is a sign of where an image comes from: a model can learn that instead.",
        )


def check_sizes(cast: Cast, scan: Scan) -> Iterator[Finding]:
    """Findings on images much smaller, larger or longer than usual."""
    sides = np.where(scan.readable[:, None], scan.sizes, 1).astype(np.float64)
    short = sides.min(axis=1)
    usual = float(np.median(short[scan.readable]))
    shape = sides.max(axis=1) / short
    sizes = {cast.listing.paths[row]: f"{w} x {h}" for row, (w, h) in enumerate(scan.sizes.tolist())}
    small = scan.readable & ((short * FAR < usual) | ((short < TINY) & (short * 2 < usual)))
    large = scan.readable & (short > FAR * usual)
    long = scan.readable & (shape > LONG * np.median(shape[scan.readable]))
    usually = f"(the usual shorter side is {usual:.0f} pixels)"
    yield from _finding(
        cast,
        small,
        "small",
        "warn",
        f"much smaller than the others {usually}",
        "Replace them by larger ones, if there are any.",
        sizes,
    )
    yield from _finding(
        cast,
        large,
        "large",
        "note",
        f"much larger than the others {usually}",
        "Nothing, if they show the same at the same scale.",
        sizes,
    )
    yield from _finding(
        cast,
        long,
        "long",
        "warn",
        "far longer than wide, or wider than long: the middle, which is what is used, shows little of them",
        "Cut them to what matters.",
        sizes,
    )


def check_remarks(cast: Cast, scan: Scan) -> Iterator[Finding]:
    """A finding for each thing that decoding had to settle."""
    rows: dict[str, list[int]] = {}
    for row, said in sorted(scan.remarks.items()):
        for remark in said:
            rows.setdefault(remark, []).append(row)
    for remark, found in sorted(rows.items()):
        yield Finding(
            "remark",
            "note",
            f"{files(len(found), 'file')}: {remark}.",
            "Nothing: the content decides what a file is.",
            cast.names(found),
            count=len(found),
        )


def _finding(
    cast: Cast,
    mask: Mask,
    kind: str,
    severity: Severity,
    words: str,
    do: str,
    details: dict[str, Any] | None = None,
) -> Iterator[Finding]:
    """A finding on the images of a mask, if there are any."""
    rows: Sequence[int] = np.flatnonzero(mask).tolist()
    if rows:
        names = cast.names(rows)
        said = {name: details[name] for name in names} if details else None
        yield Finding(kind, severity, f"{files(len(rows))} {words}.", do, names, said, count=len(rows))
