"""Run the web server on the controller's event loop.

In the demo the time of that loop is faster than real time, so every timeout of the server is given in loop seconds:
`time_scale` loop seconds per real second. The command handles signals, the server does not.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import logging
import socket
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import uvicorn
from fastapi import FastAPI
from starlette.requests import HTTPConnection
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

from dashboards.accept_queue import AcceptQueue, Listener
from dashboards.access import CONNECTION, identify
from dashboards.admission import Admission, AdmittedConnection
from dashboards.auth import User
from dashboards.certificate import Certificate
from dashboards.limits import RequestLimits
from dashboards.local import SOCKET, listen_locally
from dashboards.outside import INSIDE, Outside
from dashboards.port_holder import port_holder

logger = logging.getLogger(__name__)

KEEP_ALIVE_S = 30.0
GRACE_S = 0.5
HANDSHAKE_S = 8.0
MAX_MESSAGE_BYTES = 16_384


async def serve(
    app: FastAPI,
    host: str,
    port: int,
    *,
    time_scale: float = 1.0,
    opened: Callable[[int], object] | None = None,
    outside: Outside = INSIDE,
    certificate: Certificate | None = None,
    data: Path | None = None,
) -> None:
    """Serve `app` until cancelled; then close everything within a second of real time.

    Args:
        app: The application.
        host: Address to bind.
        port: Port to bind; 0 for any free one.
        time_scale: Maximum speed of the loop's time against real time.
        opened: Called with the port as soon as it is open.
        outside: The proxies whose headers are believed, and which addresses may connect.
        certificate: For TLS; until it can be used, browsers are not let in.
        data: Folder of the socket for commands on this machine; None for none.

    Raises:
        OSError: the port is taken, with its holder and what to do.
    """
    listening = listen(host, port)
    admission = Admission(time_scale=time_scale)
    limited: Any = RequestLimits(app, admission, time_scale)  # uvicorn has types of its own for the same messages
    proxied = ProxyHeadersMiddleware(limited, [*outside.trusted])
    listeners = {listening: Listener(certificate, proxied.trusted_hosts.__contains__, outside.admits)}
    if data is not None:
        try:
            listeners[listen_locally(data)] = Listener()
        except OSError as error:
            logger.warning("commands on this machine do not reach the page: %s in %s: %s", SOCKET, data, error)
    http, websocket = _admitted(admission)
    config = uvicorn.Config(
        proxied,
        proxy_headers=False,  # its default trusts every program on this machine; only those that are named are trusted
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
    server = _Server(config, app, admission, time_scale, listeners)
    running = asyncio.ensure_future(server.serve(sockets=[*listeners]))
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
        app.state.failures.close()
        for each in listeners:
            each.close()
        if len(listeners) > 1 and data is not None:
            with contextlib.suppress(OSError):
                (data / SOCKET).unlink()


def listen(host: str, port: int, *, option: str = "--port") -> socket.socket:
    """Return a socket that listens at `port` of `host`. Raises OSError with the command's `option` when it is taken."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((host, port))
        listening.listen()  # a client that is given the address connects at once, and no other program can take it
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

    def __init__(
        self,
        config: uvicorn.Config,
        app: FastAPI,
        admission: Admission,
        time_scale: float,
        listeners: Mapping[socket.socket, Listener],
    ) -> None:
        super().__init__(config)
        self._listeners = listeners
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
            AcceptQueue(
                each,
                self._admission,
                self._known,
                functools.partial(self._enter, listener),
                listener=listener,
                time_scale=self._time_scale,
            )
            for each, listener in self._listeners.items()
        ]
        self.servers = queues  # type: ignore[assignment]  # it only closes them and waits for that
        self.started = True

    def _known(self, head: bytes, admitted: AdmittedConnection) -> bool:
        user = admitted.person or _caller(self._app, head)
        if user is not None:
            self._admission.identified(admitted, user.name, user.role)
        return user is not None

    def _enter(self, listener: Listener, connection: socket.socket, head: bytes, admitted: AdmittedConnection) -> None:
        """Give a connection that has sent the head of a request to HTTP, or begin TLS on it."""
        protocol = self.config.http_protocol_class(  # type: ignore[call-arg]
            config=self.config,
            server_state=self.server_state,
            app_state={**self.lifespan.state, CONNECTION: admitted},
            admitted=admitted,
            head=head,
        )
        loop = asyncio.get_running_loop()
        tls = None if listener.certificate is None else listener.certificate.context
        limit_s = None if tls is None else HANDSHAKE_S * self._time_scale
        entering = loop.connect_accepted_socket(lambda: protocol, connection, ssl=tls, ssl_handshake_timeout=limit_s)
        task = asyncio.ensure_future(entering)
        admitted.close = task.cancel
        self._entering.add(task)
        task.add_done_callback(lambda done: self._entered(done, connection, admitted))

    def _entered(self, task: asyncio.Task[object], connection: socket.socket, admitted: AdmittedConnection) -> None:
        self._entering.discard(task)
        if task.cancelled() or task.exception() is not None:  # the far end is gone already, or speaks no TLS
            self._admission.remove(admitted)
            connection.close()

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


def _admitted(admission: Admission) -> tuple[type[H11Protocol], type[WebSocketsSansIOProtocol]]:
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
            if self.head:
                self.data_received(self.head)
                self.head = b""

        def connection_lost(self, exc: Exception | None) -> None:
            admission.remove(self.admitted)
            super().connection_lost(exc)

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
