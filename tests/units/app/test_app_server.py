"""The addresses of the server: what they take and what they answer."""

import json
import sqlite3
import threading
from importlib.resources import files

import numpy as np
import pytest

from interlude.app.beliefs import Beliefs

STATE = ["session", "folder", "images", "classes", "labeled", "sample", "skipped", "strange", "can_undo"]
STATE += ["phase", "features", "training", "latest", "changed"]


@pytest.fixture
def named(client):
    """The client, after two classes were named."""
    client.post("/api/classes", json={"names": ["cat", "dog"]})
    return client


def mark(client, ids, value):
    return client.post("/api/labels", json={"ids": ids, "value": value})


def test_the_state_says_all_that_the_page_shows(client):
    state = client.get("/api/state").json()
    assert list(state) == STATE
    assert (state["folder"], state["images"], state["phase"]) == ("photos", 12, "thumbnails")
    assert state["training"] == {"state": "idle", "fit": None, "line": "", "fraction": None, "message": ""}


def test_every_file_of_the_page_is_served_with_its_kind(client):
    kinds = {"html": "text/html", "js": "text/javascript", "css": "text/css", "svg": "image/svg+xml"}
    served = [file.name for file in (files("interlude.app") / "page").iterdir()]
    for name in served:
        answer = client.get(f"/{name}")
        assert answer.status_code == 200
        assert answer.headers["content-type"].startswith(kinds[name.rpartition(".")[2]])
    assert {"index.html", "favicon.svg"} <= set(served)


def test_classes_are_added_renamed_and_removed(named):
    named.post("/api/classes/0", json={"name": "tiger"})
    named.delete("/api/classes/1")
    assert named.get("/api/state").json()["classes"] == [{"id": 0, "name": "tiger", "count": 0}]


def test_a_class_with_labels_stays(named):
    mark(named, [0], 1)
    answer = named.delete("/api/classes/1")
    assert answer.status_code == 409
    assert answer.json() == {"error": "1 image is labeled 'dog': give them another label first"}


def test_marks_are_counted_by_kind(named):
    for ids, value in (([0, 1], 0), ([2], 1), ([3], "skip"), ([4, 5], "strange")):
        state = mark(named, ids, value).json()
    assert [c["count"] for c in state["classes"]] == [2, 1]
    assert (state["labeled"], state["skipped"], state["strange"]) == (3, 1, 2)


def test_an_undo_says_what_it_took_back(named):
    mark(named, [0, 1], 0)
    assert named.post("/api/undo").json()["undone"] == {"ids": [0, 1], "value": 0}
    assert named.post("/api/undo").json()["undone"] is None


def test_every_change_makes_the_number_of_changes_grow(named):
    before = named.get("/api/state").json()["changed"]
    after = mark(named, [0], 0).json()["changed"]
    assert after > before
    assert named.post("/api/undo").json()["changed"] > after


@pytest.mark.parametrize(
    "body", [{}, {"ids": "0", "value": 0}, {"ids": [0], "value": "cat"}, {"ids": ["0"], "value": 0}, [1]]
)
def test_what_cannot_be_understood_is_said_in_a_sentence(named, body):
    answer = named.post("/api/labels", json=body)
    assert answer.status_code == 422
    assert list(answer.json()) == ["error"]


@pytest.mark.parametrize(("ids", "value"), [([99], 0), ([0], 9)])
def test_an_image_or_class_that_is_not_there_is_said(named, ids, value):
    assert mark(named, ids, value).status_code == 404


def test_numbers_that_another_server_gave_are_not_taken(named):
    session = named.get("/api/state").json()["session"]
    for given, code in ((session, 200), ("another", 409)):
        body = {"ids": [0], "value": 0, "session": given}
        assert named.post("/api/labels", json=body).status_code == code


def test_a_label_that_the_disk_does_not_take_is_not_confirmed(named, project, monkeypatch):
    def full(entries, who):
        raise sqlite3.OperationalError("database or disk is full")

    monkeypatch.setattr(project.labels.log, "append", full)
    answer = mark(named, [0], 0)
    assert answer.status_code == 500
    assert "disk is full" in answer.json()["error"]
    assert named.get("/api/state").json()["labeled"] == 0


def test_proposals_have_no_mark_and_stay_while_nothing_changes(named, project):
    project.looks.start()
    first = [image["id"] for image in named.get("/api/next?count=5").json()["images"]]
    assert first == [image["id"] for image in named.get("/api/next?count=5").json()["images"]]
    mark(named, first[:2], 0)
    mark(named, first[2:3], "skip")
    later = [image["id"] for image in named.get("/api/next?count=5").json()["images"]]
    assert later[:2] == first[3:]
    assert not set(later) & set(first[:3])


def test_proposals_leave_out_what_the_page_has_already(client, project):
    project.looks.start()
    first = [image["id"] for image in client.get("/api/next?count=6").json()["images"]]
    rest = client.get("/api/next", params={"count": 12, "skip": ",".join(map(str, first))}).json()["images"]
    assert sorted(first + [image["id"] for image in rest]) == list(range(12))


def test_a_thumbnail_is_sent_with_its_kind_and_kept_by_the_browser(client):
    answer = client.get("/thumb/0?size=320")
    assert answer.headers["content-type"] == "image/png"
    assert "immutable" in answer.headers["cache-control"]


def test_a_broken_image_has_a_sign_and_a_header(client, folder):
    (folder / "a.png").write_bytes(b"")
    answer = client.get("/thumb/0")
    assert (answer.status_code, answer.headers["x-broken"]) == (200, "1")
    assert answer.headers["cache-control"] == "no-store"


@pytest.mark.parametrize("path", ["/thumb/99", "/thumb/-1", "/thumb/0?size=5000"])
def test_a_picture_that_is_not_offered_is_not_found(client, path):
    assert client.get(path).status_code == 404


def test_the_grid_is_told_a_page_at_a_time(named):
    mark(named, [2], 1)
    answer = named.get("/api/images?offset=1&limit=3").json()
    assert answer["total"] == 12
    assert [(i["id"], i["name"], i["label"]) for i in answer["images"]] == [
        (1, "b.png", None),
        (2, "c.png", 1),
        (3, "d.png", None),
    ]


@pytest.mark.parametrize("query", ["filter=nothing", "filter=class:9", "filter=predicted:x"])
def test_a_filter_that_is_not_there_is_said(client, query):
    assert client.get(f"/api/images?{query}").status_code == 400


def test_training_asks_for_what_is_missing(client):
    def said():
        answer = client.post("/api/train", json={"budget": "1m"})
        assert answer.status_code == 400
        return answer.json()["error"]

    assert said() == "name at least two classes first"
    client.post("/api/classes", json={"names": ["cat", "dog"]})
    mark(client, [0, 1], 0)
    assert said() == "label images of at least two classes first; there are labels of 1"


@pytest.mark.parametrize("budget", ["soon", "-3m", "99h", "3m; rm"])
def test_a_budget_that_is_none_is_refused(named, budget):
    mark(named, [0], 0)
    mark(named, [1], 1)
    assert named.post("/api/train", json={"budget": budget}).status_code == 400


def test_there_is_nothing_to_stop_at_first(client):
    assert client.post("/api/train/stop").status_code == 409


def test_the_labels_can_be_taken_away(named, project):
    first, _, third, *_ = project.proposer.sample.order.tolist()
    mark(named, [first, third], 0)
    answer = named.get("/api/export/labels.csv")
    wanted = {f"{project.album.paths[first]},cat,yes", f"{project.album.paths[third]},cat,no"}
    assert set(answer.text.splitlines()) == {"file_name,label,sampled", *wanted}
    assert 'filename="labels.csv"' in answer.headers["content-disposition"]


def test_before_the_first_fit_there_are_no_results(client):
    assert client.get("/api/fits").json() == {"fits": [], "curve": [], "forecast": None}
    assert client.get("/report/001").status_code == 404
    assert client.get("/api/export/model/001").status_code == 404


def test_beliefs_of_a_finished_fit_are_there_when_the_page_hears_of_it(named, project, monkeypatch):
    class Believing:
        marker = "beliefs"

    heard = []
    page = threading.Thread(target=lambda: heard.append((project.state()["phase"], project.beliefs)))

    def beliefs():
        page.start()
        page.join(0.1)  # it asks while they are being read
        return Believing()

    monkeypatch.setattr(project.fits, "poll", lambda: True)
    monkeypatch.setattr(project.fits, "beliefs", beliefs)
    monkeypatch.setattr(project.looks._enough, "is_set", lambda: False)
    before = project.changed
    project._look_after()
    page.join()
    ((phase, believed),) = heard
    assert (phase, type(believed)) == ("model", Believing)
    assert project.changed > before
    project.proposer.learn(None, None)


def test_the_table_on_disk_follows_the_labels(named, project):
    first = int(project.proposer.sample.order[0])
    mark(named, [first], 0)
    assert project.save().read_text() == f"file_name,label,sampled\n{project.album.paths[first]},cat,yes\n"
    mark(named, [first], None)
    assert project.save().read_text() == "file_name,label,sampled\n"


def test_the_table_on_disk_knows_that_an_unreadable_image_holds_up_no_sample(named, project):
    first, second, *_ = project.proposer.sample.order.tolist()
    mark(named, [second], 0)
    assert project.save().read_text().endswith(",no\n")
    project.looks.broken[first] = True
    assert project.save().read_text().endswith(",yes\n")


def test_the_page_knows_how_many_labels_count_for_the_number(named, project):
    first, second, third, *_ = project.proposer.sample.order.tolist()
    mark(named, [first], 0)
    mark(named, [second], "skip")
    state = mark(named, [third], 1).json()
    assert state["sample"] == {"labels": 2, "least": 8}


def test_the_guess_of_a_model_is_not_told_of_images_that_judge_it(named, project):
    project.looks.start()
    sure = np.ones(12, np.float32)
    project.proposer.learn(None, Beliefs(np.zeros(12, np.int32), sure, sure, sure))
    images = named.get("/api/next?count=6").json()["images"]
    assert [image["why"] == "random" for image in images] == [True, False] * 3
    assert [image["belief"] is None for image in images] == [True, False] * 3


def test_what_the_page_is_told_is_json_that_any_browser_reads(named, project):
    json.loads(json.dumps(project.state(), allow_nan=False))
