"""What all tests share: one thread, no network, no trace left outside temporary folders."""

import socket

import pytest
import torch


@pytest.fixture(autouse=True)
def one_thread():
    """Sums come out the same on every machine, and tests side by side do not fight for cores."""
    torch.set_num_threads(1)


@pytest.fixture(autouse=True)
def no_network(monkeypatch, tmp_path_factory):
    """A test that reaches for the network fails at once; data are looked for in an empty folder."""

    def refuse(*args, **kwargs):
        raise OSError("tests have no network")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    monkeypatch.setenv("INTERLUDE_DATA", str(tmp_path_factory.getbasetemp() / "no-data"))
    monkeypatch.setenv("INTERLUDE_CACHE", str(tmp_path_factory.getbasetemp() / "vectors"))
