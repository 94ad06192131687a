"""`interlude app` as a person runs it: a real server, killed and started again, from labels to a model."""

import io
import json
import re
import signal
import subprocess
import sys
import threading
import time
import zipfile
from http.client import HTTPException
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import numpy as np
import pytest
from PIL import Image
from sklearn.datasets import load_digits

from processes import listening

pytestmark = pytest.mark.slow

PATIENCE = 900.0  # seconds; on a busy machine a fit of five seconds takes minutes


@pytest.fixture(autouse=True)
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    """These tests talk to this machine; nothing is downloaded."""
    monkeypatch.setenv("INTERLUDE_OFFLINE", "1")
    monkeypatch.setenv("OMP_NUM_THREADS", "1")


@pytest.fixture
def digits(tmp_path: Path) -> Path:
    """Zeros and ones, called by their class and a number."""
    folder = tmp_path / "digits"
    folder.mkdir()
    known = load_digits(n_class=2)
    for number, (pixels, label) in enumerate(zip(known.images[:80], known.target, strict=False)):
        picture = Image.fromarray(np.minimum(pixels * 16, 255).astype(np.uint8))
        picture.resize((16, 16)).save(folder / f"{label}-{number:03d}.png")
    return folder


class Page:
    """A server in a process of its own, and what a browser would ask it."""

    def __init__(self, folder: Path, *options: str) -> None:
        command = [sys.executable, "-m", "interlude", "app", str(folder), "--no-browser", *options]
        self.process = listening(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        found = re.search(r"(http://[^/]+)/\?token=(\S+)", line)
        assert found, line + (self.process.communicate()[1] if self.process.poll() is not None else "")
        self.home, self.token = found[1].replace("0.0.0.0", "127.0.0.1"), found[2]

    def ask(self, path: str, body: Any = None, **headers: str) -> bytes:
        """The content at an address."""
        own = {"x-token": self.token, "origin": self.home, "content-type": "application/json"} | headers
        data = None if body is None else json.dumps(body).encode()
        with urlopen(Request(self.home + path, data, own), timeout=PATIENCE) as answer:
            return bytes(answer.read())

    def json(self, path: str, body: Any = None) -> Any:
        """What an address of the API answers."""
        return json.loads(self.ask(path, body))

    def code(self, path: str, body: Any = None, **headers: str) -> int:
        """How an address answers."""
        try:
            self.ask(path, body, **headers)
        except HTTPError as error:
            return error.code
        return 200

    def wait(self, *states: str) -> dict[str, Any]:
        """The state, once training has come to one of these."""
        deadline = time.monotonic() + PATIENCE
        while (state := self.json("/api/state"))["training"]["state"] not in states:
            assert time.monotonic() < deadline, state
            time.sleep(0.2)
        return dict(state)

    def label(self, count: int) -> None:
        """Name two classes, and label so many images of each by their names."""
        self.json("/api/classes", {"names": ["zero", "one"]})
        images = self.json("/api/images?limit=1000")["images"]
        for label in (0, 1):
            for image in [i for i in images if i["name"].startswith(str(label))][:count]:
                self.json("/api/labels", {"ids": [image["id"]], "value": label})

    def stop(self, number: int = signal.SIGKILL) -> int:
        """The exit code after a signal."""
        self.process.send_signal(number)
        self.errors = self.process.communicate(timeout=PATIENCE)[1]
        return self.process.returncode


@pytest.fixture
def start(digits: Path):
    """Start the page of the digits."""
    pages: list[Page] = []

    def run(*options: str) -> Page:
        pages.append(Page(digits, *options))
        return pages[-1]

    yield run
    for page in pages:
        if page.process.poll() is None:
            page.stop(signal.SIGTERM)


def test_nothing_is_lost_when_the_server_is_killed_while_labels_come_in(start) -> None:
    page = start()
    page.json("/api/classes", {"names": ["zero", "one"]})
    confirmed: list[int] = []

    def label() -> None:
        for row in range(80):
            try:
                page.json("/api/labels", {"ids": [row], "value": row % 2})
            except (OSError, HTTPException, ValueError):
                return
            confirmed.append(row)

    hand = threading.Thread(target=label)
    hand.start()
    while len(confirmed) < 10:
        time.sleep(0.01)
    page.stop(signal.SIGKILL)
    hand.join()

    again = start()
    labels = {image["id"]: image["label"] for image in again.json("/api/images?limit=100")["images"]}
    assert [labels[row] for row in confirmed] == [row % 2 for row in confirmed]
    assert again.json("/api/undo", {})["undone"]["ids"][0] in (confirmed[-1], confirmed[-1] + 1)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_ends_it_in_order_with_the_labels_in_their_table(start, digits, number, code) -> None:
    page = start()
    page.label(1)
    assert page.stop(number) == code
    assert "Traceback" not in page.errors
    assert (digits / ".interlude" / "labels.csv").read_text().count("\n") == 3


def test_labels_in_sub_folders_are_there_when_the_page_opens_and_are_not_read_in_twice(start, digits) -> None:
    for path in sorted(digits.glob("*.png")):
        place = digits / (("zero", "one", "unlabeled")[int(path.name[0]) if path.name < "1-02" else 2])
        place.mkdir(exist_ok=True)
        path.rename(place / path.name)
    page = start()
    first = page.json("/api/state")
    assert [one["name"] for one in first["classes"]] == ["one", "zero"]
    (image, *_) = page.json("/api/images?filter=labeled&limit=1")["images"]
    page.json("/api/labels", {"ids": [image["id"]], "value": None})
    assert page.stop(signal.SIGTERM) == 143
    assert f"read in {first['labeled']} labels" in page.errors
    again = start()
    assert again.json("/api/state")["labeled"] == first["labeled"] - 1


def test_an_open_stream_of_events_does_not_hold_up_the_end(start) -> None:
    page = start()
    stream = urlopen(Request(f"{page.home}/api/events", headers={"x-token": page.token}), timeout=PATIENCE)
    assert stream.readline() == b"event: state\n"
    assert page.stop(signal.SIGTERM) == 143
    assert "Traceback" not in page.errors


def test_the_socket_lets_in_only_who_has_the_token_and_the_right_names(start) -> None:
    page = start()
    assert page.code("/api/state") == 200
    assert page.code("/api/state", **{"x-token": "wrong"}) == 403
    assert page.code("/api/state", host="evil.example:80") == 403
    assert page.code("/api/undo", {}, origin="http://evil.example") == 403


def test_a_second_server_of_the_folder_is_told_where_the_first_is(start, digits) -> None:
    page = start()
    command = [sys.executable, "-m", "interlude", "app", str(digits), "--no-browser"]
    second = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert second.returncode == 2
    assert page.home in second.stderr
    assert page.token not in second.stderr


def test_other_machines_are_let_in_with_a_warning(start) -> None:
    page = start("--host", "0.0.0.0", "--allow-remote")
    assert page.code("/api/state") == 200
    page.stop(signal.SIGTERM)
    assert "warning: other machines can open the page" in page.errors


def test_from_labels_to_a_model_that_predict_takes(start, digits, tmp_path) -> None:
    page = start()
    page.label(6)
    page.json("/api/train", {"budget": "5s"})
    page.json("/api/labels", {"ids": [70], "value": "strange"})  # labeling goes on
    state = page.wait("done", "failed")
    assert state["training"]["state"] == "done", state["training"]
    assert (state["latest"]["labels"], state["phase"]) == (12, "model")
    assert "<html" in page.ask("/report/001").decode()
    (first, *_) = page.json("/api/images?filter=predicted:1&sort=certain")["images"]
    assert page.json("/api/labels", {"ids": [first["id"]], "value": 0})["classes"][0]["count"] == 7

    with zipfile.ZipFile(io.BytesIO(page.ask("/api/export/model/001"))) as archive:
        archive.extractall(tmp_path)
    command = [sys.executable, "-m", "interlude", "predict", str(tmp_path / "interlude-model-001")]
    done = subprocess.run(
        [*command, str(digits), "--quiet"], capture_output=True, text=True, timeout=PATIENCE, check=True
    )
    assert len(done.stdout.splitlines()) == 81


def test_a_fit_outlives_a_killed_server_and_the_next_one_goes_on_with_it(start) -> None:
    page = start()
    page.label(3)
    page.json("/api/train", {"budget": "10m"})
    deadline = time.monotonic() + PATIENCE
    while not page.json("/api/state")["training"]["line"]:
        assert time.monotonic() < deadline
        time.sleep(0.2)
    page.stop(signal.SIGKILL)
    again = start()
    assert again.json("/api/state")["training"]["state"] == "running"
    again.json("/api/train/stop", {})
    assert again.wait("idle")["training"]["message"] == "stopped"
