"""Many real processes end where one does, speak with one voice, and end together."""

import json
import os
import signal
import socket
import subprocess
import sys
from typing import NamedTuple

import pytest

import many
from interlude import checkpoint
from interlude.method import find_method
from runs import QUICK, saved_step, wait_for_step

pytestmark = pytest.mark.slow

EQUAL = 1e-11  # in double precision
LESS_EQUAL = {"vat": 1e-7}  # its direction is a difference of nearly equal numbers, which magnifies rounding
SECONDS = 240  # after which a process that should have ended hangs
FROZEN = [
    "--model",
    "cnn",
    "--model.frozen",
    "--data.pool",
    "60",
    "--features.weak",
    "2",
    "--features.strong",
    "2",
]
STEPS = 5000  # more than are ever taken

RAISES = """
from interlude import distributed, register
from interlude.methods.fixmatch import FixMatch

@register
class Raises(FixMatch):
    \"\"\"Goes wrong in the second process.\"\"\"

    def step(self, batch, clock):
        if clock.step == 2 and distributed.rank() == 1:
            raise ArithmeticError("what went wrong")
        yield from super().step(batch, clock)
"""


@pytest.fixture(scope="module")
def alone():
    return many.results(many.CASES)


@pytest.fixture(scope="module", params=[2, 3])
def shared(request, tmp_path_factory):
    """What so many processes found, each."""
    return many.together(request.param, tmp_path_factory.mktemp("many"), many.results, many.CASES)


@pytest.mark.parametrize("case", many.CASES, ids=lambda case: case.name)
def test_many_processes_end_where_one_does(case, alone, shared):
    first, *others = (found[case.name] for found in shared)
    assert not find_method(case.method).alone
    for part in ("method", "ema", "optimizer"):
        apart = many.difference(alone[case.name][part], first[part])
        assert apart < LESS_EQUAL.get(case.method, EQUAL), (
            f"the {part} of {case.name} is {apart:.1e} from that of one process"
        )
    assert many.difference(alone[case.name]["logged"], first["logged"]) < 1e-6, "logged in single precision"
    assert all(many.difference(first, other) == 0 for other in others), "the processes do not agree"


def test_a_run_goes_on_in_another_number_of_processes(tmp_path):
    (whole,) = many.legs([None], tmp_path / "whole")
    two, one, three = many.legs([2, None, 3], tmp_path / "legs")
    assert (two["step"], one["step"], three["step"]) == (2, 4, 6)
    for part in ("method", "ema", "optimizer"):
        assert many.difference(whole[part], three[part]) < EQUAL


class Ended(NamedTuple):
    """How a process ended, and what it said."""

    code: int
    out: str
    err: str


@pytest.fixture
def launch(tmp_path):
    """Start `interlude train` in so many processes, as srun would."""
    (tmp_path / "quick.yaml").write_text(QUICK)
    started = []

    def start(count, *args):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        common = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "GLOO_SOCKET_IFNAME": "lo"}
        for rank in range(count):
            own = {"SLURM_PROCID": str(rank), "SLURM_LOCALID": str(rank), "SLURM_STEP_NUM_TASKS": str(count)}
            process = subprocess.Popen(
                [sys.executable, "-m", "interlude", "train", "--config", "quick.yaml", *map(str, args)],
                cwd=tmp_path,
                env={**os.environ, **common, **own, "OMP_NUM_THREADS": "1"},
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
            started.append(process)
        return started[-count:]

    yield start
    for process in started:
        process.kill()
        process.communicate()


def ends(processes):
    """How each of them ended."""
    said = [process.communicate(timeout=SECONDS) for process in processes]
    return [Ended(process.returncode, *words) for process, words in zip(processes, said, strict=True)]


def files_in(folder):
    return {path.relative_to(folder) for path in folder.rglob("*")}


def torchrun(count, tmp_path, *args):
    command = ["torch.distributed.run", "--standalone", "--nproc-per-node", str(count), "-m", "interlude"]
    return subprocess.run(
        [sys.executable, "-m", *command, "train", "--config", "quick.yaml", *args],
        cwd=tmp_path,
        env={**os.environ, "GLOO_SOCKET_IFNAME": "lo"},
        capture_output=True,
        text=True,
        timeout=SECONDS,
    )


def test_torchrun_trains_one_run_and_only_the_first_process_writes_and_prints(train, tmp_path):
    args = ["--method", "interlude", "--steps", "4", "--log-every", "1", "--batch", "5", *FROZEN]
    assert train(*args, "--out", "one", "--features.cache", "vectors").code == 0
    done = torchrun(2, tmp_path, *args, "--out", "two", "--features.cache", "others")
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("test: error") == 1
    one, two = tmp_path / "one", tmp_path / "two"
    assert files_in(one) == files_in(two)
    lines = [(run / "metrics.jsonl").read_text().splitlines() for run in (one, two)]
    losses = [[json.loads(line)["train/loss"] for line in of_run] for of_run in lines]
    assert losses[1] == pytest.approx(losses[0], rel=1e-5)
    first, second = (checkpoint.read(run / "checkpoints/last.pt") for run in (one, two))
    assert many.difference(first["ema"], second["ema"]) < 1e-5
    figures = [json.loads((run / "summary.json").read_text())["test"]["accuracy"] for run in (one, two)]
    assert figures[1] == pytest.approx(figures[0], abs=0.5), "one image of 360 may be judged otherwise"


def test_an_error_in_one_process_ends_all_with_its_message(launch, tmp_path):
    (tmp_path / "raises.py").write_text(RAISES)
    first, second = ends(launch(2, "--method", "raises.py", "--steps", 4, "--out", "run"))
    assert "ArithmeticError: what went wrong" in second.err
    assert first.code != 0
    assert second.code != 0
    assert "Traceback" not in first.err, "the first process only hears of it"


def test_an_error_of_all_processes_is_told_once(launch):
    told = ends(launch(3, "--out", "run", "--batch", "2"))
    assert all(end.code != 0 for end in told)
    assert "".join(end.err for end in told).count("cannot be shared out among 3 processes") == 1


def test_a_signal_to_one_process_stops_all_after_the_same_step(launch, tmp_path):
    args = ["--steps", STEPS, "--save-every", 2, "--out", "run"]
    processes = launch(2, *args)
    wait_for_step(tmp_path / "run", 2, processes[0])
    processes[1].send_signal(signal.SIGTERM)
    first, second = ends(processes)
    assert (first.code, second.code) == (143, 143)
    assert "stopped and saved at step" in first.err
    assert "stopped" not in second.err
    assert 2 <= saved_step(tmp_path / "run") < STEPS


def test_a_process_that_is_killed_ends_the_others(launch, tmp_path):
    processes = launch(2, "--steps", STEPS, "--save-every", 2, "--out", "run")
    wait_for_step(tmp_path / "run", 2, processes[0])
    processes[1].kill()
    first, _ = ends(processes)
    assert first.code == 1
    assert "another process of this run is gone" in first.err
    assert "Traceback" not in first.err
