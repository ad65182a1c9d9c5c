"""Run the work of a command until it is stopped."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import Awaitable


def until_stopped(work: Awaitable[None]) -> None:
    """Run `work` until it ends, or SIGINT or SIGTERM comes."""

    async def main() -> None:
        task = asyncio.ensure_future(work)
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, task.cancel)
        with contextlib.suppress(asyncio.CancelledError):
            await task

    asyncio.run(main())
