"""Commands in processes of their own: what they print goes to files, so that they outlive the server."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from pathlib import Path

from interlude.lock import Taken, held

NICENESS = 5  # who labels comes first
TAIL = 4096  # bytes at the end of a log that are looked at
PATIENCE = 20.0  # seconds that a process has to write down what it has, when it is stopped

INTERLUDE = (sys.executable, "-m", "interlude")


class Job:
    """A command that runs; its standard output goes to `out`, or with its errors to `log`."""

    def __init__(self, command: Sequence[str], *, log: Path, out: Path | None = None) -> None:
        self.log = log
        with ExitStack() as files:
            errors = files.enter_context(log.open("ab"))
            output = errors if out is None else files.enter_context(out.open("wb"))
            self._process = subprocess.Popen(
                list(command),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=errors,
                start_new_session=True,  # a Ctrl-C is ours to pass on
            )
        if hasattr(os, "setpriority"):
            with suppress(OSError):
                os.setpriority(os.PRIO_PROCESS, self.pid, NICENESS)

    @property
    def pid(self) -> int:
        """The number of the process."""
        return self._process.pid

    @property
    def code(self) -> int | None:
        """The exit code; None while it runs."""
        return self._process.poll()

    def stop(self) -> None:
        """Ask it to end; it keeps what it has."""
        self._process.terminate()

    def end(self) -> None:
        """Have it ended when this returns."""
        if self.code is None:
            self.stop()
            try:
                self._process.wait(PATIENCE)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()


class Orphan:
    """A command that a server before this one began; it runs as long as it holds its lock."""

    def __init__(self, lock: Path, pid: int, *, log: Path, done: Path) -> None:
        self.lock, self.pid, self.log, self.done = lock, pid, log, done

    @property
    def code(self) -> int | None:
        """None while it runs, then 0 if it left what it was to make."""
        return None if is_taken(self.lock) else int(not self.done.exists())

    def stop(self) -> None:
        """Ask it to end."""
        if is_taken(self.lock):
            with suppress(OSError):
                os.kill(self.pid, signal.SIGTERM)

    def end(self) -> None:
        """Have it ended when this returns, or be told that it needs longer."""
        self.stop()
        deadline = time.monotonic() + PATIENCE
        while self.code is None and time.monotonic() < deadline:
            time.sleep(0.1)


def is_taken(lock: Path) -> bool:
    """Whether a process holds this lock."""
    if not lock.exists():
        return False
    try:
        with held(lock):
            return False
    except (Taken, OSError):
        return True


def last_line(log: Path) -> str:
    """The last line that was printed; empty if there is none."""
    try:
        with log.open("rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - TAIL))
            text = file.read().decode(errors="replace")
    except OSError:
        return ""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else ""
