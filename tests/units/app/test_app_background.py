"""What is found out beside the labeling: looks, vectors, the doctor's findings; the queue of proposals."""

import asyncio
import json
import sys
import time
import zipfile
from io import BytesIO
from types import SimpleNamespace

import numpy as np
import pytest
from PIL import Image

from interlude.app import background, events, propose, vectors
from interlude.app.archive import zipped
from interlude.app.background import Doctor, Features
from interlude.app.beliefs import Beliefs
from interlude.app.labels import Labels
from interlude.app.log import Log
from interlude.app.looks import Looks


def wait_for(condition):
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


@pytest.fixture
def features(project):
    return Features(project.album, project.looks, project.place, None)


def run_instead(monkeypatch, program):
    """Run another program in place of any."""
    real = background.Job
    monkeypatch.setattr(
        background,
        "Job",
        lambda command, **files: real([sys.executable, "-c", program, *command[3:]], **files),
    )


def test_looks_are_the_colours_of_an_image(project):
    project.looks.look(3)
    np.testing.assert_allclose(
        project.looks.points[3].reshape(-1, 3), [[60 / 255, 195 / 255, 128 / 255]] * 64, atol=1e-6
    )


def test_all_images_of_a_small_folder_are_looked_at_but_the_broken(project, folder):
    (folder / "c.png").write_bytes(b"no picture")
    project.looks.start()
    wait_for(lambda: not project.looks._thread.is_alive())
    assert project.looks.rows().tolist() == [row for row in range(12) if row != 2]
    assert project.looks.broken.tolist() == [row == 2 for row in range(12)]


def test_a_broken_image_is_not_asked_about(project, folder):
    (folder / "c.png").write_bytes(b"no picture")
    project.looks.start()
    wait_for(lambda: not project.looks._thread.is_alive())
    found = project.proposer.next(50, set())
    assert sorted(p.row for p in found) == [row for row in range(12) if row != 2]


def test_vectors_are_those_that_the_process_leaves(features, project, monkeypatch):
    program = """
import json, sys, numpy as np
rows = json.load(open(sys.argv[2]))["rows"][:5]
np.savez(sys.argv[3], rows=rows, points=np.ones((5, 2), np.float32))
"""
    run_instead(monkeypatch, program)
    features.start()
    assert features.state()["state"] == "running"
    wait_for(lambda: features.poll() or features.job is None)
    assert features.state()["state"] == "ready"
    assert int(np.isfinite(features.points[:, 0]).sum()) == 5
    again = Features(project.album, Looks(project.album), project.place, None)
    assert again.load()
    again.start()
    assert again.job is None
    assert again.state()["state"] == "ready"


def test_without_weights_the_reason_is_told(features, monkeypatch):
    run_instead(monkeypatch, "import sys; print('no weights here', file=sys.stderr); sys.exit(3)")
    features.start()
    wait_for(lambda: features.poll() or features.job is None)
    assert features.state()["state"] == "unavailable"
    assert features.state()["reason"] == "no weights here"


def test_an_extraction_that_dies_is_no_end_of_the_page(features, monkeypatch):
    run_instead(monkeypatch, "raise RuntimeError('out of memory')")
    features.start()
    wait_for(lambda: features.poll() or features.job is None)
    assert features.state()["reason"] == "the extraction failed: RuntimeError: out of memory"


def test_the_progress_of_an_extraction_is_counted(features, monkeypatch):
    run_instead(
        monkeypatch,
        "import sys, time; print('vectors: image 7/12, x', file=sys.stderr, flush=True); time.sleep(60)",
    )
    features.start()
    wait_for(lambda: features.poll() or features.done == 7)
    assert features.state()["done"] == 7
    features.job.end()


def finding(kind, says="it is dark"):
    return {"kind": kind, "severity": "warn", "says": says, "do": "light", "count": 2, "files": ["a.png"]}


def test_the_findings_are_told_once_they_are_there(project, monkeypatch):
    doctor = Doctor(project.album, project.place)
    assert doctor.state(None) == {"running": True}
    content = json.dumps({"findings": [finding("no-labels"), finding("dark")]})
    run_instead(monkeypatch, f"print({content!r})")
    doctor.start()
    wait_for(doctor.poll)
    told = {"severity": "warn", "title": "it is dark", "detail": "light", "count": 2, "files": ["a.png"]}
    assert doctor.state(None) == {"findings": [told]}
    again = Doctor(project.album, project.place)
    again.start()
    assert again.job is None


def test_a_fit_knows_newer_findings(project, tmp_path):
    newer = tmp_path / "doctor.json"
    newer.write_text(json.dumps({"findings": [finding("dark", "newer")]}))
    doctor = Doctor(project.album, project.place)
    assert doctor.state(newer)["findings"][0]["title"] == "newer"


def test_a_doctor_that_dies_says_so(project, monkeypatch):
    doctor = Doctor(project.album, project.place)
    run_instead(monkeypatch, "import sys; sys.exit('error: nothing there')")
    doctor.start()
    wait_for(doctor.poll)
    assert doctor.state(None) == {"findings": [], "failure": "error: nothing there"}


def test_the_doctor_takes_no_folder_for_a_class(project):
    from interlude.data.listing import list_folder

    (project.album.root / "cats").mkdir()
    Image.new("L", (9, 9)).save(project.album.root / "cats" / "1.png")
    doctor = Doctor(project.album, project.place)
    doctor._file.with_name("doctor.csv").unlink(missing_ok=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(background, "Job", lambda command, **files: None)
        doctor.start()
    listing = list_folder(project.album.root, project.place / "doctor.csv")
    assert listing.class_names == ()


def test_vectors_are_shortened_to_the_directions_in_which_they_differ(random):
    plane = random.normal(size=(2, 300))
    long = (random.normal(size=(50, 2)) @ plane + 5).astype(np.float32)
    short = vectors.shortened(long, width=3)
    units = long / np.linalg.norm(long, axis=1, keepdims=True)
    apart = ((units[:, None] - units[None]) ** 2).sum(-1)
    again = ((short[:, None] - short[None]) ** 2).sum(-1)
    np.testing.assert_allclose(again, apart, atol=1e-4)


def mean_colour(views):
    return views.mean((2, 3))


def test_every_readable_image_has_a_vector_at_its_place(folder):
    (folder / "c.png").write_bytes(b"no picture")
    network = SimpleNamespace(mean=(0.0, 0.0, 0.0), std=(1.0, 1.0, 1.0), extract=mean_colour)
    places, found = vectors.extract(network, sorted(folder.iterdir()), side=8, threads=1)
    assert places.tolist() == [place for place in range(12) if place != 2]
    np.testing.assert_allclose(found[:, 0] * 255, 20 * places, atol=0.01)


def test_without_weights_no_vectors_are_made_and_the_reason_is_said(folder, tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("INTERLUDE_OFFLINE", "1")
    listed = tmp_path / "list.json"
    listed.write_text(json.dumps({"rows": [0, 1], "paths": ["a.png", "b.png"]}))
    assert vectors.main(str(folder), str(listed), str(tmp_path / "out.npz")) == background.UNAVAILABLE
    assert "its weights are not on this machine" in capsys.readouterr().err.splitlines()[-1]
    assert not (tmp_path / "out.npz").exists()


@pytest.fixture
def queue(tmp_path, random):
    """A proposer over a hundred images in two heaps, with looks of all of them."""
    labels = Labels(Log(tmp_path / "queue.sqlite"), [f"{n:03d}.png" for n in range(100)])
    labels.add_classes(["a", "b"])
    points = random.normal(0, 0.1, (100, 2)).astype(np.float32)
    points[50:] += 10
    looks = SimpleNamespace(points=points, rows=lambda: np.arange(100), broken=np.zeros(100, bool))
    yield propose.Proposer(labels, looks)
    labels.log.close()


def test_the_phase_is_the_best_that_is_known(queue):
    assert queue.phase == "thumbnails"
    queue.learn(queue.looks.points, None)
    assert queue.phase == "features"
    queue.learn(None, Beliefs(*(np.zeros(100, np.float32) for _ in range(4))))
    assert queue.phase == "model"


def doubts(rows):
    """A model that wavers over these of a hundred images."""
    margins = np.ones(100, np.float32)
    margins[list(rows)] = 0
    return Beliefs(np.zeros(100, np.int32), margins, margins, margins)


def test_new_knowledge_makes_new_proposals(queue):
    queue.labels.mark(list(range(20)), 0)
    before = {p.row for p in queue.next(10, set())}
    unsure = [row for row in range(20, 100) if row not in before][:40]
    queue.learn(None, doubts(unsure))
    after = [p for p in queue.next(30, set()) if p.why != "random"]
    assert {p.row for p in after} <= set(unsure)
    assert {p.why for p in after} == {"uncertain"}


def test_what_is_known_already_leaves_the_proposals_as_they_are(queue):
    beliefs = doubts(range(50))
    queue.learn(None, beliefs)
    before = queue.next(10, set())
    queue.labels.mark([before[0].row], 0)
    queue.learn(None, beliefs)
    assert queue.next(9, set()) == before[1:]


def test_with_few_labels_chosen_images_have_nothing_to_do_with_the_doubts_of_a_model(queue):
    before = queue.next(10, set())
    queue.learn(None, doubts(range(50)))
    assert queue.next(10, set()) == before


def test_with_few_labels_one_of_each_kind_is_asked_about_and_with_many_by_doubt(queue, monkeypatch):
    asked = []
    for name in ("typical", "spread", "uncertain"):
        real = getattr(propose.select, name)
        monkeypatch.setattr(
            propose.select, name, lambda *a, real=real, name=name: (asked.append(name), real(*a))[1]
        )
    for points in (None, queue.looks.points):
        queue.learn(points, doubts(range(50)))
        queue.next(2, set())
    queue.labels.mark(list(range(60, 79)), 0)
    queue.learn(None, doubts(range(50)))
    queue.next(2, set())
    queue.labels.mark([79], 1)  # ten for each of the two classes
    queue.learn(None, doubts(range(50)))
    queue.next(2, set())
    assert asked == ["spread", "typical", "spread", "uncertain"]


def test_the_queue_does_not_end_before_the_images(queue):
    seen = set()
    while found := queue.next(7, set()):
        rows = [p.row for p in found]
        assert not seen & set(rows)
        seen |= set(rows)
        queue.labels.mark(rows, 0)
    assert seen == set(range(100))


def collected(source, count, *, patience=30):
    async def take():
        stream, found = events.stream(source, lambda: asyncio.sleep(0, False)), []
        async for text in stream:
            found.append(text)
            if len(found) == count:
                return found
            source.changed += source.step
        return found

    return asyncio.run(asyncio.wait_for(take(), patience))


def test_a_change_is_told_as_an_event_with_the_state():
    source = SimpleNamespace(changed=1, step=1, closing=False, state=lambda: {"images": 3})
    assert collected(source, 2) == ['event: state\ndata: {"images": 3}\n\n'] * 2


def test_silence_is_broken_by_a_heartbeat(monkeypatch):
    monkeypatch.setattr(events, "HEARTBEAT", 0.01)
    source = SimpleNamespace(changed=1, step=0, closing=False, state=dict)
    assert collected(source, 2)[1].startswith(":")


def test_the_stream_ends_with_the_server():
    source = SimpleNamespace(changed=1, step=1, closing=True, state=dict)
    assert collected(source, 1) == []


def test_files_come_back_out_of_the_archive(tmp_path):
    for name, size in (("a.bin", 3_000_000), ("b.bin", 0)):
        (tmp_path / name).write_bytes(bytes(range(250)) * (size // 250))
    pieces = list(zipped([tmp_path / "a.bin", tmp_path / "b.bin"], "model"))
    assert len(pieces) > 2
    with zipfile.ZipFile(BytesIO(b"".join(pieces))) as archive:
        assert archive.testzip() is None
        assert archive.namelist() == ["model/a.bin", "model/b.bin"]
        assert archive.read("model/a.bin") == (tmp_path / "a.bin").read_bytes()
