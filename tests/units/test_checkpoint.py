"""A checkpoint is whole or is known not to be."""

import random

import pytest
import torch

from interlude import checkpoint

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
