"""Do memory and the time of a step stay as they are when the unlabeled set grows?

    python benchmarks/growth.py FOLDER    # makes image folders in FOLDER, a million files: a few minutes

Folders of 10^4, 10^5 and 10^6 unlabeled images, most of them hard links to a few files, each with a store as
a first run would leave it, its pixels a sparse file. A process each opens the folder and trains; the three
take turns, some steps at a time. Private memory is RssAnon of /proc: pages of the mapped store are the
kernel's, which takes them back when it needs them. Time is CPU time of the process, one thread. The result is
in results/growth.json.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from interlude.data import store
from interlude.data.index import Index, Known
from interlude.data.walk import find_images

RESULT = Path(__file__).resolve().parent / "results" / "growth.json"
SIZES = (10**4, 10**5, 10**6)
SIDE = 32
LABELED = 20  # images of each of two classes
LINKS = 30_000  # names that a file may have; file systems allow few more
IN_A_FOLDER = 10_000
ROUNDS, STEPS = 15, 8  # turns of each size, and steps in a turn
MOST_MEGABYTES, MOST_SHARE = 200, 0.10  # what growth may cost, in memory and of the time of a step


def make_folder(root: Path, unlabeled: int) -> None:
    """An image folder of two classes, and so many images without a label."""
    if (root / ".done").exists():
        return
    random = np.random.default_rng(0)
    for number in range(2 * LABELED):
        write(root / ("dark" if number % 2 else "light") / f"{number}.png", random, 64 + 128 * (number % 2))
    for number in range(unlabeled):
        place = root / "unlabeled" / f"{number // IN_A_FOLDER:03d}" / f"{number:07d}.png"
        if number % LINKS == 0:
            source = write(place, random, 128)
            continue
        if number % IN_A_FOLDER == 0:
            place.parent.mkdir(parents=True, exist_ok=True)
        place.hardlink_to(source)
    (root / ".done").touch()


def make_store(root: Path) -> None:
    """What a run that has decoded the folder leaves, but for the pixels: those are a hole in the file."""
    shape = store.Shape(1, SIDE, "crop")
    folder = store.cache_folder() / store._name(root, shape)
    if folder.exists():
        return
    folder.mkdir(parents=True)
    paths, _ = find_images(root)
    with closing(Index(folder / "index.sqlite")) as index:
        for start in range(0, len(paths), IN_A_FOLDER):
            index.add(entry(root, path, start + row) for row, path in enumerate(paths[start:][:IN_A_FOLDER]))
    with (folder / "pixels").open("wb") as pixels:
        pixels.truncate(len(paths) * shape.num_bytes)


def entry(root: Path, path: str, row: int) -> Known:
    """What the index has on a file."""
    key = store._key(f"{root}/{path}")
    assert key is not None
    return Known(os.fsencode(path), *key, row.to_bytes(store.DIGEST_BYTES, "big"), row)


def write(path: Path, random: np.random.Generator, level: int) -> Path:
    """A grey picture about so bright."""
    path.parent.mkdir(parents=True, exist_ok=True)
    pixels = random.normal(level, 30, (SIDE, SIDE)).clip(0, 255).astype(np.uint8)
    Image.fromarray(pixels).save(path)
    return path


def memory() -> dict[str, int]:
    """Megabytes of this process: private now, mapped from files now, and the most of both together."""
    lines = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    names = {"private": "RssAnon", "mapped": "RssFile", "peak": "VmHWM"}
    return {ours: int(lines[theirs].split()[0]) // 1024 for ours, theirs in names.items()}


def train(root: Path) -> None:
    """Open the images and train, a turn for each line on standard input; a line of JSON for each."""
    from interlude.config import Layer, resolve
    from interlude.loop import fit
    from interlude.run import settle
    from interlude.training import make_run

    def say(**values: Any) -> None:
        print(json.dumps(values), flush=True)
        if not sys.stdin.readline():
            sys.exit()

    settings = {"data": str(root), "batch": 8, "model": "cnn", "augment": "grayscale-medical", "threads": 1}
    before, began = memory(), time.process_time()
    run = make_run(settle(resolve([Layer("growth", settings)])), None, quiet=True)
    say(images=len(run.split.unlabeled), imports=before, loaded=memory(), seconds=time.process_time() - began)
    ends = [time.process_time()]

    def after_step() -> None:
        ends.append(time.process_time())
        if len(ends) > STEPS:
            say(memory=memory(), milliseconds=1000 * statistics.median(np.diff(ends)))
            ends[:] = [time.process_time()]

    fit(run, after_step)


class Child:
    """A process that trains on the images of one folder, turn by turn."""

    def __init__(self, root: Path) -> None:
        command = [sys.executable, __file__, "--train", str(root)]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def turn(self) -> dict[str, Any]:
        """Wait for what it says next, and let it go on."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, "the process ended"
        said: dict[str, Any] = json.loads(line)
        return said

    def go_on(self) -> None:
        """Let it take its next turn."""
        assert self.process.stdin is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    def end(self) -> None:
        """Let it go."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()


def measure(folder: Path) -> dict[str, Any]:
    """The figures of all sizes, beside each other."""
    os.environ |= {"INTERLUDE_CACHE": str(folder / "cache"), "OMP_NUM_THREADS": "1"}
    for size in SIZES:
        make_folder(folder / str(size), size)
        make_store(folder / str(size))
    rows: list[dict[str, Any]] = [{} for _ in SIZES]
    children = [Child(folder / str(size)) for size in SIZES]
    for row, child in zip(rows, children, strict=True):
        row["opening"] = child.turn()
    turns: list[list[dict[str, Any]]] = [[] for _ in SIZES]
    for _ in range(ROUNDS + 1):
        for child, said in zip(children, turns, strict=True):
            child.go_on()
            said.append(child.turn())
    for row, child, said in zip(rows, children, turns, strict=True):
        child.end()
        row["training"] = said[-1]["memory"]
        row["milliseconds"] = [round(turn["milliseconds"], 2) for turn in said[1:]]
    return verdict(rows)


def verdict(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """The figures with what growth costs."""
    small, large = rows[0], rows[-1]
    ratios = [b / a for a, b in zip(small["milliseconds"], large["milliseconds"], strict=True)]
    megabytes = large["training"]["private"] - small["training"]["private"]
    slower = statistics.median(ratios) - 1
    return {
        "sizes": [row["opening"]["images"] for row in rows],
        "private_megabytes": [row["training"]["private"] for row in rows],
        "milliseconds_a_step": [statistics.median(row["milliseconds"]) for row in rows],
        "more_megabytes": megabytes,
        "slower": round(slower, 4),
        "holds": megabytes <= MOST_MEGABYTES and slower <= MOST_SHARE,
        "conditions": f"CPU time, 1 thread, {ROUNDS} turns of {STEPS} steps each, interleaved",
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "rows": rows,
    }


def main() -> None:
    """Measure, write the result, show it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("folder", type=Path, nargs="?")
    parser.add_argument("--train", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--out", type=Path, default=RESULT)
    options = parser.parse_args()
    if options.train:
        train(options.train)
        return
    if options.folder is None:
        parser.error("say where to make the image folders")
    found = measure(options.folder)
    options.out.write_text(json.dumps(found, indent=1) + "\n")
    print(json.dumps({name: value for name, value in found.items() if name != "rows"}, indent=1))


if __name__ == "__main__":
    main()
