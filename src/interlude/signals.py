"""Ctrl-C and SIGTERM end a run after the step in hand, when its state can be saved."""

import signal
import threading
from types import FrameType, TracebackType
from typing import Any


class Stopped(KeyboardInterrupt):
    """A run that a signal ended after saving; `signal` is its number."""

    def __init__(self, message: str, number: int) -> None:
        super().__init__(message)
        self.signal = number


class StopRequest:
    """Inside the `with` block the first SIGINT or SIGTERM only sets `signal`; a second one acts at once."""

    def __init__(self) -> None:
        self.signal: int | None = None
        self._before: dict[int, Any] = {}

    def __enter__(self) -> "StopRequest":
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                self._before[number] = signal.signal(number, self._note)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._restore()

    def _note(self, number: int, frame: FrameType | None) -> None:
        self.signal = number
        self._restore()

    def _restore(self) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
