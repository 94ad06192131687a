"""A lock is had by one process, told of, and gone with its process."""

import os
import re
import subprocess
import sys
import threading

import pytest

from interlude.errors import UserError
from interlude.lock import LOCK, Taken, alone_in, held


def test_a_lock_is_had_once_and_free_after_the_block(tmp_path):
    for _ in range(2):
        with held(tmp_path / "lock"), pytest.raises(Taken, match=rf"process {os.getpid()} on \S+"):
            held(tmp_path / "lock").__enter__()


def test_a_lock_is_free_after_an_error(tmp_path):
    with pytest.raises(ZeroDivisionError), held(tmp_path / "lock"):
        raise ZeroDivisionError
    with held(tmp_path / "lock"):
        pass


def test_who_waits_is_told_of_the_other_and_comes_next(tmp_path):
    told, order = [], []

    def wait():
        with held(tmp_path / "lock", waiting=lambda who: (told.append(who), is_waiting.set())):
            order.append("second")

    is_waiting, second = threading.Event(), threading.Thread(target=wait)
    with held(tmp_path / "lock"):
        second.start()
        assert is_waiting.wait(timeout=10)
        order.append("first")
    second.join()
    assert order == ["first", "second"]
    assert re.match(rf"process {os.getpid()} on", told[0])


def test_a_second_process_is_refused_in_a_line_that_names_the_first(tmp_path):
    with (
        alone_in(tmp_path),
        pytest.raises(UserError, match=rf"in use by process {os.getpid()} .*wait until it ends"),
    ):
        alone_in(tmp_path).__enter__()


def test_an_error_inside_is_not_taken_for_one_of_the_lock(tmp_path):
    with pytest.raises(PermissionError), alone_in(tmp_path):
        raise PermissionError(13, "Permission denied")


def test_a_process_takes_its_lock_with_it(tmp_path):
    code = "import os, sys; from pathlib import Path; from interlude.lock import held\n"
    code += "held(Path(sys.argv[1])).__enter__(); os.kill(os.getpid(), 9)"
    subprocess.run([sys.executable, "-c", code, str(tmp_path / LOCK)], check=False)
    assert (tmp_path / LOCK).read_text().startswith("process ")
    with alone_in(tmp_path):
        pass


def test_a_disk_without_room_does_not_hinder_a_lock(tmp_path):
    (tmp_path / LOCK).symlink_to("/dev/full")
    with alone_in(tmp_path), pytest.raises(UserError, match="in use by"):
        alone_in(tmp_path).__enter__()
