"""A folder to run commands in, and one run that nothing happened to."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from commands import Here


@pytest.fixture
def here(tmp_path: Path) -> Iterator[Here]:
    """An empty folder to run commands in; no process outlives the test."""
    here = Here(tmp_path)
    yield here
    for process in here.started:
        process.kill()
        process.communicate()


@pytest.fixture(scope="session")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a quick run that nothing happened to."""
    place = Here(tmp_path_factory.mktemp("whole"))
    outcome = place.train("--out", "run")
    assert outcome.code == 0, outcome.err
    return place.folder / "run"


@pytest.fixture
def begun(here: Here, whole: Path) -> Path:
    """The folder `run` as the quick run left it just before its last checkpoint."""
    folder = here.folder / "run"
    shutil.copytree(whole, folder)
    (folder / "checkpoints/previous.pt").replace(folder / "checkpoints/last.pt")
    for name in ("summary.json", "model.safetensors", "config.json"):
        (folder / name).unlink()
    return folder
