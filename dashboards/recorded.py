"""Hold back the answer to a command until the command is on record.

A client that was informed that a run is paused must find it paused after a crash. A pure ASGI layer: the answer to a
request that may have changed something is sent when the journal's rows are on the disk. An emergency stop waits for no
disk.
"""

from __future__ import annotations

import asyncio
import logging

from fastapi.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from controller.journal.terms import JournalUnwritten
from controller.process.controller import Controller
from dashboards.access import ApiProblem

logger = logging.getLogger(__name__)

READING = frozenset({"GET", "HEAD", "OPTIONS"})
UNWAITED = frozenset({"/api/estop", "/api/session"})
"""Answered without waiting for the disk: a stop, and a sign-in, after which a user may request one."""
WITHIN_S = 20.0


class Recorded:
    """ASGI middleware."""

    def __init__(self, app: ASGIApp, controller: Controller) -> None:
        self._app = app
        self._controller = controller

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on the request, and hold back its answer until its rows are durable."""
        if scope["type"] != "http" or scope["method"] in READING or scope["path"] in UNWAITED:
            await self._app(scope, receive, send)
            return
        unwritten: ApiProblem | None = None

        async def when_recorded(message: Message) -> None:
            nonlocal unwritten
            if message["type"] == "http.response.start" and message["status"] < 400:
                unwritten = await self._unwritten(scope["path"])
                if unwritten is not None:
                    await JSONResponse(unwritten.body(), status_code=unwritten.status)(scope, receive, send)
            if unwritten is None:
                await send(message)

        await self._app(scope, receive, when_recorded)

    async def _unwritten(self, path: str) -> ApiProblem | None:
        """Wait for the disk. Return why the rows are not on it, or None."""
        try:
            async with asyncio.timeout(WITHIN_S):
                await self._controller.journal.commit()
        except (JournalUnwritten, TimeoutError) as error:
            logger.warning("%s was carried out, and its rows are not on the disk: %s", path, error or "it is too slow")
            return ApiProblem(
                503,
                "it was carried out, but it is not on record yet and would be forgotten in a crash",
                where=path[:100],
                cause="the disk takes nothing or is slow, or the journal is lost",
                action="do what the alarm of the journal says; do not repeat the command, look at the page first",
            )
        return None
