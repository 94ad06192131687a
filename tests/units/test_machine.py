"""Threads follow from what is allowed, granted and not in use; all readings are given here."""

import math
import os

import pytest

from interlude import machine
from interlude.machine import Cores, Reading, left_of, look, quota, threads, used_by_others

STAT = """cpu  999 999 999 999 999 999 999 999 0 0
cpu0 100 10 20 5000 7 1 2 3 50 0
cpu1 200 0 0 4000 0 0 0 0 0 0
cpu10 400 0 0 4000 0 0 0 0 0 0
intr 12345 0 1
procs_running 3
"""


def groups(root, membership, files):
    """A file system with a control group membership and limits."""
    limits = {f"sys/fs/cgroup/{name}": text for name, text in files.items()}
    for name, text in {"proc/self/cgroup": membership, **limits}.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


def test_an_idle_machine_is_taken_whole_and_nothing_is_said():
    assert left_of(8, limit=math.inf, others=0.0) == Cores(8)


def test_a_little_work_of_others_costs_no_core():
    assert left_of(2, limit=math.inf, others=0.4) == Cores(2)


@pytest.mark.parametrize(("others", "count"), [(0.6, 7), (2.4, 6), (7.2, 1), (11.0, 1)])
def test_cores_in_use_by_others_are_left_to_them_but_for_one(others, count):
    cores = left_of(8, limit=math.inf, others=others)
    assert cores == Cores(count, f"other processes use {others} of 8 cores")


@pytest.mark.parametrize(("limit", "count"), [(0.2, 1), (1.5, 2), (3.0, 3)])
def test_a_quota_limits_the_cores(limit, count):
    assert left_of(8, limit=limit, others=0.0) == Cores(
        count, f"this process has a quota of {limit:g} of 8 cores"
    )


def test_what_leaves_less_decides_and_is_named():
    assert left_of(8, limit=4.0, others=2.0).number == 4
    assert "quota" in left_of(8, limit=4.0, others=2.0).why
    assert left_of(8, limit=4.0, others=6.0).number == 2
    assert "other processes" in left_of(8, limit=4.0, others=6.0).why


def test_the_quota_of_version_2_is_the_smallest_on_the_way_up(tmp_path):
    files = {"a/b/cpu.max": "max 100000\n", "a/cpu.max": "250000 100000\n"}
    assert quota(groups(tmp_path, "0::/a/b\n", files)) == 2.5


def test_the_quota_of_a_container_stands_at_the_top(tmp_path):
    assert quota(groups(tmp_path, "0::/\n", {"cpu.max": "50000 100000\n"})) == 0.5


def test_the_quota_of_version_1_is_read_of_the_cpu_controller_alone(tmp_path):
    files = {
        "cpu/job/cpu.cfs_quota_us": "300000\n",
        "cpu/job/cpu.cfs_period_us": "100000\n",
        "memory/m/cpu.cfs_quota_us": "100000\n",
        "memory/m/cpu.cfs_period_us": "100000\n",
    }
    assert quota(groups(tmp_path, "5:memory:/m\n4:cpu,cpuacct:/job\n0::/\n", files)) == 3.0


def test_no_limit_is_infinite(tmp_path):
    files = {
        "cpu.max": "max 100000\n",
        "cpu/cpu.cfs_quota_us": "-1\n",
        "cpu/cpu.cfs_period_us": "100000\n",
    }
    assert quota(groups(tmp_path, "1:cpu:/\n0::/\n", files)) == math.inf
    assert quota(tmp_path / "nothing here") == math.inf


def test_a_reading_counts_all_but_idle_and_waiting_time_on_the_cores_allowed(tmp_path):
    (tmp_path / "stat").write_text(STAT)
    ticks = os.sysconf("SC_CLK_TCK")
    assert look(tmp_path / "stat", {0}).everyone == pytest.approx(136 / ticks)
    assert look(tmp_path / "stat", {0, 10}).everyone == pytest.approx(536 / ticks)


def test_where_nothing_can_be_read_others_are_taken_to_use_nothing(tmp_path):
    assert look(tmp_path / "missing", {0}) is None
    assert used_by_others(None, None) == 0.0


def test_others_use_what_this_process_does_not():
    before, now = Reading(10.0, everyone=100.0, own=1.0), Reading(12.0, everyone=105.0, own=2.0)
    assert used_by_others(before, now) == 2.0


def test_a_moment_too_short_to_count_says_nothing():
    assert used_by_others(Reading(10.0, 100.0, 1.0), Reading(10.01, 100.03, 1.0)) == 0.0


def test_what_the_environment_says_is_respected(monkeypatch):
    monkeypatch.setattr(machine, "allowed", lambda: {0, 1, 2, 3})
    assert threads({"OMP_NUM_THREADS": "3"}) == Cores(3, "OMP_NUM_THREADS is 3")
    assert threads({"OMP_NUM_THREADS": "4,2"}) == Cores(4)


@pytest.mark.parametrize("nonsense", ["", "0", "many", "-1"])
def test_an_environment_that_says_nothing_leaves_the_choice_to_the_machine(monkeypatch, nonsense):
    monkeypatch.setattr(machine, "free", lambda: Cores(5))
    assert threads({"OMP_NUM_THREADS": nonsense}) == Cores(5)
