"""How loops are compiled here; imports numba, and so only where it is wanted."""

from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar

import numba
import numpy as np
from numpy.typing import NDArray

Function = TypeVar("Function", bound=Callable[..., Any])
Array = NDArray[Any]
Number = Any  # of numba's types

at: Number = np.uint64  # casts an index: a signed one may count from the end, and is tested for it every time


def kernel(function: Function) -> Function:
    """Compile to run without the interpreter's lock, every rounding as written."""
    compiled: Function = numba.njit(function, nogil=True, error_model="numpy")
    return compiled


def fused(function: Function) -> Function:
    """Compile likewise, but a product and the sum after it are rounded once, as in torch's own loops."""
    compiled: Function = numba.njit(function, nogil=True, error_model="numpy", fastmath={"contract"})
    return compiled


def inlined(function: Function) -> Function:
    """Compile likewise as a part of each loop that calls it, which is then vectorised as a whole."""
    compiled: Function = numba.njit(function, nogil=True, error_model="numpy", inline="always")
    return compiled


def shared(function: Function) -> Function:
    """Compile so that the passes of each `prange` are shared out among threads."""
    compiled: Function = numba.njit(function, nogil=True, error_model="numpy", parallel=True)
    return compiled


def kept(compiled: Function) -> Function:
    """Keep the machine code for other processes: beside its file or, if need be, in the user's cache."""
    with suppress(RuntimeError):  # where neither can be written
        compiled.enable_caching()  # type: ignore[attr-defined]
    return compiled
