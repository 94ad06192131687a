"""Commands of ours as processes in a folder of their own, and faults to put them under."""

import ctypes
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

SETTINGS = """
data: digits
labels: 20
batch: 4
mu: 2
augment: digits
threads: 1
steps: 24
save_every: 4
log_every: 1
"""
QUICK = ["--config", "quick.yaml"]
PATIENCE = 300  # seconds
# what root must lose for the rights of files to count for it too: CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH
DROP, OVERRIDES = 24, (1, 2)


class Outcome(NamedTuple):
    """How a command ended, and what it said."""

    code: int
    out: str
    err: str

    @property
    def message(self) -> str:
        """Its last line, which says what is wrong and what to do."""
        assert "Traceback" not in self.err, self.err
        return self.err.strip().rpartition("\n")[2]


class Here:
    """A folder in which commands run as processes of their own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "quick.yaml").write_text(SETTINGS)
        self.started: list[subprocess.Popen[str]] = []
        self.env = {**os.environ, "INTERLUDE_CACHE": str(folder / "cache"), "OMP_NUM_THREADS": "1"}

    def start(
        self, *words: str | Path, fault: Callable[[], None] = int, script: str = ""
    ) -> subprocess.Popen[str]:
        """Start `interlude WORDS`, after `fault()` in the new process; `script` is run before the command."""

        def prepare() -> None:
            signal.signal(signal.SIGINT, signal.SIG_DFL)  # ignored where tests run in the background
            fault()

        code = f"{script}\nfrom interlude.cli import main\nmain()"
        process = subprocess.Popen(
            [sys.executable, "-c", code, *map(str, words)],
            cwd=self.folder,
            env=self.env,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            preexec_fn=prepare,
        )
        self.started.append(process)
        return process

    def run(self, *words: str | Path, fault: Callable[[], None] = int, script: str = "") -> Outcome:
        """Let `interlude WORDS` come to its end."""
        return ended(self.start(*words, fault=fault, script=script))

    def train(self, *words: str | Path, fault: Callable[[], None] = int, script: str = "") -> Outcome:
        """Let a quick training run come to its end."""
        return self.run("train", *QUICK, *words, fault=fault, script=script)


def ended(process: subprocess.Popen[str]) -> Outcome:
    """How a process ends."""
    out, err = process.communicate(timeout=PATIENCE)
    return Outcome(process.returncode, out, err)


def files_up_to(size: int) -> Callable[[], None]:
    """A fault: no file can grow beyond so many bytes, as if the disk were full there."""
    return lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))


def without_power() -> None:
    """A fault: what may not be written cannot be written, even by root."""
    if os.geteuid() == 0:
        for capability in OVERRIDES:
            assert ctypes.CDLL(None).prctl(DROP, capability, 0, 0, 0) == 0, "root keeps its power"
