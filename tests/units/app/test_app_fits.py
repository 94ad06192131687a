"""Fits as processes of their own: how they begin, go on, end, and what is read of them."""

import json
import sys
import time

import pytest

from interlude.app import fits as module
from interlude.app import jobs
from interlude.app.fits import Fits
from interlude.app.labels import Conflict, Missing
from interlude.errors import UserError
from interlude.lock import held

CAT, DOG = 0, 1
WAIT = "import time; print('step 1/9', flush=True); time.sleep(60)"


def outcome(labels=4, mean=80.0):
    figures = None if mean is None else {"mean": mean, "low": mean - 5, "high": mean + 5}
    return {
        "candidates": [{"name": "a", "balanced_accuracy": None}, {"name": "b", "balanced_accuracy": figures}],
        "verdict": {"kept": "b", "sentence": "it helped", "outcome": "helped"},
        "counts": {"labeled": {"cat": labels // 2, "dog": labels - labels // 2}},
        "cross_validation": {
            "why_not": "" if figures else "too few labels",
            "images": 9 if figures else 0,
            "sampled": 9,
            "basis": "judged on 9",
        },
        "seconds": {"total": 12.5},
        "created": "2026-01-01T00:00:00+00:00",
    }


@pytest.fixture
def place(tmp_path):
    (tmp_path / "fits").mkdir()
    return tmp_path / "fits"


@pytest.fixture
def fits(labels, place, tmp_path):
    labels.mark([0, 1], CAT)
    labels.mark([2, 3], DOG)
    made = Fits(tmp_path, place, labels, None)
    yield made
    made.close()


def instead(monkeypatch, program):
    """Run another program in place of `interlude fit`."""
    monkeypatch.setattr(Fits, "_command", lambda *args, **kwargs: [sys.executable, "-c", program])


def until(fits, state):
    deadline = time.monotonic() + 60
    while fits.state()["state"] != state:
        assert time.monotonic() < deadline, fits.state()
        fits.poll()
        time.sleep(0.02)
    return fits.state()


def finish(place, name, **values):
    (place / name).mkdir(exist_ok=True)
    (place / name / "fit.json").write_text(json.dumps(outcome(**values)))


def test_the_command_is_the_same_fit_that_a_person_would_start(fits, place, tmp_path):
    fits.weights = "w.safetensors"
    command = fits._command("001", "3m", force=True)
    assert command[:3] == [sys.executable, "-m", "interlude"]
    assert command[3:6] == ["fit", str(tmp_path), "--labels"]
    assert command[6:] == [
        str(place / "001.labels.csv"),
        *["--out", str(place / "001")],
        *["--budget", "3m", "--force", "--weights", "w.safetensors"],
    ]


def test_later_labels_do_not_disturb_a_fit(fits, place, labels, monkeypatch):
    instead(monkeypatch, WAIT)
    fits.start("1m", labels.table())
    before = labels.table()
    labels.mark([5], CAT)
    assert (place / "001.labels.csv").read_text() == before


def wait_for_a_line(fits) -> None:
    deadline = time.monotonic() + 60
    while not fits.state()["line"]:
        assert time.monotonic() < deadline
        fits.poll()


def test_while_a_fit_runs_its_last_line_is_shown_and_no_other_begins(fits, labels, monkeypatch):
    instead(monkeypatch, WAIT)
    fits.start("1m", labels.table())
    wait_for_a_line(fits)
    assert fits.state()["line"] == "step 1/9"
    assert 0 <= fits.state()["fraction"] <= 0.99
    with pytest.raises(Conflict, match="running already"):
        fits.start("1m", labels.table())


def test_the_page_hears_of_each_new_line_and_of_each_hundredth_of_the_budget(fits, labels, monkeypatch):
    instead(monkeypatch, WAIT)
    fits.start("100s", labels.table())
    wait_for_a_line(fits)
    versions = []
    for seconds in (50.0, 50.1, 51.0, 51.1):
        monkeypatch.setattr(module.time, "time", lambda seconds=seconds: fits._began + seconds)
        fits.poll()
        versions.append(fits.version)
    assert versions[0] == versions[1] < versions[2] == versions[3]


def test_a_fit_that_is_stopped_is_no_failure(fits, labels, monkeypatch):
    instead(monkeypatch, WAIT)
    fits.start("1m", labels.table())
    fits.stop()
    assert until(fits, "idle")["message"] == "stopped"
    assert fits.start("1m", labels.table()) == "002"


def test_a_fit_that_fails_says_why(fits, labels, monkeypatch):
    instead(monkeypatch, "import sys; sys.exit('error: the images are too dark')")
    fits.start("1m", labels.table())
    assert until(fits, "failed")["message"] == "the images are too dark"


def test_a_fit_that_ends_well_is_the_latest(fits, labels, place, monkeypatch):
    program = f"""
import json, pathlib
run = pathlib.Path({str(place / "001")!r}); run.mkdir()
(run / "unlabeled.csv").write_text("file,class,probability,second_probability,ood\\n7.png,dog,0.9,0.1,0.5\\n")
(run / "fit.json").write_text({json.dumps(outcome())!r})
"""
    instead(monkeypatch, program)
    fits.start("1m", labels.table())
    until(fits, "done")
    assert fits.latest().accuracy == 80.0
    labels.rename_class(DOG, "wolf")
    assert fits.beliefs().of(7) == {"class_id": DOG, "p": 0.9}


def test_what_a_fit_came_to_is_told_in_short(fits, place):
    finish(place, "002", labels=9, mean=None)
    assert fits.latest().to_json() == {
        "fit": "002",
        "labels": 9,
        "accuracy": None,
        "low": None,
        "high": None,
        "judged": 0,
        "basis": "judged on 9",
        "reason": "too few labels",
        "verdict": "it helped",
        "outcome": "helped",
        "seconds": 12.5,
        "time": "2026-01-01T00:00:00+00:00",
    }


def test_a_number_from_labels_that_were_chosen_is_not_told(fits, place):
    finish(place, "001")
    told = json.loads((place / "001" / "fit.json").read_text())
    told["cross_validation"]["sampled"] = None
    (place / "001" / "fit.json").write_text(json.dumps(told))
    fit = fits.latest()
    assert (fit.accuracy, fit.low, fit.high, fit.judged) == (None, None, None, 0)
    assert "train again" in fit.reason


def test_fits_are_told_in_the_order_in_which_they_began(fits, place):
    for name in ("010", "009", "1000"):
        finish(place, name)
    assert [fit.fit for fit in fits.all()] == ["009", "010", "1000"]


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"verdict": 3}'])
def test_a_damaged_outcome_is_passed_over(fits, place, content):
    finish(place, "001")
    (place / "002").mkdir()
    (place / "002" / "fit.json").write_text(content)
    assert [fit.fit for fit in fits.all()] == ["001"]
    assert fits.latest().fit == "001"


@pytest.mark.parametrize("name", ["", "..", "../fits/001", "001/", "002", "x"])
def test_only_a_finished_fit_has_a_run_folder(fits, place, name):
    finish(place, "001")
    assert fits.run("001") == place / "001"
    with pytest.raises(Missing):
        fits.run(name)


def test_a_fit_that_outlived_its_server_is_gone_on_with(fits, labels, place, tmp_path):
    (place / "001").mkdir()
    (place / "001.json").write_text('{"pid": 0, "began": 0.0, "budget": 60.0, "classes": {}}')
    with held(place / "001" / ".lock"):
        later = Fits(tmp_path, place, labels, None)
        later.poll()
        assert later.state()["state"] == "running"
        assert later.state()["fit"] == "001"
        with pytest.raises(Conflict):
            later.start("1m", labels.table())
    finish(place, "001")
    assert later.poll()
    assert later.state()["state"] == "done"


def test_a_fit_that_died_with_its_server_is_not_waited_for(fits, labels, place, tmp_path):
    (place / "001").mkdir()
    (place / "001" / ".lock").write_text("process 1")
    (place / "001.json").write_text('{"pid": 1, "began": 0.0, "budget": 60.0, "classes": {}}')
    later = Fits(tmp_path, place, labels, None)
    assert later.state()["state"] == "idle"
    assert later._names() == ["001"]


def test_a_budget_of_more_than_a_day_is_refused(fits, labels):
    with pytest.raises(UserError, match="a day at most"):
        fits.start("25h", labels.table())


def test_the_last_line_is_found_at_the_end_of_a_long_log(tmp_path):
    log = tmp_path / "log"
    assert jobs.last_line(log) == ""
    log.write_text("first\n" * 5000 + "the last one\n\n")
    assert jobs.last_line(log) == "the last one"


def test_closing_ends_what_runs(fits, labels, monkeypatch):
    instead(monkeypatch, WAIT)
    fits.start("1m", labels.table())
    job = fits.job
    fits.close()
    assert job.code is not None


def test_what_the_doctor_said_last_is_found(fits, place):
    assert fits.findings() is None
    for name in ("001", "002"):
        (place / name).mkdir()
        (place / name / "doctor.json").write_text("{}")
    assert fits.findings() == place / "002" / "doctor.json"


def test_the_parts_of_a_model_are_those_that_the_predictor_reads():
    from interlude import predictor
    from interlude.models import weights

    assert set(module.MODEL) == {weights.CONFIG, weights.WEIGHTS, predictor.USUAL}
