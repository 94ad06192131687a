"""Cells on a cluster: how many fit, and what is said when something is not there."""

from types import SimpleNamespace

import pytest

from interlude.bench.cluster import OnRay, connect, run_cell
from interlude.errors import UserError


def on_a_cluster(have, *, jobs=None, threads=1, gpus=0.0):
    """An executor on a cluster with these resources."""
    executor = object.__new__(OnRay)
    executor.ray = SimpleNamespace(cluster_resources=lambda: have)
    executor.jobs, executor.threads, executor.gpus = jobs, threads, gpus
    return executor


@pytest.mark.parametrize(
    ("have", "wishes", "cells"),
    [
        ({"CPU": 8.0}, {}, 8),
        ({"CPU": 8.0}, {"threads": 3}, 2),
        ({"CPU": 8.0, "GPU": 2.0}, {"gpus": 1.0}, 2),
        ({"CPU": 8.0, "GPU": 2.0}, {"gpus": 0.25}, 8),
        ({"CPU": 8.0}, {"jobs": 3}, 3),
        ({"CPU": 2.0}, {"threads": 4}, 1),  # none fits now; Ray holds it back until a machine comes
    ],
)
def test_as_many_cells_run_as_have_room(have, wishes, cells):
    assert on_a_cluster(have, **wishes).room() == cells


def test_a_missing_cluster_is_answered_in_one_line(monkeypatch):
    import ray

    def refuse(*args, **options):
        raise ConnectionError("nobody there\nat all")

    monkeypatch.setattr(ray, "init", refuse)
    with pytest.raises(UserError, match=r"at '10\.0\.0\.1:6379' \(nobody there at all\); start one with"):
        connect("10.0.0.1:6379")
    with pytest.raises(UserError, match="Ray does not start on this machine: nobody there"):
        connect("local")


def test_without_ray_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "ray", None)
    with pytest.raises(UserError, match=r"pip install 'interlude-ssl\[cluster\]'"):
        connect("local")


def test_a_machine_that_does_not_see_the_folder_says_so(tmp_path):
    code, message, _ = run_cell(None, tmp_path / "elsewhere", None)
    assert code == 1
    assert "start in a shared folder" in message


def test_a_result_that_is_not_to_be_seen_is_no_result(tmp_path):
    executor = on_a_cluster({})
    executor.ray.get = lambda reference: (0, "", {})
    executor.ray.exceptions = SimpleNamespace(RayError=RuntimeError)
    outcome = executor.outcome("reference", SimpleNamespace(folder=tmp_path / "run"))
    assert outcome.code == 1
    assert "is not shared" in outcome.message
