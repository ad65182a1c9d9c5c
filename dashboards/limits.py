"""The limits on requests: refuses those without a credential above a rate, and slows sign-ins that fail.

A pure ASGI layer inside the one that reads the headers of trusted proxies, so that it counts the client's address. A request
with a valid credential always passes: guessing 256 bits is hopeless at any rate, and a stop must not wait for what another
program at the same address does.
"""

from __future__ import annotations

import asyncio

from fastapi import FastAPI
from starlette.requests import HTTPConnection
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from dashboards.access import CONNECTION, bearer, client_source, identify, signs_in
from dashboards.admission import Admission, AdmittedConnection
from dashboards.sign_ins import FailedSignIns

TOO_MANY = "too many requests without a credential; try again in a second, or send one"
TOO_MANY_FAILURES = "too many sign-ins failed from this address; try again in a minute"
HELD_S = 3.0
"""Real seconds for which a sign-in above the limit is held before it is refused."""


class RequestLimits:
    """ASGI layer around `app`. `time_scale`: loop seconds per real second."""

    def __init__(self, app: FastAPI, admission: Admission, time_scale: float) -> None:
        self._app: ASGIApp = app
        self._page = app
        self._admission = admission
        self._scale = time_scale

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on a request, or refuse it."""
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        admitted: AdmittedConnection = scope["state"][CONNECTION]
        connection = HTTPConnection({**scope, "app": self._page})
        user = identify(connection)
        self._admission.active(admitted)
        counted, admitted.counted = admitted.counted, False
        if user is not None:
            self._admission.identified(admitted, user.name, user.role)
        elif not signs_in(connection):
            source = client_source(connection)
            if bearer(connection) and not self._admission.may_fail(source):
                failures: FailedSignIns = self._page.state.failures
                failures.add(source)
                await asyncio.sleep(HELD_S * self._scale)
                await _refuse(scope, receive, send, TOO_MANY_FAILURES, 60)
                return
            if not counted and not self._admission.may_request(source):
                await _refuse(scope, receive, send, TOO_MANY, 1)
                return
        await self._app(scope, receive, send)


async def _refuse(scope: Scope, receive: Receive, send: Send, why: str, retry_s: int) -> None:
    if scope["type"] == "websocket":
        await send({"type": "websocket.close", "code": 1013, "reason": why})
        return
    headers = {"Connection": "close", "Retry-After": str(retry_s)}
    await PlainTextResponse(why, 429, headers)(scope, receive, send)
