"""Held-out runs: what is kept of them, and what they add up to."""

from pathlib import Path

import numpy as np
import pytest

from interlude.config import Layer, resolve
from interlude.data import DataConfig, load
from interlude.fitting.candidates import Candidate
from interlude.fitting.folds import make_folds
from interlude.fitting.trials import Trial, Trials, append, held_out, predictions, read

TINY = {"data": "digits", "model": "cnn", "augment": "digits", "batch": 4, "mu": 1, "steps": 2, "threads": 1}


def trial(candidate: str, held: list[int], said: list[int], repetition: int = 0) -> Trial:
    """A trial in which the candidate is sure of these classes."""
    logs = np.log(np.where(np.eye(3)[said] > 0, 0.98, 0.01))
    return Trial(candidate, repetition, 0, "key", np.array(held), logs)


def test_a_trial_is_the_same_after_a_line_of_json() -> None:
    first = trial("a", [3, 1], [0, 2])
    again = Trial.from_json(first.to_json())
    assert (again.candidate, again.held.tolist(), again.key) == ("a", [3, 1], "key")
    np.testing.assert_allclose(again.log_probabilities, first.log_probabilities, atol=1e-5)


def test_a_line_that_was_being_written_is_passed_over(tmp_path: Path) -> None:
    path = tmp_path / "cv.jsonl"
    path.write_text(trial("a", [0], [0]).to_json() + "\n" + trial("b", [0], [0]).to_json()[:40])
    assert [found.candidate for found in read(path)] == ["a"]


def test_a_line_after_a_torn_one_is_not_lost(tmp_path: Path) -> None:
    path = tmp_path / "cv.jsonl"
    path.write_text(trial("a", [0], [0]).to_json()[:40])
    append(path, trial("b", [0], [0]).to_json())
    append(path, trial("c", [0], [0]).to_json())
    assert [found.candidate for found in read(path)] == ["b", "c"]


def test_an_image_counts_by_the_share_of_its_tries_that_were_right() -> None:
    labels = np.array([0, 1, 2])
    tries = [trial("a", [0, 1, 2], [0, 1, 2]), trial("a", [0, 1, 2], [0, 2, 1], repetition=1)]
    assert held_out(tries, labels, None).right["a"].tolist() == [1, 0.5, 0.5]


def test_only_images_that_all_candidates_judged_are_compared() -> None:
    found = held_out(
        [trial("a", [0, 1, 2], [0, 1, 2]), trial("b", [0, 2], [0, 0])], np.array([0, 1, 2]), None
    )
    assert found.labels.tolist() == [0, 2]
    assert found.right["b"].tolist() == [1, 0]


def test_what_a_candidate_said_is_had_try_by_try() -> None:
    rows, logs = predictions([trial("a", [2, 0], [1, 1]), trial("b", [1], [0]), trial("a", [1], [2])], "a")
    assert rows.tolist() == [2, 0, 1]
    assert logs.argmax(1).tolist() == [1, 1, 2]


@pytest.fixture
def trials(tmp_path: Path) -> Trials:
    split = load(DataConfig(name="digits"), labels=20, fold=0)
    cfg = resolve([Layer("test", {**TINY, "method": "supervised", "mu": 1})])
    folds = make_folds(split.labeled.labels_of().numpy())
    return Trials(tmp_path / "cv.jsonl", split, folds, {Candidate("labels", "control", ""): cfg})


def test_finished_runs_are_not_made_again(trials: Trials, monkeypatch: pytest.MonkeyPatch) -> None:
    first = trials.run(1)
    again = Trials(trials.path, trials.split, trials.folds, trials.configs)
    monkeypatch.setattr(Trials, "trial", lambda *args: pytest.fail("a finished run was made again"))
    second = again.run(1)
    assert [x.to_json() for x in first] == [x.to_json() for x in second]
    assert len(first) == 2, "two labels a class make two folds"


def test_a_person_hears_of_every_step_of_a_held_out_run(trials: Trials) -> None:
    heard: list[tuple[int, int]] = []
    trials.run(1, lambda run, step: heard.append((run, step)))
    assert heard == [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2)]


def test_nothing_is_told_of_runs_that_were_finished_before(trials: Trials) -> None:
    trials.run(1)
    again = Trials(trials.path, trials.split, trials.folds, trials.configs)
    again.run(1, lambda run, step: pytest.fail("a finished run was told of"))


def test_it_ends_before_a_fold_that_there_is_no_time_for(trials: Trials) -> None:
    asked: list[int] = []

    def more(done: int) -> bool:
        asked.append(done)
        return done < 1

    assert [(x.repetition, x.fold) for x in trials.run(2, more=more)] == [(0, 0)]
    assert asked == [0, 1]


def test_runs_of_other_settings_do_not_count(trials: Trials) -> None:
    trials.run(1)
    (candidate,) = trials.configs
    longer = resolve([Layer("test", {**TINY, "method": "supervised", "steps": 3})])
    assert not Trials(trials.path, trials.split, trials.folds, {candidate: longer}).done


def test_every_label_is_judged_by_a_network_that_had_not_seen_it(trials: Trials) -> None:
    found = trials.run(1)
    assert sorted(np.concatenate([x.held for x in found])) == list(range(20))
    for x in found:
        np.testing.assert_allclose(np.exp(x.log_probabilities).sum(1), 1, atol=1e-4)
