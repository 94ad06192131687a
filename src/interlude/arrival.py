"""Compiled code that nobody waits for unasked: sent for once it is worth it, used when it is there."""

import importlib
from concurrent.futures import Future, ThreadPoolExecutor
from types import ModuleType

from interlude.errors import UserError

MISSING = "the back end numba is not installed: pip install 'interlude-ssl[fast]', or choose auto"

Outcome = ModuleType | str  # the module, or why there is none


class Arrival:
    """A module that takes a compiler: its `compile` makes it ready, and says why not if it is of no use here.

    `worth` is how much must have been done without it before it is sent for, counted as its users like.
    """

    def __init__(self, module: str, *, worth: int) -> None:
        self.module, self.worth = module, worth
        self.done = 0
        self._outcome: Future[Outcome] | None = None
        self._here: ModuleType | None = None

    def after(self, amount: int) -> ModuleType | None:
        """The module if it is there, when so much more is to be done; sends for it when it is time."""
        if self._here is None:
            self.done += amount
            if self.done > self.worth and self.send_for().done():
                self._unpack()
        return self._here

    def wait(self) -> ModuleType:
        """The module, for those who insist on it; the first call may wait for a compiler."""
        if self._here is None:
            problem = self._unpack()
            if self._here is None:
                raise UserError(problem)
        return self._here

    def send_for(self) -> "Future[Outcome]":
        """The loading of the module, in a thread that the interpreter waits for when it ends."""
        if self._outcome is None:
            pool = ThreadPoolExecutor(1, thread_name_prefix="compiler")
            self._outcome = pool.submit(load, self.module)
            pool.shutdown(wait=False)
        return self._outcome

    def _unpack(self) -> str:
        """Take what has been sent for when it comes; if it is of no use, say why."""
        outcome = self.send_for().result()
        if isinstance(outcome, str):
            return outcome
        self._here = outcome
        return ""


def load(name: str) -> Outcome:
    """The module, compiled, or why it is of no use here."""
    try:
        module = importlib.import_module(name)
    except ImportError:  # not installed, or not with this version of numpy
        return MISSING
    try:
        problem: str | None = module.compile()
    except Exception as error:  # a compiler that was never tried: nobody's run should end with it
        return f"numba cannot compile the loops here ({_in_short(error)}); choose auto or torch"
    return problem or module


def _in_short(error: Exception) -> str:
    first = str(error).strip().partition("\n")[0]
    return f"{type(error).__name__}: {first}"
