"""The process of one cell: `python -m interlude.bench.worker`, its settings on standard input.

Standard input stays open as long as the one that started it lives and wants the cell: at its end the run
saves and stops, so that no run is ever left behind, however its parent went.
"""

import os
import shutil
import signal
import sys
import threading
from pathlib import Path
from typing import TextIO

import yaml

from interlude.bench.fused import write_fused
from interlude.config import Config, Layer, resolve
from interlude.errors import RunError, UserError
from interlude.lock import Taken, held
from interlude.training import train_configured

END = "...\n"  # closes a YAML document
BUSY = 75


def main() -> int:
    """Train the configuration that standard input describes; the exit code says how it went."""
    config, fused = read_task(sys.stdin)
    threading.Thread(target=stop_at_the_end, args=(sys.stdin.fileno(),), daemon=True).start()
    assert config.out is not None
    folder = Path(config.out)
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with held(folder.with_name(folder.name + ".lock")):  # beside it: what was barely begun is removed
            train(config, folder)
            if fused:
                write_fused(folder)
    except Taken:
        print("another process runs this cell", file=sys.stderr)
        return BUSY
    except (UserError, RunError) as error:
        print(error, file=sys.stderr)
        return 1
    except KeyboardInterrupt as stop:
        return 128 + int(getattr(stop, "signal", signal.SIGINT))
    return 0


def read_task(stream: TextIO) -> tuple[Config, bool]:
    """The settings, and whether the finished model is to be judged with fused test images."""
    lines = iter(stream.readline, "")
    text = "".join(iter(lambda: next(lines, END), END))
    task = yaml.safe_load(text)
    return resolve([Layer("bench", task["config"])]), bool(task["fused"])


def stop_at_the_end(handle: int) -> None:
    """Wait for the end of an open file, then ask this process to save and stop."""
    while os.read(handle, 1):  # not by the stream, whose lock would be held when the interpreter ends
        pass
    os.kill(os.getpid(), signal.SIGTERM)


def train(config: Config, folder: Path) -> None:
    """Start the run, go on with it, or leave it as it is if it is finished."""
    if (folder / "summary.json").exists():
        return
    resume = (folder / "config.yaml").exists()
    if not resume:
        shutil.rmtree(folder, ignore_errors=True)  # killed before its first step
    train_configured(config, resume=resume, quiet=True)


if __name__ == "__main__":
    sys.exit(main())
