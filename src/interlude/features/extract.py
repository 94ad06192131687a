"""A frozen network over all images in all wanted views, once: what is missing goes into the cache."""

import copy
import os
import shutil
import time
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import cache
from math import inf
from pathlib import Path
from queue import SimpleQueue

import torch
from torch import Tensor, nn

from interlude import checkpoint
from interlude.augment import Backend, render
from interlude.data import Images
from interlude.errors import UserError
from interlude.features.cache import HASH_BYTES, Cache, Vectors
from interlude.features.folded import folded
from interlude.features.stages import InTime, Job, Part, Stage
from interlude.features.views import View
from interlude.models import Frozen
from interlude.progress import Progress, note
from interlude.signals import Stopped, StopRequest

BATCH = 32  # images at once on a core: more leave its cache
SECONDS_BETWEEN_WRITES = 2.0
PILOT_SECONDS = 4.0

Wanted = tuple[Images, Sequence[View]]


class Extract(nn.Module):
    """The part of a frozen network that is run here."""

    def __init__(self, network: Frozen) -> None:
        super().__init__()
        self.network = network

    def forward(self, images: Tensor) -> Tensor:
        return self.network.extract(images)


class Extractor:
    """Runs a frozen network on images in all their views, and knows where the vectors are."""

    def __init__(
        self,
        network: Frozen,
        root: Path,
        *,
        name: str,
        shape: tuple[int, int, int],
        mean: Sequence[float],
        std: Sequence[float],
        device: torch.device,
        backend: Backend = "auto",
        quiet: bool = True,
    ) -> None:
        self.network, self.mean, self.std = network, mean, std
        self.device, self.backend, self.quiet = device, backend, quiet
        self.shape = shape
        self.seconds = 0.0  # spent on extraction
        self.num_found = self.num_extracted = 0
        about = self._about(name)
        key = checkpoint.digest(about)
        self.cache = Cache(root / f"{_slug(name)}-{key}", about=about, width=network.num_inputs)
        self._hashes: dict[Images, list[bytes]] = {}

    def hashes(self, images: Images) -> list[bytes]:
        """The fingerprint of each image, worked out once for a set."""
        if images not in self._hashes:
            self._hashes[images] = images.image_hashes()
        return self._hashes[images]

    def extract(self, wanted: Iterable[Wanted]) -> None:
        """See to it that the cache has the vectors of all these images in all these views."""
        parts: dict[str, list[Part]] = {}  # view after view
        for images, views in wanted:
            for view in views:
                parts.setdefault(view.name, []).append(Part(view, images))
        self.extract_stages([Stage([part for same in parts.values() for part in same], needed=True)])

    def extract_stages(self, stages: Sequence[Stage], left: Callable[[], float] = lambda: inf) -> int:
        """Have the vectors of these stages in turn, while seconds are `left`; how many of them are whole."""
        jobs, reached = list(self._jobs(stages)), len(stages)
        if jobs:
            with self.cache.locked(self._tell):
                jobs = list(self._jobs(stages))  # another process may have done them in the meantime
                self._check_room(jobs)
                reached = self._run(jobs, InTime(stages, jobs, left))
        wanted = sum(_size(part) for stage in stages for part in stage.parts)
        self.num_found += wanted - _count(jobs)
        return reached

    def pace(self, images: Images, view: View, *, seconds: float = PILOT_SECONDS) -> float:
        """Images per second, tried once on this machine; the next run that asks shall plan alike."""
        known = self.cache.folder / f"pace-{torch.get_num_threads()}-{self.device.type}.txt"
        with suppress(OSError, ValueError):  # not there, or cut short by an accident
            return float(known.read_text(encoding="utf-8"))
        found = round(self._try(images, view, seconds), 1)
        fresh = known.with_suffix(f".{os.getpid()}")
        fresh.write_text(f"{found}\n", encoding="utf-8")
        fresh.replace(known)
        return found

    def _try(self, images: Images, view: View, seconds: float) -> float:
        """Images per second, tried for so long; on a CPU as if no other process were in the way."""
        clock = time.process_time if self.device.type == "cpu" else time.monotonic
        rows = torch.arange(len(images)).repeat(-(-BATCH // len(images)))[:BATCH]
        job = Job(view, images, rows, [])
        with self._workers() as (compute, workers):
            list(_in_turn(compute, [job] * workers, workers))  # what happens once only does not count
            began, spent, count = time.monotonic(), clock(), 0
            for _ in _in_turn(compute, _while(job, lambda: _since(began) < seconds), workers):
                count += BATCH
            return count * workers / (clock() - spent)

    def _about(self, name: str) -> dict[str, object]:
        """All on which a vector depends, but for the image and its view."""
        return {
            "network": name,
            "layer": self.network.layer,
            "weights": checkpoint.digest(self.network.body.state_dict()),
            "image": list(self.shape),
            "input_size": self.network.input_size,
            "mean": [float(value) for value in self.mean],
            "std": [float(value) for value in self.std],
        }

    def _jobs(self, stages: Iterable[Stage]) -> Iterator[Job]:
        """The batches of what is missing, in order; an image that is in two sets comes once."""
        coming: defaultdict[str, set[bytes]] = defaultdict(set)

        @cache
        def known(view: str, images: Images) -> list[bool]:
            found: list[bool] = (self.cache.find(view, self.hashes(images)) >= 0).tolist()
            return found

        for number, stage in enumerate(stages):
            for view, images, some in stage.parts:
                hashes, seen, there = self.hashes(images), coming[view.name], known(view.name, images)
                rows = []
                for row in range(len(images)) if some is None else some.tolist():
                    if not there[row] and hashes[row] not in seen:
                        seen.add(hashes[row])
                        rows.append(row)
                for part in torch.tensor(rows, dtype=torch.int64).split(BATCH) if rows else ():
                    yield Job(view, images, part, [hashes[row] for row in part.tolist()], number)

    def _run(self, jobs: Sequence[Job], in_time: InTime) -> int:
        """Do the jobs that there is time for and write down their vectors; the number of whole stages.

        What is done when a signal comes is kept.
        """
        total, began = _count(jobs), time.monotonic()
        progress = Progress("extracting vectors", total, unit="vector", quiet=self.quiet)
        written = began
        kept: list[tuple[Job, Vectors]] = []
        try:
            with StopRequest() as stop, progress, self._workers() as (compute, workers):
                wanted = _while_any(in_time(jobs), lambda: stop.signal is None)
                for job, vectors in _in_turn(compute, wanted, workers):
                    if kept and (kept[0][0].view is not job.view or _since(written) > SECONDS_BETWEEN_WRITES):
                        self._write(kept)
                        written = time.monotonic()
                    kept.append((job, vectors))
                    in_time.done += len(vectors)
                    progress.show(in_time.done, {"images/s": in_time.done / _since(began)})
                self._write(kept)
        finally:
            self.seconds += _since(began)
            self.num_extracted += in_time.done
        if stop.signal is not None and in_time.done < total:
            words = f"stopped; {in_time.done:,} of {total:,} vectors are extracted and kept"
            raise Stopped(words, stop.signal)
        return in_time.reached

    def _write(self, kept: list[tuple[Job, Vectors]]) -> None:
        """Put results of one view into the cache."""
        if kept:
            vectors = torch.cat([torch.from_numpy(rows) for _, rows in kept]).numpy()
            hashes = [digest for job, _ in kept for digest in job.hashes]
            self.cache.append(kept[0][0].view.name, hashes, vectors)
            kept.clear()

    @contextmanager
    def _workers(self) -> Iterator[tuple[Callable[[Job], "Future[tuple[Job, Vectors]]"], int]]:
        """What sends a job to a free worker, and how many workers: on a CPU one for each thread.

        Threads with a batch each are faster than one batch on all threads, which wait for each other.
        """
        threads = torch.get_num_threads()
        workers = threads if self.device.type == "cpu" else 1
        example = torch.zeros(2, *self.shape, device=self.device)
        fast = folded(Extract(self.network), example.contiguous(memory_format=torch.channels_last))
        networks: SimpleQueue[nn.Module] = SimpleQueue()
        for _ in range(workers):
            networks.put(_twin(fast))  # some networks keep notes during a pass
        torch.set_num_threads(1 if self.device.type == "cpu" else threads)
        try:
            with ThreadPoolExecutor(workers, "extraction") as pool:
                yield lambda job: pool.submit(self._compute, job, networks), workers
        finally:
            torch.set_num_threads(threads)

    @torch.inference_mode()
    def _compute(self, job: Job, networks: "SimpleQueue[nn.Module]") -> tuple[Job, Vectors]:
        pixels = job.images.take(job.rows).to(self.device)
        draw = job.view.draw_for(len(pixels))
        network = networks.get()
        try:
            views = render(pixels, job.view.augmentation, draw, self.mean, self.std, backend=self.backend)
            vectors = network(views).half()
        finally:
            networks.put(network)
        if not vectors.isfinite().all():
            raise UserError("the frozen network gives numbers too large for float16; choose another network")
        return job, vectors.cpu().numpy()

    def _check_room(self, jobs: Sequence[Job]) -> None:
        """Better no start than a full disk."""
        needed = _count(jobs) * (2 * self.network.num_inputs + HASH_BYTES)
        free = shutil.disk_usage(self.cache.folder).free
        if needed > free:
            raise UserError(
                f"{needed / 1e9:.1f} GB of vectors are to be kept in {self.cache.folder}, where "
                f"{free / 1e9:.1f} GB are free: make room, set fewer draws, or choose another folder by "
                "features.cache"
            )

    def _tell(self, message: str) -> None:
        if not self.quiet:
            note(message)


def _in_turn(
    compute: Callable[[Job], "Future[tuple[Job, Vectors]]"], jobs: Iterable[Job], workers: int
) -> Iterator[tuple[Job, Vectors]]:
    """Results in the order of the jobs; as many are under way as keep all workers busy."""
    pending: deque[Future[tuple[Job, Vectors]]] = deque()
    for job in jobs:
        pending.append(compute(job))
        if len(pending) > 2 * workers:
            yield pending.popleft().result()
    while pending:
        yield pending.popleft().result()


def _while(job: Job, wanted: Callable[[], bool]) -> Iterator[Job]:
    while wanted():
        yield job


def _while_any(jobs: Iterable[Job], wanted: Callable[[], bool]) -> Iterator[Job]:
    for job in jobs:
        if not wanted():
            return
        yield job


def _twin(network: nn.Module) -> nn.Module:
    """A copy of the network with the same tensors in it."""
    tensors = [*network.parameters(), *network.buffers()]
    return copy.deepcopy(network, {id(tensor): tensor for tensor in tensors})


def _count(jobs: Sequence[Job]) -> int:
    return sum(len(job.hashes) for job in jobs)


def _size(part: Part) -> int:
    return len(part.images if part.rows is None else part.rows)


def _since(moment: float) -> float:
    return time.monotonic() - moment


def _slug(name: str) -> str:
    return "".join(letter if letter.isalnum() or letter in "._" else "-" for letter in name)
