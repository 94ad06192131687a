"""A checkpoint that is cut short or changed anywhere is noticed, and the one before it used."""

import random
import shutil

import pytest

from interlude import checkpoint
from runs import final_bits

pytestmark = pytest.mark.slow


def damage(path, seed):
    """Cut a file short, or change a stretch of it, somewhere."""
    chance = random.Random(seed)
    content = bytearray(path.read_bytes())
    place, length = chance.randrange(len(content)), chance.choice([1, 1, 64, 4096])
    if seed % 3 == 0:
        del content[place:]
    else:
        content[place : place + length] = bytes(
            byte ^ 1 << chance.randrange(8) for byte in content[place:][:length]
        )
    path.write_bytes(content)


@pytest.fixture
def copy(whole, tmp_path):
    shutil.copytree(whole, tmp_path / "run")
    return tmp_path / "run/checkpoints"


def test_damage_anywhere_never_gives_another_state(copy):
    last, before = (checkpoint.digest(checkpoint.read(copy / name)) for name in ("last.pt", "previous.pt"))
    content, passed = (copy / "last.pt").read_bytes(), 0
    for seed in range(60):
        (copy / "last.pt").write_bytes(content)
        damage(copy / "last.pt", seed)
        state, warnings = checkpoint.load(copy)
        assert checkpoint.digest(state) == (before if warnings else last)
        passed += bool(warnings)
    assert passed > 40, "most damage is in what is read"


def test_a_run_goes_on_from_the_checkpoint_before_a_damaged_one(here, copy, whole):
    damage(copy / "last.pt", seed=0)
    outcome = here.train("--out", "run", "--resume")
    assert outcome.code == 0, outcome.err
    assert "last.pt is damaged" in outcome.err
    assert "going on from the checkpoint before it" in outcome.err
    assert final_bits(here.folder / "run") == final_bits(whole)


def test_a_run_without_a_good_checkpoint_says_so_and_leaves_its_files(here, copy):
    for name in ("last.pt", "previous.pt"):
        damage(copy / name, seed=0)
    before = {path.name: path.read_bytes() for path in copy.iterdir()}
    outcome = here.train("--out", "run", "--resume")
    assert outcome.code == 1
    assert "no checkpoint of run can be read" in outcome.message
    assert "start again in another folder" in outcome.message
    assert {path.name: path.read_bytes() for path in copy.iterdir()} == before
