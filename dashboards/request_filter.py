"""The request filter: refuses requests that are not addressed to this page, come from another one, or are too large.

A pure ASGI layer before everything else, WebSockets included. Host and Origin are checked against DNS rebinding and
cross-site requests; a body is counted as it comes, whatever its headers claim, and has to come in time.
"""

from __future__ import annotations

import asyncio
import re
from dataclasses import dataclass
from urllib.parse import urlsplit

from fastapi.responses import JSONResponse
from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import HTTPConnection
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from starlette.websockets import WebSocket

from dashboards.access import ApiProblem, identify
from dashboards.auth import Role
from protocols.answers import MAX_FILE_BYTES

LOOPBACK_HOSTS = frozenset({"127.0.0.1", "localhost", "::1"})
MAX_BODY_BYTES = 64_000
BODY_TIME_S = 10.0
"""Maximum real seconds for a body to arrive."""
UPLOAD = re.compile(r"/api/runs/[^/]+/upload")
"""Paths whose body may be as large as a file; only for a user who may send it, and one at a time."""
UPLOAD_TIME_S = 120.0

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self';"
    " manifest-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}


@dataclass(frozen=True, slots=True)
class BodyLimits:
    """Maximum size of a body, and maximum real time (s) for it to arrive."""

    bytes: int
    seconds: float


LIMITS = BodyLimits(MAX_BODY_BYTES, BODY_TIME_S)
UPLOAD_LIMITS = BodyLimits(MAX_FILE_BYTES, UPLOAD_TIME_S)


class RequestFilter:
    """ASGI middleware. `hosts` are the names this page answers to; `pace` gives loop seconds per real second."""

    def __init__(self, app: ASGIApp, hosts: frozenset[str]) -> None:
        self._app = app
        self._hosts = hosts
        self._uploading = asyncio.Lock()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on a request, or answer with the reason for the refusal."""
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        problem = self._foreign(scope["scheme"], headers)
        if problem is not None and scope["type"] == "websocket":
            await turn_away(WebSocket(scope, receive, send), problem)
            return
        if scope["type"] == "websocket":
            await self._app(scope, receive, send)
            return
        sender = _with_headers(send)
        if problem is None and _is_upload(scope):
            if self._uploading.locked():
                problem = _busy()
            else:
                async with self._uploading:
                    await self._bounded(scope, receive, sender, headers, None, UPLOAD_LIMITS)
                return
        await self._bounded(scope, receive, sender, headers, problem, LIMITS)

    async def _bounded(
        self,
        scope: Scope,
        receive: Receive,
        sender: Send,
        headers: Headers,
        problem: ApiProblem | None,
        limits: BodyLimits,
    ) -> None:
        """Pass on a request whose body is complete, within the limits; answer with the reason for the refusal otherwise."""
        problem = problem or _oversized(headers, limits)
        if problem is not None:
            await JSONResponse(problem.body(), status_code=problem.status)(scope, receive, sender)
            return
        speed = getattr(scope["app"].state, "speed", None) if "app" in scope else None
        try:
            whole = await _whole_body(receive, limits, speed.speed if speed is not None else 1.0)
        except ApiProblem as slow:
            await JSONResponse(slow.body(), status_code=slow.status)(scope, receive, sender)
            return
        await self._app(scope, _replay(whole, receive), sender)

    def _foreign(self, scheme: str, headers: Headers) -> ApiProblem | None:
        """Return why a request was not meant for this host or does not come from this page; None if it is valid."""
        written = headers.get("host", "")
        try:
            host = urlsplit(f"//{written}").hostname or ""
        except ValueError:
            host = ""
        if host not in self._hosts:
            return ApiProblem(
                403,
                f"“{host[:100]}” is not a name of this page",
                where="the Host header",
                cause="another name leads to this address (DNS rebinding), or the page was opened by a name it does not know",
                action="open it by the address that `choroid` printed, or start it with --name and this name",
            )
        origin = headers.get("origin")
        if origin is not None and origin.lower() != f"{scheme.replace('ws', 'http')}://{written.lower()}":
            return ApiProblem(
                403,
                f"the request comes from another page, {origin[:100]}",
                where="the Origin header",
                cause="another web page sends requests in your name, or a proxy before this page is not named to it",
                action="use this page itself; name a proxy with --trusted-proxy; or send a bearer token without an Origin",
            )
        return None


async def turn_away(socket: WebSocket, problem: ApiProblem) -> None:
    """Send a WebSocket the reason for its refusal, then close it.

    Codes: 4401 without a known user, 4403 from the wrong origin.
    """
    await socket.accept()
    await socket.send_json(problem.body())
    await socket.close(code=4000 + problem.status, reason=problem.what[:100])


def _is_upload(scope: Scope) -> bool:
    """Return whether this is an upload by a user who may send one."""
    if scope["method"] != "POST" or not UPLOAD.fullmatch(scope["path"]):
        return False
    user = identify(HTTPConnection(scope))
    return user is not None and user.role >= Role.OPERATOR


def _busy() -> ApiProblem:
    return ApiProblem(
        503,
        "another upload is under way",
        where="the request's body",
        cause="two people upload at the same time",
        action="send it again in a minute",
    )


def _too_large(limits: BodyLimits) -> ApiProblem:
    return ApiProblem(
        413,
        "the request is too large",
        where="the request's body",
        cause=f"more than {limits.bytes // 1000} kB",
        action="send less; see GET /api/openapi.json for what is asked for",
    )


def _oversized(headers: Headers, limits: BodyLimits) -> ApiProblem | None:
    length = headers.get("content-length", "0")
    if not (length.isascii() and length.isdecimal() and len(length) < 12) or int(length) > limits.bytes:
        return _too_large(limits)
    return None


async def _whole_body(receive: Receive, limits: BodyLimits, speed: float) -> list[Message]:
    """Return the messages of the whole body; raise :class:`ApiProblem` when it is too large or too slow."""
    messages: list[Message] = []
    size = 0
    try:
        async with asyncio.timeout(limits.seconds * speed):
            while True:
                message = await receive()
                messages.append(message)
                size += len(message.get("body", b""))
                if size > limits.bytes:
                    raise _too_large(limits)
                if message["type"] != "http.request" or not message.get("more_body", False):
                    return messages
    except TimeoutError:
        raise ApiProblem(
            408,
            "the request did not arrive in time",
            where="the request's body",
            cause=f"it took more than {limits.seconds:g} s",
            action="send it in one piece",
        ) from None


def _replay(messages: list[Message], receive: Receive) -> Receive:
    """Return a `receive` that first gives the messages read already."""
    waiting = iter(messages)

    async def again() -> Message:
        for message in waiting:
            return message
        return await receive()

    return again


def _with_headers(send: Send) -> Send:
    async def sender(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in HEADERS.items():
                headers[name] = value
            headers.setdefault("Cache-Control", "no-store")
        await send(message)

    return sender
