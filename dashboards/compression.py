"""Compress the API's longer answers for clients that take gzip.

Only whole JSON answers to GET are compressed: none of them contains a secret, which the length of a compressed answer could
give away next to text of an attacker. What is streamed, and what is compressed already, passes as it is. The work is done on
the controller's loop, so the fastest level is used, and an answer that would take more than a millisecond stays as it is.
"""

from __future__ import annotations

import zlib

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

MIN_BYTES, MAX_BYTES = 1_000, 100_000
LEVEL = 1
GZIP = 16 + zlib.MAX_WBITS


class Compressed:
    """ASGI middleware."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on the request, and compress its answer if it may be."""
        reads = scope["type"] == "http" and scope["method"] == "GET" and scope["path"].startswith("/api/")
        if not reads or "gzip" not in Headers(scope=scope).get("accept-encoding", ""):
            await self._app(scope, receive, send)
            return
        start: Message | None = None

        async def packed(message: Message) -> None:
            nonlocal start
            if message["type"] == "http.response.start":
                start = message  # its length is known with the body
                return
            if start is not None:
                begun, start = start, None
                body = message.get("body", b"")
                if _may_be_packed(begun, message, len(body)):
                    engine = zlib.compressobj(LEVEL, zlib.DEFLATED, GZIP)
                    message = {**message, "body": engine.compress(body) + engine.flush()}
                    headers = MutableHeaders(scope=begun)
                    headers["Content-Encoding"] = "gzip"
                    headers["Content-Length"] = str(len(message["body"]))
                    headers.add_vary_header("Accept-Encoding")
                await send(begun)
            await send(message)

        await self._app(scope, receive, packed)


def _may_be_packed(start: Message, body: Message, size: int) -> bool:
    headers = Headers(raw=start["headers"])
    whole = not body.get("more_body", False) and MIN_BYTES <= size <= MAX_BYTES
    return whole and headers.get("content-type") == "application/json" and "content-encoding" not in headers
