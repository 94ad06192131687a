"""Server-sent events: the page hears of every change, a few times a second at most."""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, Protocol

PAUSE = 0.25  # seconds between two events
HEARTBEAT = 15.0  # seconds after which silence is broken


class Source(Protocol):
    """Something whose state changes."""

    @property
    def changed(self) -> int: ...

    @property
    def closing(self) -> bool: ...

    def state(self) -> dict[str, Any]: ...


async def stream(source: Source, is_gone: Callable[[], Awaitable[bool]]) -> AsyncIterator[str]:
    """An event `state` at first and after each change, and a comment where nothing happens for long."""
    known, spoken = None, 0.0
    while not source.closing and not await is_gone():
        if source.changed != known:
            known, spoken = source.changed, time.monotonic()
            yield f"event: state\ndata: {json.dumps(source.state())}\n\n"
        elif time.monotonic() - spoken >= HEARTBEAT:
            spoken = time.monotonic()
            yield ": still here\n\n"
        await asyncio.sleep(PAUSE)
