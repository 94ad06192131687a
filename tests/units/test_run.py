"""What a run settles by the machine it starts on."""

from dataclasses import replace

import pytest
import torch

from interlude import machine
from interlude.config import Layer, resolve
from interlude.machine import Cores
from interlude.methods.fixmatch import FixMatch
from interlude.run import settle
from interlude.session import Session
from interlude.testing import toy_config, toy_run


def settled(threads):
    """The threads of a run that asks for `threads`, and what the person is told."""
    told = []
    cfg = settle(replace(toy_config(FixMatch), threads=threads), tell=told.append)
    return cfg.threads, told


def test_threads_are_chosen_by_the_machine_and_a_smaller_number_is_explained(monkeypatch):
    monkeypatch.setattr(machine, "threads", lambda: Cores(1, "other processes use 1.2 of 2 cores"))
    message = "computing with 1 thread, as other processes use 1.2 of 2 cores; --threads N takes N"
    assert settled(0) == (1, [message])


def test_nothing_is_said_where_all_cores_are_taken(monkeypatch):
    monkeypatch.setattr(machine, "threads", lambda: Cores(4))
    assert settled(0) == (4, [])


def test_a_number_of_threads_that_is_given_is_kept(monkeypatch):
    monkeypatch.setattr(machine, "threads", lambda: Cores(1, "others are busy"))
    assert settled(3) == (3, [])


@pytest.mark.parametrize(
    ("device", "free", "wanted", "expected"),
    [
        ("cpu", 2, True, True),
        ("cpu", 1, True, False),
        ("cpu", 2, False, False),
        ("meta", 1, True, True),
        ("meta", 1, False, False),
        ("mps", 2, True, False),
    ],
)
def test_batches_are_made_ahead_on_a_free_core_or_beside_a_device(
    monkeypatch, tmp_path, device, free, wanted, expected
):
    monkeypatch.setattr(machine, "free", lambda: Cores(free))
    run = toy_run(FixMatch)
    run.device = torch.device(device)
    run.cfg = replace(run.cfg, overlap=wanted)
    assert Session(run, tmp_path, quiet=True).overlap is expected


def test_a_frozen_network_without_weights_is_warned_of():
    told = []
    cfg = resolve([Layer("test", {"data": "digits", "model": {"name": "cnn", "frozen": True}, "threads": 1})])
    settle(cfg, tell=told.append)
    assert any("needs weights" in line for line in told)
    told.clear()
    settle(replace(cfg, model=replace(cfg.model, weights="w.safetensors")), tell=told.append)
    assert not told
