"""All speed benchmarks, one after the other, each in a process of its own; `make bench-speed` runs this.

    python benchmarks/speed/run.py              # everything, about a quarter of an hour
    python benchmarks/speed/run.py --only ema   # one of them; its rows replace those measured before

Prints the table and writes `benchmarks/results/speed.json`. Quiet machines give small spreads.
"""

import argparse
import importlib
import importlib.metadata
import json
import multiprocessing
import os
import platform
import subprocess
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import measure
import table

SCRIPTS = ("start", "first_step", "exactness", "augmentation", "ema", "flops", "evaluation", "rest")
SCRIPTS += ("price", "frozen_weak", "pool", "whole_step")
PACKAGES = ("torch", "torchvision", "numpy", "pillow", "numba", "kornia", "albumentations")


def main() -> None:
    """Measure, merge, write, print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", choices=SCRIPTS, action="append", help="measure only this; may be repeated")
    parser.add_argument("--table", action="store_true", help="only print the table of the last results")
    args = parser.parse_args()
    content, code = table.read(), commit()  # asked before results are written, which would make it dirty
    for name in () if args.table else args.only or SCRIPTS:
        began = time.monotonic()
        content = {"rows": table.merged(content["rows"], measured(name, code)), **about()}
        write(content)
        print(f"measured {name} in {time.monotonic() - began:.0f} s", flush=True)
    print(table.render(content["rows"]))


def measured(name: str, code: str) -> list[dict[str, Any]]:
    """The rows of one script, from a fresh process: none inherits the heap or the caches of another."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        rows: list[dict[str, Any]] = pool.apply(rows_of, (name, code))
    return rows


def rows_of(name: str, code: str) -> list[dict[str, Any]]:
    """Inside that process."""
    measure.one_thread()
    origin = {"date": datetime.now(UTC).isoformat(timespec="seconds"), "commit": code}
    return [{**row, **origin} for row in importlib.import_module(name).rows()]


def about() -> dict[str, Any]:
    """The machine and the versions that the figures are of."""
    found = {name: version(name) for name in PACKAGES}
    return {
        "machine": {"processor": processor(), "cores": os.cpu_count(), "system": platform.system()},
        "versions": {"python": platform.python_version(), **found},
    }


def version(package: str) -> str | None:
    """The installed version, if any."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def processor() -> str:
    """The name of the processor."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text(encoding="utf-8").splitlines() if info.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def commit() -> str:
    """The commit that is checked out, marked if files differ from it."""
    shown = subprocess.run(
        ["git", "describe", "--always", "--dirty"], capture_output=True, text=True, check=False
    )
    return shown.stdout.strip()


def write(content: dict[str, Any]) -> None:
    """The results, whole or not at all."""
    table.RESULTS.parent.mkdir(exist_ok=True)
    fresh = table.RESULTS.with_suffix(".tmp")
    fresh.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    fresh.replace(table.RESULTS)


if __name__ == "__main__":
    main()
