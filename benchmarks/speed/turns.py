"""Sides that need a process of their own, for the allocator's sake: each does one piece of work at its turn.

A process waits, without using the processor, until it is asked for its next piece, and reports the CPU time
of all its threads since its last one, but for what asking and reporting take.
"""

import subprocess
import sys
import time
from typing import Any


class Worker:
    """The process of a side, seen from outside: a script that was given some words."""

    def __init__(self, script: str, *words: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, script, *words],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            bufsize=1,
        )

    def __call__(self) -> float:
        """CPU seconds of its next piece of work."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write("go\n")
        for line in self.process.stdout:
            if line.startswith("seconds "):
                return float(line.split()[1])
        raise RuntimeError(f"a side ended early, with code {self.process.wait()}")

    def close(self) -> None:
        """End the process."""
        self.process.kill()
        self.process.communicate()


class Turns:
    """The same, seen from inside."""

    def __init__(self) -> None:
        sys.stdin.readline()
        self.began = time.process_time()

    def done(self, *_: Any, pieces: int = 1) -> None:
        """Report a piece of work, or one of so many alike, and wait for the next turn."""
        now, own = time.process_time(), time.thread_time()
        print("seconds", (now - self.began) / pieces, flush=True)
        if not sys.stdin.readline():
            sys.exit(0)
        self.began = now + time.thread_time() - own
