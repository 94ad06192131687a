"""Processes of ours as a terminal starts them."""

import signal
import subprocess
from typing import Any


def listening(command: list[str], **options: Any) -> subprocess.Popen[str]:
    """A process that hears Ctrl-C, even if the tests were started in the background, where it is ignored."""

    def hear() -> None:
        signal.signal(signal.SIGINT, signal.SIG_DFL)

    return subprocess.Popen(command, preexec_fn=hear, **options)
