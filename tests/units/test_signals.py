"""What signals do inside of a run and outside of it."""

import signal

import pytest

from interlude.signals import StopRequest, pass_over_save


@pytest.fixture(autouse=True)
def as_before():
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1)
    handlers = {number: signal.getsignal(number) for number in numbers}
    yield
    for number, handler in handlers.items():
        signal.signal(number, handler)


def test_a_wish_to_save_is_taken_once_and_stops_nothing():
    with StopRequest() as stop:
        assert not stop.take_save()
        signal.raise_signal(signal.SIGUSR1)
        signal.raise_signal(signal.SIGUSR1)
        assert stop.take_save()
        assert not stop.take_save()
        assert stop.signal is None


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_first_stop_is_noted_and_a_second_one_acts(number):
    class Acted(Exception):
        pass

    def act(number, frame):
        raise Acted

    signal.signal(number, act)
    with StopRequest() as stop:
        signal.raise_signal(number)
        assert stop.signal == number
        with pytest.raises(Acted):
            signal.raise_signal(number)


def test_a_wish_to_save_kills_nothing_after_a_stop():
    with StopRequest() as stop:
        signal.raise_signal(signal.SIGTERM)
        signal.raise_signal(signal.SIGUSR1)
        assert stop.take_save()


def test_outside_of_a_run_a_wish_to_save_is_passed_over_unless_someone_else_hears_it():
    signal.signal(signal.SIGUSR1, signal.SIG_DFL)
    pass_over_save()
    signal.raise_signal(signal.SIGUSR1)
    heard = []
    signal.signal(signal.SIGUSR1, lambda number, frame: heard.append(number))
    pass_over_save()
    signal.raise_signal(signal.SIGUSR1)
    assert heard == [signal.SIGUSR1]
