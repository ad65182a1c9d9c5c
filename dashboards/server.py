"""Run the web server on the controller's event loop.

In the demo the time of that loop is faster than real time, so every timeout of the server is given in loop seconds:
`time_scale` loop seconds per real second. The command handles signals, the server does not.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import socket
from collections.abc import Callable, Iterator
from typing import Any

import uvicorn
from fastapi import FastAPI
from starlette.requests import HTTPConnection
from starlette.responses import PlainTextResponse
from starlette.types import Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

from dashboards.accept_queue import AcceptQueue
from dashboards.access import identify
from dashboards.admission import Admission, AdmittedConnection
from dashboards.auth import User
from dashboards.port_holder import port_holder

TOO_MANY = "too many requests without a credential; try again in a second, or send one"
KEEP_ALIVE_S = 30.0
GRACE_S = 0.5
MAX_MESSAGE_BYTES = 16_384


async def serve(
    app: FastAPI, host: str, port: int, *, time_scale: float = 1.0, opened: Callable[[int], object] | None = None
) -> None:
    """Serve `app` until cancelled; then close everything within a second of real time.

    `time_scale`: maximum speed of the loop's time against real time. `opened` is called with the port as soon as it is
    open. Raises OSError when the port is taken, with the port, its holder and what to do.
    """
    listening = listen(host, port)
    admission = Admission(time_scale=time_scale)
    http, websocket = _admitted(app, admission)
    config = uvicorn.Config(
        app,
        log_level="error",  # each malformed request is a warning, and unknown clients can send any number
        access_log=False,
        lifespan="off",
        http=http,
        ws=websocket,
        ws_max_size=MAX_MESSAGE_BYTES,
        ws_ping_interval=None,  # pings in scaled time would disconnect working pages; the feed is its own heartbeat
        ws_per_message_deflate=True,
        timeout_keep_alive=int(KEEP_ALIVE_S * time_scale),
        timeout_graceful_shutdown=max(1, int(GRACE_S * time_scale)),
        server_header=False,
        date_header=False,
    )
    server = _Server(config, app, admission, time_scale)
    running = asyncio.ensure_future(server.serve(sockets=[listening]))
    try:
        if opened is not None:
            opened(listening.getsockname()[1])
        await asyncio.shield(running)
    except BaseException:
        app.state.feed.close()
        server.end()
        await asyncio.gather(running, return_exceptions=True)
        raise
    finally:
        server.end_accepting()
        admission.close()
        listening.close()


def listen(host: str, port: int, *, option: str = "--port") -> socket.socket:
    """Return a socket bound to `port` of `host`. Raises OSError with the command's `option` when it is taken."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((host, port))
        listening.setblocking(False)
    except OSError as error:
        listening.close()
        holder = port_holder(port) or "another program"
        raise OSError(
            error.errno,
            f"nothing can be served on {host}:{port} ({error.strerror}). Likely cause: {holder} has that port."
            f" Next: choose another with {option}, or end that program",
        ) from None
    return listening


class _Server(uvicorn.Server):
    """Leave signals to the command, and wait for the end instead of polling ten times a second."""

    def __init__(self, config: uvicorn.Config, app: FastAPI, admission: Admission, time_scale: float) -> None:
        super().__init__(config)
        self._ending = asyncio.Event()
        self._app = app
        self._admission = admission
        self._time_scale = time_scale
        self._entering: set[asyncio.Task[object]] = set()
        self.servers = []

    def end(self) -> None:
        """Close now."""
        self.should_exit = True
        self._ending.set()

    def end_accepting(self) -> None:
        """Accept no more connections, also after a failure, when the server closes nothing itself."""
        for queue in self.servers:
            queue.close()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Accept connections through an :class:`AcceptQueue`."""
        await self.lifespan.startup()
        queues = [
            AcceptQueue(each, self._admission, self._known, self._enter, time_scale=self._time_scale)
            for each in sockets or []
        ]
        self.servers = queues  # type: ignore[assignment]  # it only closes them and waits for that
        self.started = True

    def _known(self, head: bytes, admitted: AdmittedConnection) -> bool:
        user = _caller(self._app, head)
        if user is not None:
            self._admission.identified(admitted, user.name, user.role)
        return user is not None

    def _enter(self, connection: socket.socket, head: bytes, admitted: AdmittedConnection) -> None:
        """Give a connection that has sent the head of a request to HTTP."""
        protocol = self.config.http_protocol_class(  # type: ignore[call-arg]
            config=self.config,
            server_state=self.server_state,
            app_state=self.lifespan.state,
            admitted=admitted,
            head=head,
        )
        task = asyncio.ensure_future(asyncio.get_running_loop().connect_accepted_socket(lambda: protocol, connection))
        self._entering.add(task)
        task.add_done_callback(lambda done: self._entered(done, admitted))

    def _entered(self, task: asyncio.Task[object], admitted: AdmittedConnection) -> None:
        self._entering.discard(task)
        if task.cancelled() or task.exception() is not None:  # the far end is gone already
            self._admission.remove(admitted)
            admitted.close()

    async def main_loop(self) -> None:
        """Wait for :meth:`end`."""
        await self._ending.wait()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Install no signal handlers."""
        yield


def _caller(app: FastAPI, head: bytes) -> User | None:
    """Return the user of the head of a request, by credential; HTTP itself checks again later."""
    lines = (line.partition(b":") for line in head.split(b"\n")[1:])
    headers = [(name.strip().lower(), value.strip()) for name, _, value in lines]
    scope = {"type": "http", "scheme": "http", "path": "/", "query_string": b"", "headers": headers, "app": app}
    try:
        return identify(HTTPConnection(scope))
    except (ValueError, KeyError):  # a Host that is none
        return None


def _admitted(app: FastAPI, admission: Admission) -> tuple[type[H11Protocol], type[WebSocketsSansIOProtocol]]:
    """Return uvicorn's HTTP and WebSocket, extended to report requests and users to `admission`."""

    class Http(H11Protocol):
        def __init__(self, *, admitted: AdmittedConnection, head: bytes, **options: Any) -> None:
            super().__init__(**options)
            self.admitted = admitted
            self.head = head

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            super().connection_made(transport)
            self.admitted.close = transport.abort  # at once: a far end that takes nothing would keep the descriptor
            self.ws_protocol_class = functools.partial(WebSocket, admitted=self.admitted)  # type: ignore[assignment]
            self._inner, self.app = self.app, self._limited
            self._asked = False
            self.data_received(self.head)
            self.head = b""

        def connection_lost(self, exc: Exception | None) -> None:
            admission.remove(self.admitted)
            super().connection_lost(exc)

        async def _limited(self, scope: Scope, receive: Receive, send: Send) -> None:
            """Serve a request, or refuse it at the rate limit for unknown callers; the accept queue counted the first one."""
            user = identify(HTTPConnection({**scope, "app": app}))
            admission.active(self.admitted)
            if user is not None:
                admission.identified(self.admitted, user.name, user.role)
            elif self._asked and not admission.may_request(self.admitted.holder):
                await PlainTextResponse(TOO_MANY, 429, {"Connection": "close", "Retry-After": "1"})(
                    scope, receive, send
                )
                return
            self._asked = True
            await self._inner(scope, receive, send)

    class WebSocket(WebSocketsSansIOProtocol):
        def __init__(self, *, admitted: AdmittedConnection, **options: Any) -> None:
            super().__init__(**options)
            self._admitted = admitted

        def connection_lost(self, exc: Exception | None) -> None:
            admission.remove(self._admitted)
            super().connection_lost(exc)

        async def run_asgi(self) -> None:
            if not self.transport.is_closing():  # closed between upgrade and answer: there is no client to answer
                await super().run_asgi()

    return Http, WebSocket
