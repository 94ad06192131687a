"""The examination of a folder before anything is trained on it."""

from collections.abc import Iterator

from interlude.data.listing import Listing
from interlude.doctor.copies import check_copies, check_labels_of_copies, find_copies
from interlude.doctor.diagnosis import ROLES, SEVERITIES, Cast, Diagnosis, Finding, cast
from interlude.doctor.labels import check_classes, check_parts, check_problems
from interlude.doctor.pictures import check_pictures, check_readable
from interlude.doctor.scan import Scan, scan


def examine(listing: Listing, *, quiet: bool = False) -> Diagnosis:
    """Read every image of a listing once, and say what is wrong with them; nothing is changed."""
    seen = scan(listing.root, listing.paths, quiet=quiet)
    roles = cast(listing, seen.readable)
    copies = find_copies(roles, seen, quiet=quiet)
    excluded: dict[str, str] = {}
    findings = [
        *all_but_copies(roles, seen, excluded),
        *check_labels_of_copies(roles, copies, excluded),
        *check_copies(roles, copies, excluded),
    ]
    return Diagnosis(
        folder=str(listing.root),
        images=len(listing),
        roles={name: len(roles.rows(role)) for role, name in enumerate(ROLES)},
        classes=roles.counts(),
        findings=tuple(sorted(findings, key=lambda finding: SEVERITIES.index(finding.severity))),
        excluded=excluded,
        together=copies.together(len(listing)),
    )


def all_but_copies(roles: Cast, seen: Scan, excluded: dict[str, str]) -> Iterator[Finding]:
    """Findings on files, labels and single pictures."""
    yield from check_readable(roles, seen, excluded)
    yield from check_classes(roles)
    yield from check_problems(roles)
    yield from check_parts(roles)
    yield from check_pictures(roles, seen)
