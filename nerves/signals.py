"""Wake coroutines from the real-time thread."""

from __future__ import annotations

import asyncio


class WakeSignal:
    """Wakes waiting coroutines from the real-time thread, which never waits itself."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._waiting: list[asyncio.Future[None]] = []

    def ticket(self) -> asyncio.Future[None]:
        """Completed at the next rise after now: take it, look for data, and only then wait for it."""
        future: asyncio.Future[None] = self._loop.create_future()
        self._waiting.append(future)
        return future

    def rise(self) -> None:
        """There is something new. From any thread."""
        if self._waiting:
            self._loop.call_soon_threadsafe(self._wake)

    def _wake(self) -> None:
        waiting, self._waiting = self._waiting, []
        for future in waiting:
            if not future.done():
                future.set_result(None)
