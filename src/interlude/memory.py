"""The heap of this process, kept from step to step instead of being given back and cleared anew each time."""

import ctypes
import sys

# parameters of glibc's `mallopt`, from <malloc.h>
TRIM_THRESHOLD, MMAP_MAX, ARENA_MAX = -1, -4, -8


def keep_heap() -> bool:
    """Tell glibc to keep freed memory until the process ends; whether there is a glibc that took it.

    A training step allocates the same large tensors again and again. By default each of them is a memory
    map of its own, and the kernel clears its pages at every step. The heap that a thread would have for
    itself is given back whenever it is empty; therefore threads share that of the process.
    """
    if sys.platform != "linux":
        return False
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)  # musl has none; other allocators ignore it
    wishes = {MMAP_MAX: 0, TRIM_THRESHOLD: -1, ARENA_MAX: 1}
    return mallopt is not None and all(mallopt(what, number) for what, number in wishes.items())
