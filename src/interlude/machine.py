"""How many cores of this machine are really free: allowed to this process, and not in use by others."""

import math
import os
import time
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import NamedTuple

SHORTEST = 0.1  # seconds; a count of clock ticks over less says little


class Reading(NamedTuple):
    """CPU time spent up to a moment, in seconds."""

    moment: float
    everyone: float  # by all processes, on the cores that this one may use
    own: float  # by this process


class Cores(NamedTuple):
    """How many cores to use, and why not all of them; no reason where it is all."""

    number: int
    why: str = ""


def threads(environ: Mapping[str, str] = os.environ) -> Cores:
    """How many threads to compute with: what OMP_NUM_THREADS says, otherwise one for each free core."""
    wanted = environ.get("OMP_NUM_THREADS", "").partition(",")[0].strip()
    if wanted.isdecimal() and int(wanted) > 0:
        return Cores(int(wanted), "" if int(wanted) == len(allowed()) else f"OMP_NUM_THREADS is {wanted}")
    return free()


def free() -> Cores:
    """The cores that are free now; others are watched from the import of the package on."""
    return left_of(len(allowed()), limit=quota(), others=used_by_others(FIRST, look()))


def left_of(cores: int, *, limit: float, others: float) -> Cores:
    """What is left of `cores` under a quota and beside what others use, in whole cores, at least one."""
    count = max(1, int(min(limit, cores - others) + 0.5))
    if count >= cores:
        return Cores(cores)
    if limit < cores - others:
        return Cores(count, f"this process has a quota of {limit:g} of {cores} cores")
    return Cores(count, f"other processes use {others:.1f} of {cores} cores")


def allowed() -> set[int]:
    """The cores that this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return os.sched_getaffinity(0)
    return set(range(os.cpu_count() or 1))


def quota(root: Path = Path("/")) -> float:
    """How many cores' worth of time the control groups of this process grant it; infinite without a limit."""
    limits = [math.inf]
    for line in _text(root / "proc/self/cgroup").splitlines():
        _, controllers, group = line.split(":", 2)
        if controllers and "cpu" not in controllers.split(","):
            continue
        top = root / "sys/fs/cgroup" / ("cpu" if controllers else "")
        folder = top / group.lstrip("/")
        limits += [_limit(parent) for parent in (folder, *folder.parents) if parent.is_relative_to(top)]
    return min(limits)


def _limit(group: Path) -> float:
    """The limit of one control group: in one file in version 2, in two files in version 1."""
    files = ["cpu.max"] if (group / "cpu.max").exists() else ["cpu.cfs_quota_us", "cpu.cfs_period_us"]
    words = " ".join(_text(group / name) for name in files).split()
    return int(words[0]) / int(words[1]) if words and words[0].isdecimal() else math.inf  # "max", "-1"


def look(stat: Path = Path("/proc/stat"), cores: Collection[int] | None = None) -> Reading | None:
    """What has been spent up to now on these cores, by default the allowed ones; None where none can tell."""
    cores = allowed() if cores is None else cores
    ticks = 0
    for line in _text(stat).splitlines():
        name, *columns = line.split()
        if name.removeprefix("cpu").isdecimal() and int(name.removeprefix("cpu")) in cores:
            user, nice, system, _idle, _waiting, *interrupts_and_stolen = map(int, columns[:8])
            ticks += user + nice + system + sum(interrupts_and_stolen)
    if not ticks:
        return None
    return Reading(time.monotonic(), ticks / os.sysconf("SC_CLK_TCK"), time.process_time())


def used_by_others(before: Reading | None, now: Reading | None) -> float:
    """How many cores the other processes kept busy between two readings; 0 where that is not known."""
    if before is None or now is None or now.moment - before.moment < SHORTEST:
        return 0.0
    spent = (now.everyone - before.everyone) - (now.own - before.own)
    return max(0.0, spent / (now.moment - before.moment))


def _text(path: Path) -> str:
    """The content of a small file; nothing where it cannot be read."""
    try:
        return path.read_text(encoding="utf-8")
    except OSError:
        return ""


FIRST = look()
