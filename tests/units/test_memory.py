"""The heap is kept where the C library can, and nowhere else is anything done."""

import subprocess
import sys
import types

import pytest

from interlude import memory

COUNT_FAULTS = """
import resource, sys
from interlude import memory
if sys.argv[1] == "keep":
    assert memory.keep_heap()
def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt
bytearray(1 << 26)
before = faults()
for _ in range(10):
    bytearray(b"1") * (1 << 26)
print(faults() - before)
"""


def faults(how):
    outcome = subprocess.run(
        [sys.executable, "-c", COUNT_FAULTS, how], capture_output=True, text=True, check=True
    )
    return int(outcome.stdout)


def test_memory_that_is_kept_is_not_cleared_again():
    assert faults("keep") < faults("give back") / 3


@pytest.mark.parametrize("platform", ["darwin", "win32"])
def test_other_systems_are_left_alone(monkeypatch, platform):
    monkeypatch.setattr(memory.sys, "platform", platform)
    monkeypatch.setattr(memory.ctypes, "CDLL", None)
    assert memory.keep_heap() is False


def test_a_library_without_the_call_is_left_alone(monkeypatch):
    monkeypatch.setattr(memory.sys, "platform", "linux")
    monkeypatch.setattr(memory.ctypes, "CDLL", lambda name: types.SimpleNamespace())
    assert memory.keep_heap() is False
