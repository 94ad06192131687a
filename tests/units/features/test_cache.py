"""Vectors on disk survive whatever ends a process, and are never taken for those of another network."""

import os
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

from interlude.errors import RunError, UserError
from interlude.features import cache as module
from interlude.features.cache import Cache

WIDTH = 5


def opened(folder, **about):
    return Cache(folder, about={"network": "a", **about}, width=WIDTH)


def names(*numbers):
    return [bytes([number]) * 16 for number in numbers]


def rows(*numbers):
    return np.repeat(np.array(numbers, np.float16)[:, None], WIDTH, 1)


def filled(folder, *numbers):
    cache = opened(folder)
    cache.append("weak", names(*numbers), rows(*numbers))
    return cache


def test_vectors_are_found_by_what_is_in_the_image(tmp_path):
    filled(tmp_path, 3, 1, 2)
    again = opened(tmp_path)
    assert again.find("weak", names(1, 9, 3)).tolist() == [1, -1, 0]
    assert np.array_equal(again.vectors("weak"), rows(3, 1, 2))


def test_a_view_that_was_never_extracted_is_empty(tmp_path):
    cache = opened(tmp_path)
    assert cache.find("strong", names(1)).tolist() == [-1]
    assert cache.vectors("strong").shape == (0, WIDTH)


def test_rows_are_added_behind_those_there_are(tmp_path):
    cache = filled(tmp_path, 1)
    cache.append("weak", names(2, 3), rows(2, 3))
    assert np.array_equal(cache.vectors("weak"), rows(1, 2, 3))
    assert cache.find("weak", names(3)).tolist() == [2]


@pytest.mark.parametrize(("ending", "extra"), [(".f16", 7), (".f16", 2 * WIDTH), (".idx", 5), (".idx", 16)])
def test_what_a_broken_process_left_is_cut_off(tmp_path, ending, extra):
    cache = filled(tmp_path, 1, 2)
    with (tmp_path / f"weak{ending}").open("ab") as file:
        file.write(b"\x07" * extra)
    assert cache.count("weak") == 2
    assert cache.find("weak", [b"\x07" * 16]).tolist() == [-1]
    cache.append("weak", names(3), rows(3))
    assert np.array_equal(cache.vectors("weak"), rows(1, 2, 3))
    assert cache.find("weak", names(1, 2, 3)).tolist() == [0, 1, 2]


def test_a_file_that_lost_its_end_counts_for_what_is_whole(tmp_path):
    cache = filled(tmp_path, 1, 2, 3)
    os.truncate(tmp_path / "weak.f16", 2 * 2 * WIDTH + 3)
    assert cache.find("weak", names(1, 2, 3)).tolist() == [0, 1, -1]


def test_another_network_in_the_folder_is_refused(tmp_path):
    filled(tmp_path, 1)
    with pytest.raises(UserError, match=r"speaks of another network: delete that folder"):
        opened(tmp_path, input_size=64)


@pytest.mark.parametrize("content", ["{", "[1]", ""])
def test_a_damaged_description_is_refused(tmp_path, content):
    filled(tmp_path, 1)
    (tmp_path / "about.json").write_text(content)
    with pytest.raises(UserError, match="delete that folder"):
        opened(tmp_path)


def test_vectors_without_a_description_are_refused(tmp_path):
    filled(tmp_path, 1)
    (tmp_path / "about.json").unlink()
    with pytest.raises(UserError, match=r"has vectors but no about.json: delete that folder"):
        opened(tmp_path)


def test_a_folder_that_cannot_be_made_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match=r"cannot keep vectors in .*choose another folder by features.cache"):
        opened(tmp_path / "file" / "below")


def test_a_full_disk_is_told_and_what_was_there_is_kept(tmp_path, monkeypatch):
    cache = filled(tmp_path, 1)

    def full(descriptor):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(module.os, "fsync", full)
        with pytest.raises(RunError, match=r"No space left on device; what is there is kept"):
            cache.append("weak", names(2), rows(2))
    cache.append("weak", names(3), rows(3))
    assert np.array_equal(cache.vectors("weak"), rows(1, 3))


def test_a_second_writer_waits_for_the_first_and_says_so(tmp_path):
    told, order = [], []
    first, second = opened(tmp_path), opened(tmp_path)

    def write():
        with second.locked(told.append):
            order.append("second")

    with first.locked():
        thread = threading.Thread(target=write)
        thread.start()
        while not told:
            time.sleep(0.001)
        order.append("first")
    thread.join()
    assert order == ["first", "second"]
    assert "waiting" in told[0]


def test_a_lone_writer_is_told_nothing(tmp_path):
    told = []
    with opened(tmp_path).locked(told.append):
        pass
    assert told == []


WRITER = """
import sys, numpy as np
from pathlib import Path
from interlude.features.cache import Cache
cache = Cache(Path(sys.argv[1]), about={"network": "a"}, width=5)
print("ready", flush=True)
number = cache.count("weak")
while True:
    row = np.full((1, 5), number % 1000, np.float16)
    cache.append("weak", [number.to_bytes(16, "little")], row)
    number += 1
"""


@pytest.mark.slow
def test_killed_at_any_moment_every_row_that_counts_is_right(tmp_path):
    for delay in (0.0, 0.003, 0.011, 0.05):
        process = subprocess.Popen(
            [sys.executable, "-c", WRITER, str(tmp_path)], stdout=subprocess.PIPE, text=True
        )
        process.stdout.readline()
        time.sleep(delay)
        process.send_signal(signal.SIGKILL)
        process.communicate()
    cache = opened(tmp_path)
    count = cache.count("weak")
    assert count > 0
    assert np.array_equal(cache.vectors("weak")[:, 0], np.arange(count) % 1000)
    found = cache.find("weak", [number.to_bytes(16, "little") for number in range(count)])
    assert np.array_equal(found, np.arange(count))
