"""Running cells: what is left to do, what is stored, and the seam behind which they run."""

import json
from dataclasses import replace

import pytest

from interlude.bench.grid import Choice, expand
from interlude.bench.record import result_line
from interlude.bench.runner import Outcome, copy_results, describe, located, make_tasks, run_cells, to_do
from interlude.bench.store import Store
from interlude.errors import UserError
from interlude.training import train_configured

USAGE = {"process_seconds": 1.0, "cpu_seconds": 1.0, "peak_memory_mb": 1}


class Unwatched:
    """A watcher that sees nothing and never stops."""

    def looked(self, running):
        pass

    def stopping(self):
        return False


def in_process(tasks, watcher):
    """An executor without processes: trains here."""
    for task in tasks:
        train_configured(task.config, quiet=True)
        yield Outcome(task, 0, "", USAGE)


def tasks_of(suite, cells, tmp_path, **where):
    return make_tasks(suite, cells, runs=tmp_path / "runs", threads=1, device="cpu", where=where)


def run_all(suite, cells, store, tmp_path, executor=in_process):
    tasks = tasks_of(suite, to_do(suite, cells, store), tmp_path)
    return list(run_cells(suite, cells, store, tasks, executor, Unwatched()))


@pytest.fixture
def one(suite_of):
    """A suite whose two rows are the same run, and its two cells of one column and seed."""
    rows = {"interlude": None, "interlude again": {"method": "interlude", "method.alpha": 0.1}}
    suite = suite_of(
        rows=rows, settings={"data.validation": 0.1, "log_every": 1, "eval_every": 2, "watch": "test"}
    )
    return suite, expand(suite, Choice(columns=["digits@40"], seeds=[0]))


def test_a_run_of_two_places_is_made_once_and_stored_for_both(one, tmp_path):
    suite, cells = one
    store = Store(tmp_path / "results")
    assert len(run_all(suite, cells, store, tmp_path)) == 1
    assert {line["row"] for line in store.lines("tiny")} == {"interlude", "interlude again"}
    assert to_do(suite, cells, store) == []


def test_a_result_of_another_suite_is_copied_not_run(one, tmp_path):
    suite, cells = one
    store = Store(tmp_path / "results")
    run_all(suite, cells[:1], store, tmp_path)
    other = replace(suite, name="other")
    assert to_do(other, cells, store) == []
    copy_results(other, cells, store)
    copy_results(other, cells, store)
    assert len(store.lines("other")) == 2
    assert {(line["suite"], line["row"]) for line in store.lines("other")} == {
        ("other", "interlude"),
        ("other", "interlude again"),
    }


def test_a_line_says_all_that_a_table_needs(one, tmp_path):
    suite, cells = one
    ((outcome, line),) = run_all(suite, cells[:1], Store(tmp_path / "results"), tmp_path)
    summary = json.loads((outcome.task.folder / "summary.json").read_text())
    assert line["error_last"] == pytest.approx(summary["test"]["error"], abs=1e-4)
    assert line["tests"]["test"]["balanced_error_last"] == pytest.approx(
        summary["test"]["balanced_error"], abs=1e-4
    )
    assert line["validation"]["error_last"] == pytest.approx(summary["validation"]["error"], abs=1e-4)
    assert line["split_hash"] == summary["split_hash"]
    assert line["config_hash"] == cells[0].config_hash
    assert line["curve"]["on"] == "test"
    assert line["curve"]["step"] == [2, 4]
    assert line["error_best_on_test"] == pytest.approx(min(line["curve"]["error"]), abs=1e-3)
    assert len(line["traces"]["delta_x"]) == len(line["traces"]["step"]) == 4
    assert all(line[key] for key in ("version", "machine", "model_hash", "steps", "settings"))
    assert json.loads(json.dumps(line)) == line


def test_a_figure_that_was_not_watched_is_not_claimed(one, tmp_path):
    suite, cells = one
    suite = replace(suite, settings={})
    cell = replace(cells[0], config=replace(cells[0].config, watch="validation"))
    ((_, line),) = run_all(suite, [cell], Store(tmp_path / "results"), tmp_path)
    assert line["error_best_on_test"] is None
    assert line["curve"]["on"] == "validation"


def test_a_finished_run_keeps_its_model_and_drops_its_checkpoints(one, tmp_path):
    suite, cells = one
    ((outcome, _),) = run_all(suite, cells[:1], Store(tmp_path / "results"), tmp_path)
    assert (outcome.task.folder / "model.safetensors").exists()
    assert not (outcome.task.folder / "checkpoints").exists()


def test_a_failed_cell_is_not_stored_and_comes_again(one, tmp_path):
    suite, cells = one
    store = Store(tmp_path / "results")

    def failing(tasks, watcher):
        yield from (Outcome(task, 1, "no space left", USAGE) for task in tasks)

    ((outcome, line),) = run_all(suite, cells, store, tmp_path, failing)
    assert line is None
    assert "failed (no space left)" in describe(outcome, line)
    assert len(to_do(suite, cells, store)) == 1


def test_where_things_are_does_not_change_what_they_are_stored_under(suite_of):
    cell = expand(suite_of(columns={"cifar10@40": None}), Choice(rows=["interlude"], seeds=[0]))[0]
    config = located(cell.config, {"cifar10": "npz:/somewhere/cifar10.npz"})
    assert config.data.name == "npz:/somewhere/cifar10.npz"
    assert (config.labels, cell.config.data.name) == (40, "cifar10")


def test_weights_must_be_said_where_they_are(suite_of):
    suite = suite_of(columns={"digits@40": {"model": "wrn-10-1", "model.weights": "some-weights"}})
    cell = expand(suite, Choice(rows=["interlude"], seeds=[0]))[0]
    with pytest.raises(UserError, match="--where some-weights=FILE"):
        located(cell.config, {})
    assert located(cell.config, {"some-weights": "w.pt"}).model.weights == "w.pt"


def test_a_line_names_its_source_without_folders(one, tmp_path):
    suite, cells = one
    ((outcome, _),) = run_all(suite, cells[:1], Store(tmp_path / "results"), tmp_path)
    path = outcome.task.folder / "config.yaml"
    path.write_text(path.read_text().replace("name: digits", "name: npz:/home/me/digits.npz"))
    assert result_line(suite, cells[0], outcome.task.folder, USAGE)["source"] == "npz:digits.npz"
