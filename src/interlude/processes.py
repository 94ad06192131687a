"""The processes that a launcher, such as torchrun, started for one run: how they meet, wait and end."""

import itertools
import os
import threading
import time
from collections.abc import Iterator, MutableMapping
from contextlib import contextmanager, suppress
from datetime import timedelta
from typing import NamedTuple, TypeVar

import torch
import torch.distributed as dist
from torch.distributed import PrefixStore, Store  # type: ignore[attr-defined]
from torch.distributed.rendezvous import rendezvous

from interlude import distributed
from interlude.errors import RunError, UserError

T = TypeVar("T")

FAILED, NOTICED = "failed", "noticed"  # keys: which process failed first, how many others know
OFTEN = 0.1  # seconds between two looks
SOON, LATE = 10.0, 60.0  # seconds to hear of a failure, and to end after having heard of it


class Place(NamedTuple):
    """Which of how many processes this one is."""

    rank: int
    world: int


def launched(environ: MutableMapping[str, str] = os.environ) -> Place:
    """What the launcher says in torchrun's variables or, if it was srun, in its own."""
    if "RANK" not in environ and int(environ.get("SLURM_STEP_NUM_TASKS", "1")) > 1:
        if "MASTER_ADDR" not in environ or "MASTER_PORT" not in environ:
            raise UserError(
                "srun started several processes, but they do not know where to meet: export MASTER_ADDR (the "
                "first node) and MASTER_PORT (any free port), or start a single task"
            )
        environ["RANK"], environ["WORLD_SIZE"] = environ["SLURM_PROCID"], environ["SLURM_STEP_NUM_TASKS"]
        environ.setdefault("LOCAL_RANK", environ.get("SLURM_LOCALID", "0"))
    return Place(int(environ.get("RANK", "0")), int(environ.get("WORLD_SIZE", "1")))


@contextmanager
def together(device: str) -> Iterator[None]:
    """Inside, the processes that were launched for this run are one group; a single one is left alone.

    An error in one of them ends all: that one raises it, and the others exit without a word.
    """
    place = launched()
    if place.world == 1 or dist.is_initialized():
        yield
        return
    watch = Watch(_meet(place, device), place)
    _watches.append(watch)
    try:
        yield
    except BaseException as error:
        watch.fail(error)
        raise
    finally:
        watch.over.set()
        _watches.remove(watch)
    dist.destroy_process_group()


def refuse_many(verb: str) -> None:
    """Say so where only one process makes sense."""
    if launched().world > 1:
        raise UserError(f"`interlude {verb}` is for one process; what many can share is `interlude train`")


def of_first(value: T) -> T:
    """What the first process calls this with, in all of them."""
    if distributed.num_processes() == 1:
        return value
    box = [value]
    dist.broadcast_object_list(box, device=torch.device("cpu"))
    return box[0]


@contextmanager
def first_before_others() -> Iterator[None]:
    """The first process goes through the block before the others, which then find what it has made.

    However long that takes: a collective would lose patience.
    """
    if distributed.num_processes() == 1:
        yield
        return
    if distributed.is_main():
        yield
    _wait_for_first()
    if not distributed.is_main():
        yield


def _wait_for_first() -> None:
    """Until the first process is here."""
    if not _watches:  # a group that the user made
        dist.barrier()
        return
    (watch,) = _watches
    key = f"place {next(_numbers)}"
    if distributed.is_main():
        watch.store.set(key, "reached")
    while not watch.store.check([key]):
        if watch.heard.is_set():
            raise SystemExit(1)
        time.sleep(OFTEN)


class Watch:
    """Sees to it that all processes hear of the failure of one."""

    def __init__(self, store: Store, place: Place) -> None:
        self.store, self.place = store, place
        self.over, self.heard = threading.Event(), threading.Event()
        threading.Thread(target=self._listen, daemon=True, name="failures").start()

    def fail(self, error: BaseException) -> None:
        """Tell the others, and see that they heard; exit at once if this is the echo of another's failure."""
        if isinstance(error, KeyboardInterrupt) and self.place.rank:
            self._notice()
            raise SystemExit(128 + getattr(error, "signal", 2)) from None  # the first one says why
        alone = isinstance(error, RuntimeError) and _is_of_a_collective(error)
        if alone:
            self.heard.wait(SOON)
        if self.heard.is_set() or not self._tell(wait=not alone):
            raise SystemExit(1) from None
        if alone:
            raise RunError(
                "another process of this run is gone, and left no message; its last checkpoint is safe: "
                "start all processes again, with --resume"
            ) from error

    def _tell(self, *, wait: bool) -> bool:
        """Leave word of a failure, and `wait` until the others have it; False if one of them was first."""
        try:
            rank = str(self.place.rank)
            if self.store.compare_set(FAILED, "", rank) != rank.encode():
                return False
            until = time.monotonic() + SOON * wait
            while self.store.add(NOTICED, 0) < self.place.world - 1 and time.monotonic() < until:
                time.sleep(OFTEN)
        except RuntimeError:  # the store is gone, and with it the process that kept it
            pass
        return True

    def _notice(self) -> None:
        """Let the one that failed know that this one need not be waited for."""
        with suppress(RuntimeError):
            self.store.add(NOTICED, 1)

    def _listen(self) -> None:
        """End this process if another one has failed, and this one does not notice by itself."""
        try:
            while not self.store.check([FAILED]):
                if self.over.wait(OFTEN * 3):
                    return
            if self.store.get(FAILED) == str(self.place.rank).encode():
                return
            self.heard.set()
        except RuntimeError:
            return
        self._notice()
        if not self.over.wait(LATE):
            os._exit(1)


def _meet(place: Place, device: str) -> Store:
    """Make the processes one group; the store in which they leave messages."""
    if not dist.is_available():
        raise UserError("this build of torch cannot join processes: start a single one")
    try:
        store, rank, world = next(rendezvous("env://"))
        store.set_timeout(timedelta(minutes=30))
        prefix = f"interlude {os.environ.get('TORCHELASTIC_RESTART_COUNT', 0)} {next(_numbers)}"
        store = PrefixStore(prefix, store)
        distributed.connect(device, store=store, rank=rank, world_size=world)
    except (RuntimeError, ValueError) as error:
        raise UserError(f"the {place.world} processes do not find each other: {error}") from error
    return store


def _is_of_a_collective(error: RuntimeError) -> bool:
    """Whether this is how it shows that another process is gone."""
    return isinstance(error, dist.DistError) or "gloo" in str(error).lower()


_watches: list[Watch] = []  # the one of the group that was made here
_numbers = itertools.count()  # for names that are new, and the same in all processes
