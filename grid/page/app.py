"""The page's web application: the page, its state as JSON, and the log as static resources. It changes nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

from starlette.applications import Starlette
from starlette.datastructures import MutableHeaders
from starlette.middleware import Middleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, PlainTextResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from grid.errors import GridError
from grid.page.reading import HubReader

STATIC = Path(__file__).parent / "static"
LOOPBACK = ("127.0.0.1", "localhost", "::1", "[::1]")
READ_EVERY_S = 1.0
"""The database is read at most this often, whatever the number of readers."""
HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self';"
        " frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}


class HubPage:
    """Answers the requests of the page."""

    def __init__(self, reader: HubReader) -> None:
        self._reader = reader
        self._state = b""
        self._read_at = float("-inf")

    async def page(self, _: Request) -> Response:
        """Return the page."""
        return FileResponse(STATIC / "index.html")

    async def health(self, _: Request) -> Response:
        """Return whether the hub's database can be read."""
        return self._answer(lambda: JSONResponse({"ok": bool(self._present())}))

    async def state(self, _: Request) -> Response:
        """Return what the page shows."""
        return self._answer(lambda: Response(self._present(), media_type="application/json"))

    async def checkpoint(self, _: Request) -> Response:
        """Return the latest checkpoint of the log (C2SP tlog-checkpoint)."""
        return self._answer(lambda: PlainTextResponse(self._reader.checkpoint()))

    async def tile(self, request: Request) -> Response:
        """Return a tile of the log (C2SP tlog-tiles)."""
        return self._answer(lambda: _tile(self._reader.tile(f"tile/{request.path_params['path']}")))

    def _present(self) -> bytes:
        now = asyncio.get_running_loop().time()
        if now - self._read_at >= READ_EVERY_S:
            self._state = self._reader.read().model_dump_json().encode()
            self._read_at = now
        return self._state

    def _answer(self, answer: Callable[[], Response]) -> Response:
        try:
            return answer()
        except GridError as error:
            return _problem(str(error), 503)


def page_app(reader: HubReader, hosts: tuple[str, ...] = ()) -> ASGIApp:
    """Build the application.

    Args:
        reader: Reads the hub's database.
        hosts: Names and addresses by which the page may be opened, in addition to those of this machine's loopback. Another
            name in a request means that a web page elsewhere leads to this one (DNS rebinding).
    """
    page = HubPage(reader)
    app = Starlette(
        routes=[
            Route("/", page.page),
            Route("/health", page.health),
            Route("/api/state", page.state),
            Route("/log/checkpoint", page.checkpoint),
            Route("/log/tile/{path:path}", page.tile),
            Mount("/static", StaticFiles(directory=STATIC)),
        ],
        middleware=[
            Middleware(TrustedHostMiddleware, allowed_hosts=[*LOOPBACK, *hosts], www_redirect=False),
            Middleware(GZipMiddleware, minimum_size=1024),
        ],
    )
    return _WithHeaders(app)


class _WithHeaders:
    """ASGI middleware: the headers that every answer has."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def sender(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(HEADERS)
            await send(message)

        await self._app(scope, receive, sender)


def _tile(found: bytes | None) -> Response:
    if found is None:
        return _problem("the log has no such tile", 404)
    return Response(found, media_type="application/octet-stream")


def _problem(what: str, status: int) -> Response:
    return JSONResponse({"error": what}, status_code=status)
