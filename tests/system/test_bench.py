"""`interlude bench` from the command line: run, skip, stop, resume, table, plot, check."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest

from processes import below, listening

SUITE = """
title: tiny
rows: [supervised, interlude]
columns:
  digits@40: {config: digits, data.validation: 0, steps: STEPS, eval_every: 4, save_every: 4, log_every: 2}
seeds: [0]
plots: [errors, curves]
fused: true
scales: {mini: {}}
"""


@pytest.fixture
def suite(tmp_path):
    """Write the tiny suite with so many steps."""

    def write(steps):
        (tmp_path / "tiny.yaml").write_text(SUITE.replace("STEPS", str(steps)))

    return write


@pytest.fixture
def spawn_bench(tmp_path):
    """Start `interlude bench tiny.yaml` as a process of its own."""
    started = []

    def start(*args):
        command = [sys.executable, "-m", "interlude", "bench", "tiny.yaml", *args]
        started.append(
            listening(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        )
        return started[-1]

    yield start
    for process in started:
        process.kill()
        process.communicate()


def results(folder):
    path = folder / "results/tiny.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def wait_for_a_checkpoint(folder, process):
    for _ in range(15_000):
        if list(folder.glob("runs/bench/*/checkpoints/last.pt")):
            return
        assert process.poll() is None, process.communicate()
        time.sleep(0.02)
    raise AssertionError("the run does not move")


def test_bench_lists_its_suites(interlude):
    outcome = interlude("bench")
    assert outcome.code == 0
    assert "table1: Table 1" in outcome.out


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["tabel1"], "did you mean 'table1'"),
        (["table1", "--jobs", "0"], "jobs must be >= 1"),
        (["table1", "--limit", "0"], "limit must be >= 1"),
        (["table1", "--only", "interlud"], "did you mean 'interlude'"),
        (["plot", "table1"], "no results of table1"),
        (["table", "table1"], "no results of table1"),
        (["check", "abc"], "no result has an id"),
    ],
)
def test_a_mistake_is_answered_in_one_line(interlude, args, message):
    outcome = interlude("bench", *args)
    assert outcome.code == 2
    assert message in outcome.err
    assert len(outcome.err.splitlines()) == 1


def test_a_dry_run_runs_nothing(interlude, suite, tmp_path):
    suite(4)
    outcome = interlude("bench", "tiny.yaml", "--dry-run", "--no-pilot")
    assert outcome.code == 0
    assert "2 cells, 2 runs, 2 to do now" in outcome.out
    assert not (tmp_path / "runs").exists()


@pytest.mark.slow
def test_a_suite_runs_to_its_table_plots_and_check_and_a_second_start_skips(interlude, suite, tmp_path):
    suite(8)
    outcome = interlude("bench", "tiny.yaml", "--jobs", "2")
    assert outcome.code == 0, outcome.err
    first = results(tmp_path)
    assert {line["row"] for line in first} == {"supervised", "interlude"}
    assert all(line["cpu_seconds"] > 0 and line["peak_memory_mb"] > 0 for line in first)
    assert {line["row"]: bool(line["fused"]) for line in first} == {"supervised": False, "interlude": True}

    assert interlude("bench", "tiny.yaml").code == 0
    assert results(tmp_path) == first

    outcome = interlude("bench", "table", "tiny.yaml")
    assert outcome.code == 0
    assert "sorted by class" in outcome.out
    assert f"{first[0]['error_last']:.2f}" in outcome.out
    assert sorted(path.suffix for path in (tmp_path / "results/tables").iterdir()) == [".csv", ".md", ".tex"]
    assert interlude("bench", "plot", "tiny.yaml").code == 0
    assert len(list((tmp_path / "results/plots").glob("*.png"))) == 2


@pytest.mark.slow
def test_a_cell_is_checked_to_the_bit(interlude, suite, tmp_path):
    suite(8)
    assert interlude("bench", "tiny.yaml", "--only", "supervised").code == 0
    (line,) = results(tmp_path)
    outcome = interlude("bench", "check", line["id"][:8], "--suite", "tiny.yaml")
    assert outcome.code == 0, outcome.err
    assert "the same bits" in outcome.out
    assert "it reproduces" in outcome.out

    path = tmp_path / "results/tiny.jsonl"
    path.write_text(json.dumps({**line, "error_last": line["error_last"] + 5}) + "\n")
    outcome = interlude("bench", "check", line["id"], "--suite", "tiny.yaml")
    assert outcome.code == 1
    assert "5.00 points apart" in outcome.out


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_a_suite_that_was_stopped_or_killed_goes_on_to_the_same_bits(
    interlude, suite, spawn_bench, tmp_path, number
):
    suite(120)
    process = spawn_bench("--only", "interlude")
    wait_for_a_checkpoint(tmp_path, process)
    process.send_signal(number)
    _, words = process.communicate(timeout=120)
    if number == signal.SIGINT:
        assert process.returncode == 130
        assert "go on with: interlude bench tiny.yaml --only interlude" in words
    assert results(tmp_path) == []
    for _ in range(50):  # a worker whose parent was killed saves and ends by itself
        outcome = interlude("bench", "tiny.yaml", "--only", "interlude")
        if outcome.code == 0:
            break
        assert "left to another process" in outcome.err, outcome.err
        time.sleep(0.2)
    (resumed,) = results(tmp_path)
    assert resumed["cpu_seconds"] is None, "of a run in two sittings the CPU time is not known"

    whole = interlude("bench", "tiny.yaml", "--only", "interlude", "--results", "r2", "--runs", "runs2")
    assert whole.code == 0, whole.err
    straight = json.loads((tmp_path / "r2/tiny.jsonl").read_text())
    assert resumed["model_hash"] == straight["model_hash"]
    assert resumed["error_last"] == straight["error_last"]


@pytest.mark.slow
def test_no_cell_is_started_when_the_time_is_over(interlude, suite, tmp_path):
    suite(4)
    outcome = interlude("bench", "tiny.yaml", "--hours", "0")
    assert outcome.code == 0
    assert "0 cells finished now, 2 left" in outcome.err
    assert interlude("bench", "tiny.yaml", "--limit", "1").code == 0
    assert len(results(tmp_path)) == 1


@pytest.mark.slow
def test_on_a_cluster_the_cell_of_a_killed_worker_goes_on_to_the_same_bits(
    interlude, suite, spawn_bench, tmp_path
):
    suite(120)
    process = spawn_bench("--only", "interlude", "--ray", "local")
    wait_for_a_checkpoint(tmp_path, process)
    (worker,) = below(process.pid, "ray::run_cell")
    os.kill(worker, signal.SIGKILL)
    _, words = process.communicate(timeout=300)
    assert process.returncode == 0, words
    (line,) = results(tmp_path)
    assert line["cpu_seconds"] is None, "the cell was not lost in the middle"
    assert line["machine"]

    assert (
        interlude("bench", "tiny.yaml", "--only", "interlude", "--results", "r2", "--runs", "runs2").code == 0
    )
    assert line["model_hash"] == json.loads((tmp_path / "r2/tiny.jsonl").read_text())["model_hash"]


@pytest.mark.slow
def test_on_a_cluster_too_a_stopped_suite_saves_and_goes_on_anywhere(interlude, suite, spawn_bench, tmp_path):
    suite(120)
    process = spawn_bench("--only", "interlude", "--ray", "local")
    wait_for_a_checkpoint(tmp_path, process)
    process.send_signal(signal.SIGINT)
    _, words = process.communicate(timeout=300)
    assert process.returncode == 130, words
    assert "stopped and saved" in words
    assert "go on with: interlude bench tiny.yaml --only interlude --ray local" in words
    assert interlude("bench", "tiny.yaml", "--only", "interlude").code == 0
    (line,) = results(tmp_path)
    assert line["cpu_seconds"] is None, "the run began anew"
