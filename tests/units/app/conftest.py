"""A small folder of pictures, its project, and a browser that has the token."""

import numpy as np
import pytest
from app_address import HOME, PORT, TOKEN
from fastapi.testclient import TestClient
from PIL import Image

from interlude.app.labels import Labels
from interlude.app.log import Log
from interlude.app.project import Project, make_place
from interlude.app.server import build

COUNT = 12


@pytest.fixture
def folder(tmp_path):
    """Twelve pictures: a.png, b.png, ..., each of one colour."""
    root = tmp_path / "photos"
    root.mkdir()
    for number in range(COUNT):
        colour = (20 * number, 255 - 20 * number, 128)
        Image.new("RGB", (40, 30), colour).save(root / f"{chr(97 + number)}.png")
    return root


@pytest.fixture
def project(folder):
    """The folder as the server knows it; nothing runs beside it."""
    made = Project(folder, make_place(folder, None))
    yield made
    made.close()


@pytest.fixture
def guard(project):
    """The server, behind its guard."""
    return build(project, token=TOKEN, host="127.0.0.1", port=PORT)


@pytest.fixture
def client(guard):
    """A browser that was given the address with its token."""
    return TestClient(guard, base_url=HOME, headers={"x-token": TOKEN, "origin": HOME})


@pytest.fixture
def labels(tmp_path):
    """Ten images without a label, and two classes."""
    log = Log(tmp_path / "labels.sqlite")
    made = Labels(log, [f"{number}.png" for number in range(10)])
    made.add_classes(["cat", "dog"])
    yield made
    log.close()


@pytest.fixture
def random():
    """Numbers that are the same each time."""
    return np.random.default_rng(0)
