"""One process at a time in a folder: a lock that goes with the process that has it, however that ends."""

import importlib
import os
import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

from interlude.errors import UserError

fcntl: Any = importlib.import_module("fcntl") if os.name == "posix" else None
LOCK = ".lock"


class Taken(Exception):
    """Another process has the lock; the message says which."""


@contextmanager
def held(path: Path, *, waiting: Callable[[str], None] | None = None) -> Iterator[None]:
    """Have the lock `path` while the block lasts.

    Where another process has it: `Taken`, or with `waiting`, that is told who has it, and it is waited for.
    """
    if fcntl is None:
        yield
        return
    with path.open("a+b", buffering=0) as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            who = file.read(200).decode(errors="replace").strip() or "another process"
            if waiting is None:
                raise Taken(who) from None
            waiting(who)
            fcntl.flock(file, fcntl.LOCK_EX)
        except OSError:  # a file system without locks
            pass
        with suppress(OSError):  # a full disk: nobody will know who has it, but it is held
            file.truncate(0)
            file.write(f"process {os.getpid()} on {socket.gethostname()}\n".encode())
        yield  # given back when the file closes, also by a crash


@contextmanager
def alone_in(folder: Path) -> Iterator[None]:
    """Be the only process that works in a run folder, which must exist; a second one is refused."""
    with ExitStack() as stack:
        try:
            stack.enter_context(held(folder / LOCK))
        except Taken as who:
            raise UserError(
                f"{folder} is in use by {who}: wait until it ends, or stop it by a SIGTERM, after which it "
                "can be gone on with, or choose another --out"
            ) from None
        except OSError as error:
            raise UserError(f"cannot write to {folder}: {error.strerror}; choose another --out") from None
        yield
