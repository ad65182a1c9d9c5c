"""Refuse remote commands that are late or repeated (A8).

A command may name itself (`Choroid-Command-Id`) and the state on which it was decided (`Choroid-Seen`, the `utc` of
that state). A command whose id was received before is refused, so that a retry by a proxy or a client repeats nothing.
A command that was decided on a state older than :data:`MAX_AGE_S` is refused: the rig may have changed. Each refusal is
a journal row. The page sends both headers, `choroid` on the command line only the id. An emergency stop is never
refused.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from datetime import datetime

from fastapi.responses import JSONResponse
from starlette.datastructures import Headers
from starlette.requests import HTTPConnection
from starlette.types import ASGIApp, Receive, Scope, Send

from controller.journal.terms import JournalError
from controller.process.controller import Controller
from dashboards.access import SAFE_METHODS, ApiProblem, identify

COMMAND_ID = "choroid-command-id"
SEEN = "choroid-seen"
MAX_AGE_S = 30.0
"""Maximum age of the state that a command was decided on (s of real time)."""
MAX_AHEAD_S = 5.0
"""Maximum time of a state after now (s of real time); a later one was never shown by this controller."""
REMEMBERED = 1024
"""Number of commands whose ids are kept."""
ALWAYS = frozenset({"/api/estop"})
_NAME = re.compile(r"[A-Za-z0-9._-]{8,64}")


class Freshness:
    """ASGI middleware."""

    def __init__(self, app: ASGIApp, controller: Controller) -> None:
        self._app = app
        self._controller = controller
        self._names: OrderedDict[str, None] = OrderedDict()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on a command once and in time; answer others with the reason."""
        commands = scope["type"] == "http" and scope["method"] not in SAFE_METHODS and scope["path"] not in ALWAYS
        if (
            commands and identify(HTTPConnection(scope)) is not None
        ):  # an unknown caller uses up no ids and writes no rows
            headers = Headers(scope=scope)
            speed = scope["app"].state.speed
            problem = self._stale(headers, 1.0 if speed is None else max(1.0, speed.speed)) or self._repeated(headers)
            if problem is not None:
                self._record(scope["path"], problem)
                await JSONResponse(problem.body(), status_code=problem.status)(scope, receive, send)
                return
        await self._app(scope, receive, send)

    def _stale(self, headers: Headers, speed: float) -> ApiProblem | None:
        seen = headers.get(SEEN)
        if seen is None:
            return None
        try:
            age_s = (self._controller.clock.utc() - datetime.fromisoformat(seen)).total_seconds() / speed
        except (ValueError, TypeError):
            return _malformed(SEEN, "write the state's `utc` as the API gave it")
        if -MAX_AHEAD_S <= age_s <= MAX_AGE_S:
            return None
        return ApiProblem(
            409,
            f"the command was decided on a state that is {age_s:.0f} s old",
            where=f"the header {SEEN}",
            cause="the page lost its connection, or the command waited on its way",
            action="look at the present state, then command again",
        )

    def _repeated(self, headers: Headers) -> ApiProblem | None:
        name = headers.get(COMMAND_ID)
        if name is None:
            return None
        if _NAME.fullmatch(name) is None:
            return _malformed(
                COMMAND_ID, "use 8 to 64 letters, digits, dots, dashes or underscores, a new one each time"
            )
        if name in self._names:
            return ApiProblem(
                409,
                "this command was received before, and is not carried out twice",
                where=f"the header {COMMAND_ID}",
                cause="a proxy or a client sent it again",
                action="look at the present state; if the first one had no effect, command again under a new name",
            )
        self._names[name] = None
        while len(self._names) > REMEMBERED:
            self._names.popitem(last=False)
        return None

    def _record(self, path: str, problem: ApiProblem) -> None:
        """Log the refusal; it stands even if the journal cannot be written."""
        try:
            self._controller.journal.append("command.refused", {"path": path[:100], "reason": problem.what})
        except JournalError:
            return


def _malformed(header: str, action: str) -> ApiProblem:
    return ApiProblem(
        422, f"the header {header} cannot be read", where=header, cause="a slip in the client", action=action
    )
