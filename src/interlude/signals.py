"""What signals ask of a run: Ctrl-C and SIGTERM to save and stop, SIGUSR1 to save and go on."""

import signal
import threading
from types import FrameType, TracebackType
from typing import Any

STOP = (signal.SIGINT, signal.SIGTERM)
SAVE: int | None = getattr(signal, "SIGUSR1", None)  # not on Windows


class Stopped(KeyboardInterrupt):
    """A run that a signal ended after saving; `signal` is its number. `at_once`: nothing is waited for."""

    def __init__(self, message: str, number: int, *, at_once: bool = False) -> None:
        super().__init__(message)
        self.signal, self.at_once = number, at_once


class StopRequest:
    """Inside the `with` block the first SIGINT or SIGTERM only sets `signal`; a second one acts at once.

    A SIGUSR1 is remembered until `take_save`.
    """

    def __init__(self) -> None:
        self.signal: int | None = None
        self._save = False
        self._before: dict[int, Any] = {}

    def __enter__(self) -> "StopRequest":
        if threading.current_thread() is threading.main_thread():
            for number in STOP:
                self._before[number] = signal.signal(number, self._note_stop)
            if SAVE is not None:
                self._before[SAVE] = signal.signal(SAVE, self._note_save)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def take_save(self) -> bool:
        """Whether a checkpoint was asked for since the last call."""
        if not self._save:  # a signal that comes between two lines must not be lost
            return False
        self._save = False
        return True

    def _note_stop(self, number: int, frame: FrameType | None) -> None:
        self.signal = number
        for other in STOP:
            signal.signal(other, self._before[other])

    def _note_save(self, number: int, frame: FrameType | None) -> None:
        self._save = True


def pass_over_save() -> None:
    """Let SIGUSR1 end nothing while there is no step to save, as in reading images."""
    if SAVE is None or threading.current_thread() is not threading.main_thread():
        return
    if signal.getsignal(SAVE) is signal.SIG_DFL:
        signal.signal(SAVE, signal.SIG_IGN)
