"""Compiled code is sent for when it is worth it, used when it is there, and never waited for unasked."""

import sys
import threading
from types import ModuleType

import pytest

from interlude.arrival import MISSING, Arrival
from interlude.errors import UserError

NAME = "a_module_that_is_compiled"


@pytest.fixture
def arrive(monkeypatch):
    """`arrive(compile, worth)`: the arrival of a module with this `compile`."""

    def arrive(compile=lambda: None, worth=10):
        module = ModuleType(NAME)
        module.compile = compile
        monkeypatch.setitem(sys.modules, NAME, module)
        return Arrival(NAME, worth=worth)

    return arrive


def test_nothing_is_sent_for_before_it_is_worth_it(arrive):
    arrival = arrive(lambda: pytest.fail("compiled for nothing"))
    assert [arrival.after(5), arrival.after(5)] == [None, None]
    assert arrival._outcome is None


def test_work_goes_on_without_it_while_it_is_compiled(arrive):
    ready = threading.Event()
    arrival = arrive(ready.wait, worth=0)
    assert arrival.after(1) is None
    ready.set()


def test_it_is_used_once_it_is_there(arrive):
    arrival = arrive(worth=0)
    arrival.after(1)
    arrival.send_for().result()
    assert arrival.after(1).__name__ == NAME


def test_who_insists_on_it_waits(arrive):
    heard = []
    arrival = arrive(lambda: heard.append("compiled"))
    assert arrival.wait() is arrival.wait()
    assert heard == ["compiled"]


def test_who_insists_on_what_is_not_installed_hears_how_to_install_it():
    arrival = Arrival("interlude.no_such_module", worth=0)
    with pytest.raises(UserError, match=r"interlude-ssl\[fast\]"):
        arrival.wait()


def test_what_is_not_installed_is_done_without():
    arrival = Arrival("interlude.no_such_module", worth=0)
    arrival.after(1)
    assert arrival.send_for().result() == MISSING
    assert arrival.after(1) is None


def test_who_insists_on_what_is_of_no_use_here_hears_why(arrive):
    arrival = arrive(lambda: "it rains")
    with pytest.raises(UserError, match="it rains"):
        arrival.wait()


def test_what_is_of_no_use_here_is_done_without(arrive):
    arrival = arrive(lambda: "it rains", worth=0)
    arrival.send_for().result()
    assert arrival.after(1) is None


def test_what_cannot_be_compiled_is_done_without(arrive):
    def fail():
        raise RuntimeError("no such instruction\nand a long story")

    arrival = arrive(fail, worth=0)
    arrival.after(1)
    arrival.send_for().result()
    assert arrival.after(1) is None
    with pytest.raises(UserError, match=r"\(RuntimeError: no such instruction\); choose auto or torch"):
        arrival.wait()
