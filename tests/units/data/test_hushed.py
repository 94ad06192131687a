"""Decoders are silent in any number of threads, and everybody else's warnings stay as they were."""

import warnings
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest

from interlude.data.hushed import hushed


def warn_as(module: str) -> None:
    """A warning that the code of a module gives."""
    exec("import warnings; warnings.warn('odd', UserWarning)", {"__name__": module})


def test_warnings_of_decoders_are_not_heard_even_where_they_are_errors() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with hushed():
            warn_as("PIL.TiffImagePlugin")
            warn_as("pydicom.dataset")


def test_warnings_of_others_are_heard() -> None:
    with hushed(), pytest.warns(UserWarning, match="odd"):
        warn_as("somebody.else")


def test_decoders_are_heard_again_afterwards_also_after_an_error() -> None:
    with pytest.raises(OSError, match="cut short"), hushed():
        raise OSError("cut short")
    with pytest.warns(UserWarning, match="odd"):
        warn_as("PIL.TiffImagePlugin")


def test_threads_that_overlap_leave_the_filters_as_they_were() -> None:
    before = list(warnings.filters)
    barrier = Barrier(2)

    def first() -> None:
        with hushed():
            barrier.wait()  # the second is inside too
            barrier.wait()  # and stays, while this one leaves

    def second() -> None:
        with hushed():
            barrier.wait()
            barrier.wait()
            warn_as("PIL.Image")

    with ThreadPoolExecutor(2) as pool:
        for done in [pool.submit(first), pool.submit(second)]:
            done.result()
    assert list(warnings.filters) == before


def test_what_others_change_meanwhile_is_kept() -> None:
    with warnings.catch_warnings():
        with hushed():
            warnings.filterwarnings("error", message="mine")
        with pytest.raises(UserWarning, match="mine"):
            warnings.warn("mine", stacklevel=1)
