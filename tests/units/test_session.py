"""A sitting of a run: what is on disk when it stops, and what is said when it cannot be."""

import signal
from concurrent.futures import wait
from dataclasses import replace

import pytest

from interlude import checkpoint, distributed
from interlude.errors import RunError
from interlude.methods.fixmatch import FixMatch
from interlude.session import Session
from interlude.signals import Stopped
from interlude.testing import toy_run


def session(folder, *, stop_at=None, save_every=1000):
    """A sitting of a toy run; a signal comes in the middle of step `stop_at`."""
    run = toy_run(FixMatch)
    run.cfg = replace(run.cfg, save_every=save_every, watch="none")
    update = run.ema.update

    def update_and_stop(model):
        update(model)
        if run.step == stop_at:
            signal.raise_signal(signal.SIGINT)

    run.ema.update = update_and_stop
    return Session(run, folder, quiet=True)


def fill_the_disk(monkeypatch, *, after):
    """Writes fail once so many have gone well."""
    writes = []

    def fsync(descriptor):
        writes.append(descriptor)
        if len(writes) > after:
            raise OSError(28, "No space left on device")

    monkeypatch.setattr(checkpoint.os, "fsync", fsync)


def test_a_stopped_run_is_on_disk_when_it_says_so(tmp_path):
    sitting = session(tmp_path, stop_at=2)
    with pytest.raises(Stopped, match="saved at step 3"):
        sitting.complete()
    assert checkpoint.read(tmp_path / "checkpoints/last.pt")["step"] == 3


def test_a_signal_that_comes_while_processes_agree_waits_for_the_next_step(tmp_path, monkeypatch):
    sitting = session(tmp_path)

    def agree(number):
        if sitting.run.step == 2:
            signal.raise_signal(signal.SIGINT)
        return number

    monkeypatch.setattr(distributed, "highest", agree)
    with pytest.raises(Stopped, match="saved at step 3"):
        sitting.complete()


def test_a_signal_that_comes_after_processes_have_agreed_waits_for_the_next_step(tmp_path, monkeypatch):
    sitting = session(tmp_path)

    def show(step, values=None):
        if step == 2:
            signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(sitting.progress, "show", show)
    with pytest.raises(Stopped, match="saved at step 3"):
        sitting.complete()


def test_a_stop_that_cannot_be_saved_does_not_claim_to_be(tmp_path, monkeypatch):
    fill_the_disk(monkeypatch, after=1)
    sitting = session(tmp_path, stop_at=3, save_every=2)
    with pytest.raises(RunError, match="no space left on device; make room on that disk; step 2 is safe"):
        sitting.complete()


@pytest.mark.parametrize("after", [0, 1, 5])
def test_a_full_disk_ends_the_run_and_names_the_step_that_is_safe(tmp_path, monkeypatch, after):
    fill_the_disk(monkeypatch, after=after)
    with pytest.raises(RunError, match=f"step {after} is safe"):
        session(tmp_path, save_every=1).complete()
    assert not (tmp_path / "summary.json").exists()


def test_a_loss_that_is_no_number_names_the_last_step_on_disk(tmp_path):
    sitting = session(tmp_path, save_every=2)
    rate = sitting.run.optimizer.rate
    sitting.run.optimizer.rate = lambda step: float("inf") if step == 2 else rate(step)
    with pytest.raises(RunError, match="the last good checkpoint is of step 2"):
        sitting.complete()
    assert checkpoint.read(tmp_path / "checkpoints/last.pt")["step"] == 2


def test_an_error_of_writing_ends_the_run_after_the_step_in_hand(tmp_path, monkeypatch):
    fill_the_disk(monkeypatch, after=0)
    sitting = session(tmp_path, save_every=2)
    begin_step = sitting.run.batch

    def batch_after_the_write(step):
        wait([sitting.checkpoints._pending] if sitting.checkpoints._pending else [])
        return begin_step(step)

    sitting.run.batch = batch_after_the_write
    sitting.cfg = sitting.run.cfg = replace(sitting.run.cfg, overlap=False)
    with pytest.raises(RunError, match="step 0 is safe"):
        sitting.complete()
    assert sitting.run.step == 3
