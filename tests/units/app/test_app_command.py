"""The verb `app`: what it refuses before it serves."""

import socket
import subprocess
import sys

import pytest

from interlude.app import command
from interlude.cli import main
from interlude.errors import UserError


@pytest.fixture
def said(capfd):
    """Run `interlude app ARGS`, which is refused; what was said."""

    def run(*args):
        with pytest.raises(SystemExit) as end:
            main(["app", *map(str, args)])
        assert end.value.code == 2
        return capfd.readouterr().err

    return run


def test_without_the_extra_it_says_how_to_get_it(said, folder, monkeypatch):
    monkeypatch.setattr(command.importlib.util, "find_spec", lambda name: None)
    assert said(folder) == "error: the page needs two more packages: pip install 'interlude-ssl[app]'\n"


@pytest.mark.parametrize("host", ["0.0.0.0", "192.168.1.5", "::"])
def test_letting_other_machines_in_has_to_be_meant(said, folder, host):
    assert "--allow-remote" in said(folder, "--host", host)


def test_a_folder_that_is_none_is_said(said, tmp_path):
    assert "does not exist" in said(tmp_path / "none")
    (tmp_path / "file").touch()
    assert "is a file" in said(tmp_path / "file")


def test_a_folder_without_images_is_said(said, tmp_path):
    assert "there is no image" in said(tmp_path, "--no-browser")


def test_a_place_that_cannot_be_written_is_named(said, folder, tmp_path):
    (tmp_path / "file").touch()
    assert "--out DIR" in said(folder, "--out", tmp_path / "file" / "state")


def test_weights_that_are_not_there_are_said(said, folder):
    assert "there is no file of weights w.pt" in said(folder, "--weights", "w.pt")


def test_a_port_in_use_is_said(said, folder):
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        assert "choose another --port" in said(folder, "--port", other.getsockname()[1])


def test_a_second_server_of_a_folder_is_told_where_the_first_is(folder):
    (folder / "state").mkdir()
    with command.listening("127.0.0.1", [0]) as one, command.listening("127.0.0.1", [0]) as two:
        state = folder / "state"
        with command.alone(state, one), pytest.raises(UserError, match=command.address(one)):
            command.alone(state, two).__enter__()
        with command.alone(folder / "state", two):
            pass


def test_neither_the_package_nor_its_help_imports_the_server():
    program = """
import sys
import interlude, interlude.cli, interlude.app.command
try:
    interlude.cli.main(["app", "--help"])
except SystemExit:
    pass
assert not {"fastapi", "uvicorn", "torch"} & set(sys.modules), sys.modules.keys()
"""
    subprocess.run([sys.executable, "-c", program], check=True, stdout=subprocess.DEVNULL)


def test_a_folder_keeps_its_port_as_long_as_that_is_free(tmp_path):
    assert command.last_port(tmp_path) == []
    with command.listening("127.0.0.1", [0]) as door, command.alone(tmp_path, door):
        port = door.getsockname()[1]
    assert command.last_port(tmp_path) == [port]
    with command.listening("127.0.0.1", [port, 0]) as again:
        assert again.getsockname()[1] == port
        with command.listening("127.0.0.1", [port, 0]) as other:
            assert other.getsockname()[1] not in (0, port)


@pytest.mark.parametrize("words", ["", "process 7 on host", "http://[::1", "http://127.0.0.1:99999999/"])
def test_a_damaged_note_of_the_last_port_is_no_port(tmp_path, words):
    (tmp_path / command.LOCK).write_text(words)
    assert command.last_port(tmp_path) == []
