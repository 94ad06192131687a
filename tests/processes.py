"""Processes of ours as a terminal starts them."""

import signal
import subprocess
from pathlib import Path
from typing import Any


def listening(command: list[str], **options: Any) -> subprocess.Popen[str]:
    """A process that hears Ctrl-C, even if the tests were started in the background, where it is ignored."""

    def hear() -> None:
        signal.signal(signal.SIGINT, signal.SIG_DFL)

    return subprocess.Popen(command, preexec_fn=hear, **options)


def below(pid: int, title: str) -> list[int]:
    """The processes that `pid` and its children started whose command line begins with `title`."""
    found = [
        child
        for task in Path(f"/proc/{pid}/task").iterdir()
        for child in map(int, (task / "children").read_text().split())
    ]
    lines = {child: Path(f"/proc/{child}/cmdline").read_bytes().decode(errors="replace") for child in found}
    mine = [child for child, line in lines.items() if line.startswith(title)]
    return mine + [deeper for child in found for deeper in below(child, title)]
