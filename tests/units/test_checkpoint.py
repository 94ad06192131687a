"""A checkpoint is whole or is known not to be."""

import math
import random
import resource
import threading

import pytest
import torch

from interlude import checkpoint
from interlude.errors import NotFinite

STATE = {
    "step": 3,
    "method": {"w": torch.arange(2000.0)},
    "optimizer": {"state": {0: torch.ones(3)}, "lr": [0.1, None]},
}


def test_what_is_saved_comes_back(tmp_path):
    checkpoint.save(tmp_path, STATE)
    state, warnings = checkpoint.load(tmp_path)
    assert checkpoint.digest(state) == checkpoint.digest(STATE)
    assert not warnings


def test_an_empty_folder_holds_no_state(tmp_path):
    assert checkpoint.load(tmp_path) == (None, [])


def test_the_state_before_is_kept_beside_the_last(tmp_path):
    checkpoint.save(tmp_path, {"step": 1})
    checkpoint.save(tmp_path, {"step": 2})
    assert checkpoint.read(tmp_path / "last.pt")["step"] == 2
    assert checkpoint.read(tmp_path / "previous.pt")["step"] == 1
    assert {path.name for path in tmp_path.iterdir()} == {"last.pt", "previous.pt"}


@pytest.mark.parametrize("seed", range(30))
def test_a_flipped_bit_never_gives_a_wrong_state(tmp_path, seed):
    checkpoint.save(tmp_path, STATE)
    path = tmp_path / "last.pt"
    content = bytearray(path.read_bytes())
    content[random.Random(seed).randrange(len(content))] ^= 1 << seed % 8
    path.write_bytes(content)
    try:
        state = checkpoint.read(path)
    except checkpoint.Damaged:
        return
    assert checkpoint.digest(state) == checkpoint.digest(STATE), (
        "the flip fell in padding, so the state must be right"
    )


@pytest.mark.parametrize("share", [0, 0.1, 0.5, 0.9, 0.999])
def test_a_truncated_file_is_damaged(tmp_path, share):
    checkpoint.save(tmp_path, STATE)
    path = tmp_path / "last.pt"
    path.write_bytes(path.read_bytes()[: int(share * path.stat().st_size)])
    with pytest.raises(checkpoint.Damaged, match=r"last\.pt is damaged"):
        checkpoint.read(path)


def test_a_pickle_with_code_in_it_is_damaged_not_run(tmp_path):
    class Evil:
        def __reduce__(self):
            return (print, ("code was run",))

    torch.save({"checksum": Evil()}, tmp_path / "last.pt")
    with pytest.raises(checkpoint.Damaged):
        checkpoint.read(tmp_path / "last.pt")


def test_a_write_that_fails_leaves_the_last_state_and_no_litter(tmp_path, monkeypatch):
    checkpoint.save(tmp_path, {"step": 1})
    monkeypatch.setattr(
        checkpoint.os, "fsync", lambda fd: (_ for _ in ()).throw(OSError(28, "No space left on device"))
    )
    with pytest.raises(OSError, match="No space left"):
        checkpoint.save(tmp_path, {"step": 2})
    assert [path.name for path in tmp_path.iterdir()] == ["last.pt"]
    assert checkpoint.read(tmp_path / "last.pt")["step"] == 1


@pytest.mark.parametrize("share", [0, 0.01, 0.3, 0.7, 0.95, 0.99, 0.999])
def test_a_disk_that_is_full_at_any_byte_is_an_error_of_writing(tmp_path, share):
    checkpoint.save(tmp_path, {"step": 1})
    checkpoint.save(tmp_path / "other", STATE)
    size = (tmp_path / "other/last.pt").stat().st_size
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (int(share * size), before[1]))
    try:
        with pytest.raises(OSError, match="File too large"):
            checkpoint.save(tmp_path, STATE)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert checkpoint.load(tmp_path) == ({"step": 1}, [])
    assert not (tmp_path / "fresh.tmp").exists()


def test_where_a_file_can_have_but_one_name_two_states_are_kept_all_the_same(tmp_path, monkeypatch):
    def refuse(*args):
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(checkpoint.os, "link", refuse)
    for step in range(3):
        checkpoint.save(tmp_path, {"step": step})
    assert checkpoint.read(tmp_path / "last.pt")["step"] == 2
    assert checkpoint.read(tmp_path / "previous.pt")["step"] == 1


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_a_weight_that_is_no_number_is_named(value):
    weights = {"a": torch.ones(3), "none": torch.ones(0), "count": torch.tensor(3), "b": torch.ones(2, 2)}
    checkpoint.check_finite(weights, 7)
    weights["b"][1, 0] = value
    with pytest.raises(NotFinite, match=r"the weight 'b' became .* by step 7"):
        checkpoint.check_finite(weights, 7)


def test_a_second_ctrl_c_does_not_wait_for_a_write_that_hangs(tmp_path, monkeypatch):
    disk, writer = SlowDisk(monkeypatch), checkpoint.Writer(tmp_path, saved=0)

    def interrupted():
        with writer:
            writer.save({"step": 2})
            assert disk.begun.wait(timeout=10)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert writer.saved == 0
    disk.go_on.set()


def test_the_digest_sees_values_names_types_and_shapes():
    base = {"a": torch.zeros(2, 2)}
    others = [
        {"a": torch.zeros(4)},
        {"b": torch.zeros(2, 2)},
        {"a": torch.zeros(2, 2).double()},
        {"a": -torch.zeros(2, 2)},
        {"a": [0.0]},
    ]
    hashes = {checkpoint.digest(value) for value in [base, *others]}
    assert len(hashes) == 1 + len(others)


def full_disk(descriptor):
    raise OSError(28, "No space left on device")


class SlowDisk:
    """An `fsync` that waits until it is let go."""

    def __init__(self, monkeypatch):
        self.begun, self.go_on = threading.Event(), threading.Event()
        monkeypatch.setattr(checkpoint.os, "fsync", self)

    def __call__(self, descriptor):
        self.begun.set()
        assert self.go_on.wait(timeout=10)


def test_a_copy_does_not_follow_the_state_it_was_taken_of():
    state = {"step": 1, "method": {"w": torch.zeros(3)}, "groups": [{"lr": 0.1, "params": [0]}]}
    copy = checkpoint.snapshot(state)
    before = checkpoint.digest(copy)
    assert before == checkpoint.digest(state)
    state["method"]["w"] += 1
    state["groups"][0]["params"].append(1)
    assert checkpoint.digest(copy) == before


def test_tensors_that_were_one_are_one_in_the_copy_and_views_are_not():
    shared = torch.arange(6.0)
    copy = checkpoint.snapshot({"a": shared.detach(), "b": shared.detach(), "c": shared[:3], "d": shared[3:]})
    assert copy["a"] is copy["b"]
    assert [copy["c"].tolist(), copy["d"].tolist()] == [[0, 1, 2], [3, 4, 5]]


def test_training_goes_on_while_a_checkpoint_is_written(tmp_path, monkeypatch):
    disk = SlowDisk(monkeypatch)
    weights = torch.zeros(3)
    with checkpoint.Writer(tmp_path, saved=0) as writer:
        writer.save({"step": 1, "w": weights})
        assert disk.begun.wait(timeout=10)
        weights += 1
        writer.check()
        assert writer.saved == 0
        assert not (tmp_path / "last.pt").exists()
        disk.go_on.set()
    assert writer.saved == 1
    assert checkpoint.read(tmp_path / "last.pt")["w"].tolist() == [0, 0, 0]


def test_the_next_write_waits_for_the_one_before(tmp_path):
    with checkpoint.Writer(tmp_path, saved=0) as writer:
        for step in range(1, 6):
            writer.save({"step": step})
            assert writer.saved == step - 1
    assert checkpoint.read(tmp_path / "last.pt")["step"] == 5
    assert checkpoint.read(tmp_path / "previous.pt")["step"] == 4


def test_an_error_of_writing_is_raised_by_whichever_call_comes_next(tmp_path, monkeypatch):
    checkpoint.save(tmp_path, {"step": 1})
    monkeypatch.setattr(checkpoint.os, "fsync", full_disk)
    writer = checkpoint.Writer(tmp_path, saved=1)
    for call in (writer.wait, lambda: writer.save({"step": 3}), lambda: writer.__exit__(None, None, None)):
        writer.save({"step": 2})
        with pytest.raises(OSError, match="No space left"):
            call()
    assert writer.saved == 1
    assert checkpoint.read(tmp_path / "last.pt")["step"] == 1


def test_an_error_of_writing_does_not_hide_the_error_that_ended_the_block(tmp_path, monkeypatch):
    monkeypatch.setattr(checkpoint.os, "fsync", full_disk)
    writer = checkpoint.Writer(tmp_path, saved=0)

    def fail_after_saving():
        with writer:
            writer.save({"step": 2})
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail_after_saving()
    assert writer.saved == 0
