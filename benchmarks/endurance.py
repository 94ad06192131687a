"""Is anything lost when a run is killed? One run, killed at many random moments, beside a whole one.

    python benchmarks/endurance.py               # 50 kills, about ten minutes; writes results/endurance.json
    python benchmarks/endurance.py --kills 10 --out FILE

The moments are of four kinds: while the process starts, in the middle of a step, while a checkpoint is being
written, and after the last step, while the model is made. After every SIGKILL the run must be at the step
that was safe before it or further, with no damaged file; in the end its weights must be, to the bit, those of
the run that nobody killed, and its journal must have each step once.
"""

import argparse
import json
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from interlude import checkpoint

RESULT = Path(__file__).resolve().parent / "results" / "endurance.json"
SETTINGS = ["--data", "digits", "--labels", "20", "--batch", "4", "--mu", "2", "--augment", "digits"]
SETTINGS += ["--threads", "1", "--log-every", "1"]
SAVE_EVERY = 3
LONGEST = 12  # steps that a killed sitting makes at most, or little more
PATIENCE = 600  # seconds
LATEST = {"start": 3, "step": 0.1, "write": 0.01, "end": 0.3}  # seconds after which the kill comes
SHARES = {"start": 1, "step": 2, "write": 2, "end": 1}  # how the kinds of moments share the kills


class Kill(NamedTuple):
    """One kill: its kind, the step that was safe before, and what was found after."""

    moment: str
    before: int
    after: int
    in_write: bool
    damaged: bool


class Endurance:
    """A run that is killed again and again, in `folder`, with the same moments for the same seed."""

    def __init__(self, folder: Path, kills: int, seed: int = 0) -> None:
        self.folder, self.random = folder, random.Random(seed)
        self.steps = kills * LONGEST
        parts = sum(SHARES.values())
        counts = {kind: round(kills * share / parts) for kind, share in SHARES.items()}
        counts["step"] += kills - sum(counts.values())
        early = [kind for kind, count in counts.items() for _ in range(count) if kind != "end"]
        self.random.shuffle(early)
        self.moments = [*early, *["end"] * counts["end"]]

    def endure(self, tell: Callable[[str], None] = lambda line: None) -> dict[str, Any]:
        """Kill it at all moments and let it end; what was found."""
        began = time.monotonic()
        self.finish("whole")
        kills = []
        for number, moment in enumerate(self.moments, 1):
            kills.append(self.kill(moment))
            tell(f"{number}/{len(self.moments)} {kills[-1]}")
        self.finish("killed")
        return self.outcome(kills) | {"seconds": round(time.monotonic() - began)}

    def outcome(self, kills: list[Kill]) -> dict[str, Any]:
        """The figures of all kills and of the two finished runs."""
        lost = [kill for kill in kills if kill.damaged or kill.after < kill.before]
        journal = (self.folder / "killed/metrics.jsonl").read_text().splitlines()
        return {
            "kills": len(kills),
            "moments": dict(Counter(kill.moment for kill in kills)),
            "hit_a_checkpoint_write": sum(kill.in_write for kill in kills),
            "survived": len(kills) - len(lost),
            "lost": len(lost),
            "steps": self.steps,
            "same_bits": self.bits("killed") == self.bits("whole"),
            "journal_has_each_step_once": [json.loads(line)["step"] for line in journal]
            == list(range(1, self.steps + 1)),
        }

    def kill(self, moment: str) -> Kill:
        """Start or go on with the run, and kill it at a moment of this kind."""
        before = self.saved()
        with self.process("killed") as process:
            try:
                self.approach(moment, before, process)
                before = self.saved()
                self.wait(moment, process)
            finally:
                process.send_signal(signal.SIGKILL)
        in_write = (self.folder / "killed/checkpoints/fresh.tmp").exists()
        try:
            state, passed_over = checkpoint.load(self.folder / "killed/checkpoints")
        except checkpoint.Damaged:
            return Kill(moment, before, 0, in_write, damaged=True)
        return Kill(moment, before, state["step"] if state else 0, in_write, damaged=bool(passed_over))

    def approach(self, moment: str, begin: int, process: "subprocess.Popen[bytes]") -> None:
        """Until the step after which a kill is to come."""
        if moment != "start":
            step = self.steps if moment == "end" else begin + self.random.randint(1, LONGEST)
            self.until(lambda: self.step() >= step, process)

    def wait(self, moment: str, process: "subprocess.Popen[bytes]") -> None:
        """Until the moment itself."""
        if moment == "write":
            self.until((self.folder / "killed/checkpoints/fresh.tmp").exists, process)
        time.sleep(self.random.uniform(0, LATEST[moment]))

    def until(self, condition: Callable[[], bool], process: "subprocess.Popen[bytes]") -> None:
        """Look a thousand times a second until something is so, or the run has ended."""
        deadline = time.monotonic() + PATIENCE
        while not condition() and process.poll() in (None, 0):
            if process.poll() == 0:
                return
            assert time.monotonic() < deadline, "the run does not move"
            time.sleep(0.001)
        assert process.poll() in (None, 0), (self.folder / "log").read_text()

    def step(self) -> int:
        """The last step in the journal of the run."""
        path = self.folder / "killed/metrics.jsonl"
        lines = path.read_bytes().split(b"\n") if path.exists() else []
        return int(json.loads(lines[-2])["step"]) if len(lines) > 1 else 0

    def saved(self) -> int:
        """The step that a new start would go on from."""
        state, _ = checkpoint.load(self.folder / "killed/checkpoints")
        return state["step"] if state else 0

    def process(self, name: str) -> "subprocess.Popen[bytes]":
        """The run `name`, begun or gone on with."""
        begun = (self.folder / name / "config.yaml").exists()
        options = ["--steps", str(self.steps), "--save-every", str(SAVE_EVERY), "--out", name]
        command = [sys.executable, "-m", "interlude", "train", *SETTINGS, *options]
        with (self.folder / "log").open("ab") as log:
            return subprocess.Popen(
                [*command, *(["--resume"] if begun else [])], cwd=self.folder, stdout=log, stderr=log
            )

    def finish(self, name: str) -> None:
        """Let the run `name` come to its end."""
        with self.process(name) as process:
            assert process.wait() == 0, (self.folder / "log").read_text()

    def bits(self, name: str) -> list[Any]:
        """Hashes of all that a run ends with."""
        state = checkpoint.read(self.folder / name / "checkpoints/last.pt")
        parts = [checkpoint.digest(state[part]) for part in ("step", "method", "ema", "optimizer")]
        return [*parts, (self.folder / name / "model.safetensors").read_bytes()]


def main() -> None:
    """Run it and write what was found."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=RESULT)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        found = Endurance(Path(folder), options.kills, options.seed).endure(
            lambda line: print(line, flush=True)
        )
    found |= {"seed": options.seed, "date": datetime.now(UTC).isoformat(timespec="seconds")}
    options.out.write_text(json.dumps(found, indent=1) + "\n")
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
