"""Running the command line inside the test process, and small settings that finish in a second."""

import subprocess
import sys
from typing import NamedTuple

import pytest

from interlude.cli import main
from runs import QUICK


class Outcome(NamedTuple):
    """What a command printed and how it ended."""

    code: int
    out: str
    err: str


@pytest.fixture
def interlude(capfd, monkeypatch, tmp_path):
    """Run `interlude ARGS` in a temporary folder that holds `quick.yaml`; returns its outcome."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "quick.yaml").write_text(QUICK)

    def run(*args: str) -> Outcome:
        capfd.readouterr()
        with pytest.raises(SystemExit) as end:
            main([str(arg) for arg in args])
        out, err = capfd.readouterr()
        return Outcome(end.value.code or 0, out, err)

    return run


@pytest.fixture
def train(interlude):
    """Run a quick `interlude train` with more options."""

    def run(*args: str) -> Outcome:
        return interlude("train", "--config", "quick.yaml", *args)

    return run


@pytest.fixture
def spawn(tmp_path):
    """Start a quick `interlude train` as a real process in the temporary folder."""
    started = []
    (tmp_path / "quick.yaml").write_text(QUICK)

    def start(*args: str, **options) -> subprocess.Popen:
        command = [sys.executable, "-m", "interlude", "train", "--config", "quick.yaml", *map(str, args)]
        process = subprocess.Popen(
            command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options
        )
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()
