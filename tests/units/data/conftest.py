import importlib
import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parent))
small_files = importlib.import_module("small_files")


@pytest.fixture
def small(tmp_path, monkeypatch):
    """`small(name)` writes a small copy of a data set into tmp_path and returns its arrays."""
    return lambda name: small_files.write_small(name, tmp_path, monkeypatch)


@pytest.fixture
def npz_file(tmp_path):
    """`npz_file(key=array, ...)` writes a valid file with some arrays replaced, or left out with None."""

    def write(**changes):
        path = tmp_path / "small.npz"
        content = small_files.arrays((5, 7, 3), num_classes=4) | changes
        small_files.np.savez(path, **{key: value for key, value in content.items() if value is not None})
        return path

    return write
