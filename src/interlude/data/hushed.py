"""Decoders that keep their warnings to themselves, in many threads at once."""

import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from threading import Lock

DECODERS = re.compile(r"PIL\.|pydicom\.")
_HUSH = ("ignore", None, Warning, DECODERS, 0)

_lock = Lock()
_inside = 0


@contextmanager
def hushed() -> Iterator[None]:
    """Inside, warnings of the decoders are ignored.

    `warnings.catch_warnings` puts back a list that another thread may have changed since. Here the first
    thread adds one filter and the last one takes just this out again; filters of others are not touched.
    """
    global _inside
    with _lock:
        _inside += 1
        if _inside == 1:
            warnings.filters.insert(0, _HUSH)  # type: ignore[attr-defined]
    try:
        yield
    finally:
        with _lock:
            _inside -= 1
            if not _inside:
                with suppress(ValueError):  # whoever restored a list of theirs has taken it out
                    warnings.filters.remove(_HUSH)  # type: ignore[attr-defined]
