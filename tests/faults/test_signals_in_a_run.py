"""What a run does when it is asked to stop or to save: nothing finished is lost, and it says how to go on."""

import json
import signal

import pytest
from commands import QUICK, ended

from runs import final_bits, saved_step, wait_for, wait_for_step

pytestmark = pytest.mark.slow

LONG = ["train", *QUICK, "--steps", "100000", "--out", "run"]

# a disk that stands still at the second checkpoint
HANGING = """
import os, time
from pathlib import Path

writes = []

def hang_in_the_second_write(descriptor):
    writes.append(descriptor)
    if len(writes) == 2:
        Path("hangs").touch()
        time.sleep(600)

os.fsync = hang_in_the_second_write
"""

TELLING = """
from interlude.signals import StopRequest

note = StopRequest._note_stop

def note_and_tell(self, number, frame):
    note(self, number, frame)
    Path("noted").touch()

StopRequest._note_stop = note_and_tell
"""


def journal_step(folder):
    """The last step in the journal."""
    lines = (folder / "metrics.jsonl").read_text().split("\n") if (folder / "metrics.jsonl").exists() else []
    return json.loads(lines[-2])["step"] if len(lines) > 1 else 0


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_it_finishes_the_step_saves_and_says_how_to_go_on(here, number, code):
    run = here.folder / "run"
    process = here.start(*LONG)
    wait_for(lambda: journal_step(run) > 1, process)
    process.send_signal(number)
    outcome = ended(process)
    assert outcome.code == code
    assert outcome.message == (
        f"stopped and saved at step {saved_step(run)}; go on with: interlude train --out run --resume"
    )
    assert saved_step(run) == journal_step(run)


def test_sigusr1_saves_and_goes_on_as_often_as_it_comes(here):
    process = here.start(*LONG, "--save-every", "100000")
    folder, steps = here.folder / "run", []
    wait_for(lambda: journal_step(folder) > 0, process)
    for _ in range(2):
        before = journal_step(folder)
        process.send_signal(signal.SIGUSR1)
        wait_for_step(folder, before, process)
        steps.append(saved_step(folder))
        wait_for(lambda: journal_step(folder) > steps[-1], process)
    process.send_signal(signal.SIGTERM)
    outcome = ended(process)
    assert outcome.code == 143
    for step in steps:
        assert f"saved at step {step}, as SIGUSR1 asked; going on" in outcome.err
    assert steps[0] < steps[1] < saved_step(folder)


def test_a_run_that_was_saved_by_sigusr1_ends_with_the_same_bits(here, whole):
    script = "import os, signal\nfrom interlude.parts.ema import Ema\nupdate = Ema.update\n"
    script += (
        "Ema.update = lambda self, model: (os.kill(os.getpid(), signal.SIGUSR1), update(self, model))[1]"
    )
    outcome = here.train("--out", "run", script=script)
    assert outcome.code == 0, outcome.err
    assert outcome.err.count("as SIGUSR1 asked") == 24
    assert final_bits(here.folder / "run") == final_bits(whole)


def test_a_second_ctrl_c_waits_for_nothing_and_names_the_step_that_is_safe(here, whole):
    process = here.start("train", *QUICK, "--out", "run", script=HANGING + TELLING)
    wait_for((here.folder / "hangs").exists, process)
    process.send_signal(signal.SIGINT)
    wait_for((here.folder / "noted").exists, process)
    process.send_signal(signal.SIGINT)
    outcome = ended(process)
    assert outcome.code == 130
    assert outcome.message == (
        "stopped at once; step 4 is safe, go on with: interlude train --out run --resume"
    )
    assert here.train("--out", "run", "--resume").code == 0
    assert final_bits(here.folder / "run") == final_bits(whole)


def test_a_run_killed_while_it_writes_goes_on_from_the_checkpoint_before(here, whole):
    process = here.start("train", *QUICK, "--out", "run", script=HANGING)
    wait_for((here.folder / "hangs").exists, process)
    wait_for(lambda: journal_step(here.folder / "run") >= 11, process)
    process.kill()
    process.wait()
    assert saved_step(here.folder / "run") == 4
    assert here.train("--out", "run", "--resume").code == 0
    assert final_bits(here.folder / "run") == final_bits(whole)
