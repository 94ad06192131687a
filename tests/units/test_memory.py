"""The heap is kept where the C library can, and nowhere else is anything done."""

import subprocess
import sys
import types

import pytest

from interlude import memory

COUNT_FAULTS = """
import resource, sys, threading
from interlude import memory
if "keep" in sys.argv:
    assert memory.keep_heap()
def work():
    global before
    for number in range(11):
        if number == 1:
            before = faults()
        pieces = [bytearray(b"1") * (1 << 25) for _ in range(3)]
        del pieces
def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt
if "thread" in sys.argv:
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
else:
    work()
print(faults() - before)
"""


def faults(*how):
    outcome = subprocess.run(
        [sys.executable, "-c", COUNT_FAULTS, *how], capture_output=True, text=True, check=True
    )
    return int(outcome.stdout)


@pytest.mark.parametrize("where", ["main", "thread"])
def test_memory_that_is_kept_is_not_cleared_again(where):
    assert faults("keep", where) < faults("give back", where) / 3


@pytest.mark.parametrize("platform", ["darwin", "win32"])
def test_other_systems_are_left_alone(monkeypatch, platform):
    monkeypatch.setattr(memory.sys, "platform", platform)
    monkeypatch.setattr(memory.ctypes, "CDLL", None)
    assert memory.keep_heap() is False


def test_a_library_without_the_call_is_left_alone(monkeypatch):
    monkeypatch.setattr(memory.sys, "platform", "linux")
    monkeypatch.setattr(memory.ctypes, "CDLL", lambda name: types.SimpleNamespace())
    assert memory.keep_heap() is False
