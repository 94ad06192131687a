"""Results on disk: lines are appended whole, and accidents cost at most the line they hit."""

import json
import os
from concurrent.futures import ThreadPoolExecutor

import pytest

from interlude.bench.store import Store


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path / "results")


def test_lines_come_back_in_order_by_suite_and_scale(store):
    store.append("a", {"id": "1", "scale": "mini"})
    store.append("a", {"id": "2", "scale": "paper"})
    store.append("b", {"id": "3", "scale": "mini"})
    assert [line["id"] for line in store.lines("a")] == ["1", "2"]
    assert [line["id"] for line in store.lines("a", "mini")] == ["1"]
    assert [line["id"] for line in store.everything()] == ["1", "2", "3"]
    assert store.lines("c") == []


@pytest.mark.parametrize("torn", ['{"id": "2", "err', '{"id": "2"', "\x00\x00\x00", '["id"]', "5"])
def test_a_torn_last_line_is_ignored_and_does_not_spoil_the_next(store, torn):
    store.append("a", {"id": "1"})
    with store.path("a").open("a") as file:
        file.write(torn)
    assert [line["id"] for line in store.lines("a")] == ["1"]
    store.append("a", {"id": "3"})
    assert [line["id"] for line in store.lines("a")] == ["1", "3"]


def test_lines_of_other_tools_are_not_ours(store):
    store.append("a", {"id": "1"})
    with store.path("a").open("a") as file:
        file.write(json.dumps({"cell": "interlude"}) + "\n")
    assert len(store.lines("a")) == 1


def test_a_line_is_one_write(store, monkeypatch):
    written = []
    write = os.write
    monkeypatch.setattr(os, "write", lambda handle, data: written.append(data) or write(handle, data))
    store.append("a", {"id": "1", "curve": list(range(5000))})
    assert len(written) == 1
    assert written[0].endswith(b"\n")


def test_lines_appended_side_by_side_stay_whole(store):
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda n: store.append("a", {"id": str(n), "x": "y" * 3000}), range(64)))
    assert sorted(int(line["id"]) for line in store.lines("a")) == list(range(64))
