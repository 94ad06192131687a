"""Real faults: a store whose maker is killed, and two makers at once."""

import os
import signal
import subprocess
import sys
import textwrap
import time

import pytest
import torch

from image_files import noise, write
from interlude.data.decode import read_pixels
from interlude.data.store import Shape, cache_folder, open_store

SHAPE = Shape(3, 32, "crop")

MAKE = textwrap.dedent(
    """
    import sys
    from pathlib import Path
    from interlude.data import store
    store.FLUSH_SECONDS = 0.01
    decode = store.decode
    def tell(content, name, **options):
        print(name, flush=True)
        return decode(content, name, **options)
    store.decode = tell
    root = Path(sys.argv[1])
    names = sorted(path.name for path in root.iterdir())
    stored = store.open_store(root, names, store.Shape(3, 32, "crop"))
    print("done", len(stored.problems), flush=True)
    """
)


@pytest.fixture
def root(tmp_path, monkeypatch):
    monkeypatch.setenv("INTERLUDE_CACHE", str(tmp_path / "cache"))
    for number in range(150):
        write(tmp_path / "images" / f"{number:03d}.jpg", noise(128, 128, seed=number))
    return tmp_path / "images"


def make(root, **options):
    return subprocess.Popen(
        [sys.executable, "-c", MAKE, str(root)], stdout=subprocess.PIPE, text=True, env=os.environ, **options
    )


def check(root):
    names = sorted(path.name for path in root.iterdir())
    stored = open_store(root, names, SHAPE)
    expected = torch.stack([torch.from_numpy(read_pixels(root / name, *SHAPE)) for name in names])
    assert torch.equal(stored.pixels.index_select(0, torch.from_numpy(stored.rows)), expected)


@pytest.mark.slow
@pytest.mark.parametrize("after", [1, 20, 60, 100, 140])
def test_a_killed_maker_loses_little_and_breaks_nothing(root, after):
    process = make(root)
    decoded = [process.stdout.readline() for _ in range(after)]
    process.send_signal(signal.SIGKILL)
    decoded += process.stdout.readlines()
    process.wait()
    again = make(root)
    lines = again.communicate()[0].split("\n")
    assert again.returncode == 0
    assert "done 0" in lines
    assert len(lines) - 2 >= 150 - len(decoded)
    assert len(lines) - 2 < 150 or after < 60, "what was decoded and saved is not decoded again"
    check(root)


@pytest.mark.slow
def test_of_two_makers_one_waits_for_the_other(root):
    processes = [make(root, stderr=subprocess.PIPE) for _ in range(2)]
    outputs = [process.communicate() for process in processes]
    assert [process.returncode for process in processes] == [0, 0]
    decoded = [sum(line.endswith(".jpg") for line in out.split("\n")) for out, _ in outputs]
    assert sum(decoded) == 150, "every image is decoded once"
    check(root)


@pytest.mark.slow
def test_a_maker_that_dies_with_the_lock_does_not_keep_it(root):
    process = make(root)
    process.stdout.readline()
    process.send_signal(signal.SIGSTOP)
    other = make(root, stderr=subprocess.PIPE)
    deadline = time.monotonic() + 60
    while "waiting" not in other.stderr.readline():
        assert time.monotonic() < deadline
    process.send_signal(signal.SIGKILL)
    process.wait()
    out, _ = other.communicate(timeout=120)
    assert "done 0" in out
    check(root)
    assert len(list(cache_folder().iterdir())) == 1
