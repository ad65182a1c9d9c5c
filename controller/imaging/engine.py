"""Where images are taken: in a process of its own, or, under virtual time, at once."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from controller.children.patience import MachineBusy, Patience, patiently

REPLY_S = 60.0
"""Longest time for one image, in addition to its exposure; opening a camera takes seconds."""
BUSY_S = 600.0
"""Longest time in which the process gets no processor (s)."""
MAX_REPLY = 1_000_000
END_WITHIN_S = 2.0
Request = Mapping[str, Any]


class CaptureEngine(Protocol):
    """Takes images."""

    async def take(self, request: Request) -> dict[str, Any]:
        """Return the answer of :meth:`controller.imaging.take.Taker.take`."""

    async def close(self) -> None:
        """Release the cameras."""


class InlineEngine:
    """Takes images at once, in the caller's process: for virtual time, where nothing may depend on real time."""

    def __init__(self, take: Callable[[Request], dict[str, Any]]) -> None:
        self._take = take

    async def take(self, request: Request) -> dict[str, Any]:
        """Take an image."""
        return self._take(request)

    async def close(self) -> None:
        """Do nothing."""


class WorkerEngine:
    """Takes images in a process that is started when the first is due, and again after it has died or hung."""

    def __init__(
        self,
        command: Sequence[str],
        *,
        reply_s: float = REPLY_S,
        complete: Callable[[Request], Mapping[str, Any]] | None = None,
        pace: Callable[[], float] = lambda: 1.0,
    ) -> None:
        """Begin; nothing is started yet.

        Args:
            command: Starts the process.
            reply_s: Longest time for one image beyond its exposure (real s).
            complete: Returns what is added to each request.
            pace: Returns the seconds of the loop per real second: the process is no faster in a demo.
        """
        self._command = tuple(command)
        self._reply_s = reply_s
        self._complete = complete
        self._pace = pace
        self._process: asyncio.subprocess.Process | None = None
        self._turn = asyncio.Lock()

    async def take(self, request: Request) -> dict[str, Any]:
        """Take an image; one after the other."""
        whole = dict(request) if self._complete is None else {**request, **self._complete(request)}
        async with self._turn:
            try:
                process = await self._started()
                limit_s = self._reply_s + float(request["facts"]["exposure_s"])
                return await patiently(self._answer(process, whole), Patience(process.pid, limit_s, busy_s=BUSY_S))
            except MachineBusy as busy:
                await self._end(0.0)
                return {"error": str(busy)}
            except (TimeoutError, asyncio.CancelledError, OSError, ValueError) as error:
                await self._end(0.0)
                if isinstance(error, asyncio.CancelledError):
                    raise
                what = "does not answer" if isinstance(error, TimeoutError) else f"has ended ({error})"
                return {
                    "error": f"the process of the cameras {what}. Likely cause: the camera's library hangs or crashed."
                    " Next: check the camera; the process is started again for the next image"
                }

    async def close(self) -> None:
        """End the process: by request, and after 2 s by force."""
        async with self._turn:
            await self._end(END_WITHIN_S)

    async def _started(self) -> asyncio.subprocess.Process:
        if self._process is None or self._process.returncode is not None:
            pipe = asyncio.subprocess.PIPE
            self._process = await asyncio.create_subprocess_exec(
                *self._command, stdin=pipe, stdout=pipe, limit=MAX_REPLY
            )
        return self._process

    async def _answer(self, process: asyncio.subprocess.Process, request: Request) -> dict[str, Any]:
        if process.stdin is None or process.stdout is None:
            raise ValueError("no pipe")
        process.stdin.write(json.dumps(request).encode() + b"\n")
        await process.stdin.drain()
        line = await process.stdout.readline()
        if not line:
            raise ValueError("no answer")
        answer: dict[str, Any] = json.loads(line)
        return answer

    async def _end(self, within_s: float) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        if process.stdin is not None:
            process.stdin.close()
        try:
            async with asyncio.timeout(within_s):
                await process.wait()
        except TimeoutError:
            if process.returncode is None:
                process.kill()
            await process.wait()
