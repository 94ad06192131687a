"""Any file called a checkpoint is the state that was written, or known to be damaged; no code in it runs."""

import io
import pickle
import zipfile

import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

from interlude import checkpoint
from interlude.checkpoint import Damaged

pytestmark = pytest.mark.slow

STATE = {
    "step": 3,
    "method": {"w": torch.arange(300.0), "n": torch.tensor(7)},
    "optimizer": {"state": {0: {"momentum": torch.ones(3)}}, "param_groups": [{"lr": 0.1, "params": [0, 1]}]},
}


def written(content):
    file = io.BytesIO()
    torch.save(content, file)
    return file.getvalue()


GOOD = written({**STATE, "checksum": checkpoint.digest(STATE)})
PICKLED = zipfile.ZipFile(io.BytesIO(GOOD)).read("archive/data.pkl")


def read(folder, content):
    """The state that these bytes give, or None."""
    path = folder / "bytes.pt"
    path.write_bytes(content)
    try:
        return checkpoint.read(path)
    except Damaged:
        return None


def zipped(pickled, *, kept=GOOD):
    """The good file with another pickle inside, its checksums of the archive made right."""
    file = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(kept)) as old, zipfile.ZipFile(file, "w") as new:
        for name in old.namelist():
            new.writestr(name, pickled if name.endswith("data.pkl") else old.read(name))
    return file.getvalue()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("checkpoints")


def recursive():
    content: list = []
    content.append(content)
    return content


@settings(deadline=None, max_examples=300)
@given(st.binary(max_size=300))
@example(b"")
@example(b"PK\x03\x04")
@example(pickle.dumps({"checksum": ""}))
@example(written([1, 2]))
@example(written(torch.zeros(3)))
@example(written({"checksum": torch.zeros(2)}))
@example(written({"checksum": [1], "a": {1, 2}}))
@example(written({"checksum": "", "a": recursive()}))
@example(b"\x80\x02}q\x00." + b"\0" * 50)
def test_any_bytes_give_no_state(folder, content):
    assert read(folder, content) is None


changes = st.lists(
    st.tuples(st.integers(0, len(GOOD) - 1), st.integers(0, 255), st.integers(0, 40)), min_size=1, max_size=4
)


@settings(deadline=None, max_examples=400)
@given(changes)
def test_a_changed_file_gives_the_state_that_was_written_or_none(folder, changes):
    content = bytearray(GOOD)
    for place, byte, length in changes:
        content[place : place + length] = bytes([byte]) * length
    state = read(folder, bytes(content))
    assert state is None or checkpoint.digest(state) == checkpoint.digest(STATE)


@settings(deadline=None, max_examples=300)
@given(st.integers(0, len(GOOD) - 1))
def test_a_file_that_was_cut_off_gives_none(folder, length):
    assert read(folder, GOOD[:length]) is None


@settings(deadline=None, max_examples=400)
@given(st.lists(st.tuples(st.integers(0, len(PICKLED) - 1), st.integers(0, 255)), min_size=1, max_size=3))
def test_a_changed_pickle_in_a_sound_archive_gives_the_state_that_was_written_or_none(folder, changes):
    content = bytearray(PICKLED)
    for place, byte in changes:
        content[place] = byte
    state = read(folder, zipped(bytes(content)))
    assert state is None or checkpoint.digest(state) == checkpoint.digest(STATE)


@settings(deadline=None, max_examples=200)
@given(st.binary(max_size=100))
def test_any_pickle_in_a_sound_archive_gives_no_state(folder, content):
    assert read(folder, zipped(content)) is None


@pytest.mark.parametrize("protocol", range(2, 6))
@pytest.mark.parametrize("wrap", [bytes, zipped], ids=["bare", "in an archive"])
def test_code_in_a_checkpoint_is_not_run(folder, tmp_path, wrap, protocol):
    class Evil:
        def __reduce__(self):
            return (open, (str(tmp_path / "ran"), "w"))

    content = pickle.dumps({"checksum": Evil(), "step": 3}, protocol=protocol)
    assert read(folder, wrap(content)) is None
    assert not (tmp_path / "ran").exists()


def test_code_in_a_checkpoint_would_be_seen_to_run(tmp_path):
    class Evil:
        def __reduce__(self):
            return (open, (str(tmp_path / "ran"), "w"))

    pickle.loads(pickle.dumps(Evil())).close()
    assert (tmp_path / "ran").exists()
