"""The verb `app`: serve the page on this machine until it is stopped."""

import importlib.util
import signal
import socket
import sys
import threading
import time
import webbrowser
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Annotated, Any
from urllib.parse import urlsplit

from cyclopts import Parameter

from interlude.app.security import is_loopback, new_token
from interlude.errors import UserError
from interlude.lock import Taken, held
from interlude.options import Options, option, run_verb
from interlude.progress import note
from interlude.signals import Stopped

NEEDED = ("fastapi", "uvicorn")
LOCK = "app.lock"
GRACE = 2  # seconds that open connections have at the end


@dataclass(frozen=True)
class Settings(Options):
    """Where the page is served, and where its labels are kept."""

    port: int | None = option(
        None,
        "port of this machine; 0 takes one that is free, as does the default, if that of last time is taken",
        at_least=0,
        at_most=65535,
    )
    browser: bool = option(True, "open the page in a browser")
    out: Path | None = option(None, "folder for labels, thumbnails and fits; default FOLDER/.interlude")
    labels: str | None = option(None, "table (CSV or TSV) of labels there are already, read in once")
    weights: str | None = option(None, "file of weights of the pretrained network, instead of a download")
    host: str = option("127.0.0.1", "address to listen at; others than this machine's need --allow-remote")
    allow_remote: bool = option(False, "let other machines in, who have the address with its token")


def main(tokens: Sequence[str]) -> None:
    """Run the verb with its tokens."""
    run_verb("app", run, tokens)


def run(folder: Path, /, *, settings: Annotated[Settings, Parameter(name="*")] = Settings()) -> None:
    """Label images in the browser and watch a model learn from them, all on this machine.

    Parameters
    ----------
    folder
        A folder of images. Nothing in it is changed; labels and models are kept in FOLDER/.interlude.
    """
    check_installed()
    if not is_loopback(settings.host) and not settings.allow_remote:
        raise UserError(f"--host {settings.host} lets other machines in; say --allow-remote if that is meant")
    if settings.weights is not None and not Path(settings.weights).expanduser().is_file():
        raise UserError(f"there is no file of weights {settings.weights}")
    from interlude.app.project import Project, make_place

    folder = folder.expanduser()
    place = make_place(folder, settings.out)
    ports = [*last_port(place), 0] if settings.port is None else [settings.port]
    with listening(settings.host, ports) as door, alone(place, door):
        project = Project(folder, place, weights=settings.weights, table=settings.labels)
        serve(project, settings, door)


def check_installed() -> None:
    """Say how to install what only the page needs."""
    if any(importlib.util.find_spec(name) is None for name in NEEDED):
        raise UserError("the page needs two more packages: pip install 'interlude-ssl[app]'")


def last_port(place: Path) -> list[int]:
    """The port of last time, if there was one: a page that was left open finds the new server there."""
    with suppress(OSError, ValueError):
        port = urlsplit((place / LOCK).read_text(encoding="utf-8").strip()).port
        return [] if port is None else [port]
    return []


@contextmanager
def listening(host: str, ports: Sequence[int]) -> Iterator[socket.socket]:
    """A socket that takes connections at this address, at the first of the ports that is free."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as door:
        door.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        for port in ports:
            try:
                door.bind((host, port))
                door.listen(128)
                break
            except OSError as error:
                reason = (error.strerror or str(error)).lower()
                if port == ports[-1]:
                    words = f"cannot listen at {host}:{port}: {reason}; choose another --port"
                    raise UserError(words) from None
        yield door


@contextmanager
def alone(place: Path, door: socket.socket) -> Iterator[None]:
    """Be the only server of this folder; a second one is told where the first is."""
    lock = place / LOCK
    try:
        with held(lock):
            lock.write_text(f"{address(door)}\n", encoding="utf-8")
            yield
    except Taken as where:
        raise UserError(
            f"the page of this folder is open already, at {where}: use that one, or stop it first"
        ) from None


def address(door: socket.socket) -> str:
    """Where the page is, without the token."""
    host, port = door.getsockname()[:2]
    return f"http://[{host}]:{port}/" if ":" in host else f"http://{host}:{port}/"


def serve(project: Any, settings: Settings, door: socket.socket) -> None:
    """Answer until a signal comes."""
    import uvicorn

    from interlude.app.server import build

    token = new_token()
    guard = build(project, token=token, host=settings.host, port=door.getsockname()[1])
    config = uvicorn.Config(
        guard,
        lifespan="off",
        log_level="warning",
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=GRACE,
    )

    class Server(uvicorn.Server):
        """Lets the streams of events end before it waits for open connections."""

        def handle_exit(self, sig: int, frame: FrameType | None) -> None:
            project.leave()
            super().handle_exit(sig, frame)

    server = Server(config)
    where = f"{address(door)}?token={token}"
    signal.signal(signal.SIGTERM, _stop)
    project.start()
    try:
        print(f"{len(project.album):,} images; the page is at {where}", flush=True)
        if not is_loopback(settings.host):
            note("warning: other machines can open the page too; whoever has its address can read the images")
        if project.num_read_in:
            note(f"read in {project.num_read_in:,} labels that were there already")
        note(f"labels are kept in {project.place}; Ctrl-C ends the page")
        if settings.browser:
            threading.Thread(target=open_page, args=(server, where), daemon=True).start()
        server.run(sockets=[door])
    finally:
        project.close()


def _stop(number: int, frame: FrameType | None) -> None:
    raise Stopped("stopped", number)


def open_page(server: Any, where: str) -> None:
    """Open the page in a browser once it is there."""
    while not server.started and not server.should_exit:
        time.sleep(0.05)
    if not webbrowser.open(where):
        print("no browser could be opened; open the address yourself", file=sys.stderr)
