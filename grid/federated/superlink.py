"""Flower's SuperLink at rank 0: `python -m federated.superlink SETTINGS.json PORT PARENT`.

Flower 1.42 serves its three interfaces on one port. Here the job's address has the one for nodes alone, and the others are on
loopback: the control interface with a password, the runtime interface with Flower's own secret. Both listeners speak TLS. No
app that is sent to it is run: `--isolation process` leaves this to the aggregator, which runs its own.
"""

from __future__ import annotations

import asyncio
import hmac
import sys
from collections.abc import Awaitable, Callable, MutableMapping
from pathlib import Path
from typing import Any

import uvicorn
from engines.settings import RankSettings, read_settings
from flwr.superlink.cli.flower_superlink import SuperLinkLifespan, _parse_superlink_lifespan_config
from flwr.superlink.main import create_app

from .files import end_with

FLEET_PORT = 29_400
FLEET, CONTROL = "/v1/fleet/", "/v1/control/"
PASSWORD_HEADER = b"x-choroid-password"
LOOPBACK = "127.0.0.1"
Scope = MutableMapping[str, Any]
App = Callable[[Scope, Any, Any], Awaitable[None]]


def only(app: App, allowed: Callable[[Scope], bool]) -> App:
    """Return an app that answers 404 to every request that is not allowed."""

    async def guarded(scope: Scope, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan" or (scope["type"] == "http" and allowed(scope)):
            await app(scope, receive, send)
        elif scope["type"] == "http":
            await send({"type": "http.response.start", "status": 404, "headers": []})
            await send({"type": "http.response.body", "body": b""})

    return guarded


def is_fleet(scope: Scope) -> bool:
    """Return whether a request is one of a node."""
    return str(scope["path"]).startswith(FLEET)


def knows(password: str) -> Callable[[Scope], bool]:
    """Return a check that lets requests to the control interface pass only with a password."""

    def allowed(scope: Scope) -> bool:
        said = dict(scope["headers"]).get(PASSWORD_HEADER, b"")
        return not str(scope["path"]).startswith(CONTROL) or hmac.compare_digest(said, password.encode())

    return allowed


def words(settings: RankSettings, port: int) -> list[str]:
    """Return the options of Flower's SuperLink."""
    keys = Path(settings.federated["keys"])
    certificate = str(keys / "tls.pem")
    return [
        *("--host", LOOPBACK, "--port", str(port), "--isolation", "process", "--enable-supernode-auth"),
        *("--ssl-certfile", certificate, "--ssl-keyfile", str(keys / "tls.key"), "--ssl-ca-certfile", certificate),
        *("--superexec-auth-secret-file", str(keys / "secret"), "--disable-runtime-dependency-installation"),
    ]


async def serve(settings: RankSettings, port: int) -> None:
    """Serve both listeners until one ends."""
    sys.argv[1:] = words(settings, port)
    config = _parse_superlink_lifespan_config()
    app: App = create_app(config, SuperLinkLifespan)
    keys = Path(settings.federated["keys"])
    more: dict[str, Any] = {
        "ssl_certfile": config.ssl_certfile,
        "ssl_keyfile": config.ssl_keyfile,
        "log_level": "warning",
        "timeout_graceful_shutdown": 2,
    }
    listeners = [
        uvicorn.Config(only(app, knows((keys / "password").read_text())), host=LOOPBACK, port=port, **more),
        uvicorn.Config(only(app, is_fleet), host=settings.addresses[0], port=FLEET_PORT, lifespan="off", **more),
    ]
    await asyncio.gather(*(uvicorn.Server(each).serve() for each in listeners))


if __name__ == "__main__":
    end_with(int(sys.argv[3]))
    asyncio.run(serve(read_settings(Path(sys.argv[1])), int(sys.argv[2])))
