"""What a user reads when something is wrong: one line, and what to do."""

import errno
import os

import pytest

from interlude.errors import CURES, UserError, cure


def test_a_message_is_one_line_whatever_it_quotes():
    assert str(UserError("no column 'a\r\nb'; name one")) == "no column 'a b'; name one"


@pytest.mark.parametrize("number", CURES)
def test_an_error_of_the_disk_names_the_place_the_reason_and_the_cure(number):
    said = cure(OSError(number, os.strerror(number), "run/report.html"))
    assert said == f"run/report.html: {os.strerror(number).lower()}; {CURES[number]}"


def test_an_error_of_the_disk_without_a_place_has_a_cure_too():
    assert cure(OSError(errno.ENOSPC, "No space left on device")) == (
        "no space left on device; make room on that disk"
    )


def test_a_file_that_is_not_there_is_no_matter_of_the_disk():
    assert cure(FileNotFoundError(errno.ENOENT, "No such file", "a")) is None
    assert cure(OSError("no number")) is None
