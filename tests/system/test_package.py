"""What is installed: a wheel with everything in it, and torchvision that can be imported."""

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
def test_the_wheel_holds_the_types_and_the_recipes(tmp_path):
    command = [
        sys.executable,
        "-m",
        "pip",
        "wheel",
        "--quiet",
        "--no-deps",
        "--wheel-dir",
        str(tmp_path),
        str(ROOT),
    ]
    subprocess.run(command, check=True)
    (wheel,) = tmp_path.glob("interlude_ssl-*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    assert "interlude/py.typed" in names
    assert "interlude/recipes/released.yaml" in names
    assert "interlude/suites/table1.yaml" in names
    assert "interlude/bench/published.yaml" in names
    assert {"interlude/report/style.css", "interlude/report/script.js"} <= set(names)
    assert {"interlude/app/page/index.html", "interlude/app/page/app.js"} <= set(names)
    assert not [name for name in names if name.startswith("tests")]


def test_torchvision_and_timm_can_be_imported():
    code = "from interlude.compat import prepare_torchvision; prepare_torchvision(); import torchvision, timm"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_preparing_torchvision_twice_is_harmless():
    code = "from interlude.compat import prepare_torchvision as p; p(); p(); import torchvision; p()"
    subprocess.run([sys.executable, "-c", code], check=True)
