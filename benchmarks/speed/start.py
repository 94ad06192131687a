"""How long `interlude --help` and `import interlude` take, by the clock on the wall."""

import subprocess
import sys
import time
from typing import Any

import measure

COMMANDS = {
    "start-help": [sys.executable, "-m", "interlude", "--help"],
    "start-import": [sys.executable, "-c", "import interlude"],
}
COUNT_TORCH = "import sys\nprint(sum(name.split('.')[0] == 'torch' for name in sys.modules))"
SHOW_HELP = """
import contextlib, io, interlude.cli
with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(SystemExit):
    interlude.cli.main(["--help"])
"""


def rows() -> list[dict[str, Any]]:
    """Seconds from start to end of a process, and modules of torch."""
    sides = {name: lambda command=command: seconds(command) for name, command in COMMANDS.items()}  # type: ignore[misc]
    times = measure.interleaved(sides)
    modules = [torch_modules(code) for code in ("import interlude\n", SHOW_HELP)]
    return [
        *(
            measure.row(name, values, conditions="wall clock, whole process")
            for name, values in times.items()
        ),
        measure.row("start-torch", [float(max(modules))]),
    ]


def seconds(command: list[str]) -> float:
    """Wall time of a process."""
    began = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - began


def torch_modules(code: str) -> int:
    """How many modules of torch are loaded after some code."""
    shown = subprocess.run(
        [sys.executable, "-c", code + COUNT_TORCH], check=True, capture_output=True, text=True
    )
    return int(shown.stdout)


if __name__ == "__main__":
    measure.main(rows)
