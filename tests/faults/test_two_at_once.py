"""Two processes in one run folder: the second is refused and told who is there, until the first is dead."""

import re

import pytest
from commands import QUICK, ended

from image_files import class_folders
from runs import final_bits, wait_for, wait_for_step

pytestmark = pytest.mark.slow

LONG = ["train", *QUICK, "--steps", "100000", "--out", "run"]


def test_a_second_process_is_refused_until_the_first_is_dead(here):
    first = here.start(*LONG)
    wait_for_step(here.folder / "run", 4, first)
    for words in (["train", "--out", "run", "--resume"], LONG):
        second = here.run(*words)
        assert second.code == 2
    second = here.run("train", "--out", "run", "--resume")
    assert re.search(
        rf"run is in use by process {first.pid} on \S+: wait until it ends, or stop it", second.message
    )
    assert first.poll() is None
    first.kill()
    first.wait()
    third = here.start("train", "--out", "run", "--resume")
    before = (here.folder / "run/metrics.jsonl").read_text()
    wait_for(lambda: (here.folder / "run/metrics.jsonl").read_text() != before, third)
    assert str(third.pid) in (here.folder / "run/.lock").read_text()


def test_of_two_that_begin_together_one_trains(here, whole):
    processes = [here.start("train", *QUICK, "--out", "run") for _ in range(2)]
    outcomes = [ended(process) for process in processes]
    assert sorted(outcome.code for outcome in outcomes) == [0, 2]
    refused = max(outcomes, key=lambda outcome: outcome.code)
    assert re.search("is in use by process|exists already; go on with that run by --resume", refused.message)
    assert final_bits(here.folder / "run") == final_bits(whole)


def test_a_fit_has_its_folder_alone_too(here):
    class_folders(here.folder / "photos", per_class=5, unlabeled=12)
    words = ["fit", "photos", "--out", "run", "--lane", "scratch", "--threads", "1", "--force", "--quiet"]
    first = here.start(*words)
    wait_for(lambda: (here.folder / "run/plan.json").exists(), first)
    second = here.run(*words)
    assert second.code == 2
    assert f"run is in use by process {first.pid}" in second.message
    assert first.poll() is None
