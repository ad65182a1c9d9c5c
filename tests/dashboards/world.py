"""What the API's tests stand on: the application over the small controller, people with roles, and a raw WebSocket."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, MutableMapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
from fastapi import FastAPI

from dashboards.app import create_app
from dashboards.auth import Auth, Role
from dashboards.sign_ins import KIND as FAILED
from tests.dashboards.fake_rig import BENCH, FakeController

BASE = "http://127.0.0.1:8080"
HOST = "127.0.0.1:8080"


class Speed:
    """A speed control whose loop stays at real time."""

    speed = 1.0

    def set_speed(self, speed: float) -> None:
        if speed > 600:
            raise ValueError("speed is out of range")
        self.speed = speed


class Mishaps:
    """A lab with one possible fault."""

    def __init__(self) -> None:
        self.made: list[tuple[str, str, float]] = []

    def kinds(self) -> list[dict[str, Any]]:
        return [{"kind": "unplug", "group": "link", "meaning": "Pulled.", "targets": ["sim:gas"], "momentary": False}]

    def lasting(self) -> list[dict[str, Any]]:
        return [
            {"number": n, "kind": kind, "target": target, "meaning": "Pulled.", "left_s": for_s or None}
            for n, (kind, target, for_s) in enumerate(self.made, start=1)
        ]

    def make(self, kind: str, target: str, for_s: float) -> None:
        if (kind, target) != ("unplug", "sim:gas"):
            raise ValueError(f"{kind} is not possible on “{target}”")
        self.made.append((kind, target, for_s))

    def end(self, number: int) -> str:
        if not 1 <= number <= len(self.made):
            raise KeyError(number)
        return " ".join(self.made.pop(number - 1)[:2])


@dataclass
class World:
    """An application and its controller."""

    app: FastAPI
    controller: FakeController
    auth: Auth
    tokens: dict[Role, str]

    def http(self, role: Role | None = None, **headers: str) -> httpx.AsyncClient:
        """A client with the token of `role`, or without a token."""
        if role is not None:
            headers["Authorization"] = f"Bearer {self.tokens[role]}"
        transport = httpx.ASGITransport(self.app, raise_app_exceptions=False)
        return httpx.AsyncClient(transport=transport, base_url=BASE, headers=headers)

    def socket(self, role: Role | None = None, form: str = "", **headers: str) -> Socket:
        """A WebSocket to the live feed, in a form of its messages."""
        if role is not None:
            headers["authorization"] = f"Bearer {self.tokens[role]}"
        return Socket(self.app, {"host": HOST} | headers, query=f"form={form}" if form else "")

    def changes(self) -> tuple[int, str | None, int, float]:
        """All that a request could have changed: journal (but for the count of failed sign-ins), emergency, runs, speed."""
        speed = self.app.state.speed
        rows = sum(row.kind != FAILED for row in self.controller.journal.rows)
        return rows, self.controller.gate.emergency, len(self.controller.runs.list()), speed.speed if speed else 0.0


@asynccontextmanager
async def world(
    folder: Path | None = None,
    *,
    demo: bool = False,
    simulated: bool = True,
    threaded: bool = False,
    rig: Path = BENCH,
    names: frozenset[str] = frozenset(),
) -> AsyncIterator[World]:
    """An application; with `folder` its credentials are kept there."""
    controller = FakeController(rig)
    auth = Auth(folder, demo=demo, utc=controller.clock.utc, threaded=threaded)
    tokens = {role: auth.issue(f"a {role.word}", role) for role in Role}
    mishaps = Mishaps() if simulated else None
    speed = Speed() if simulated else None
    app = create_app(controller.as_controller(), auth, speed=speed, mishaps=mishaps, names=names)
    try:
        yield World(app, controller, auth, tokens)
    finally:
        await controller.close()


class Socket:
    """The far end of a WebSocket, as ASGI messages. With `stuck` it takes nothing that is sent to it."""

    def __init__(self, app: FastAPI, headers: dict[str, str], path: str = "/ws", query: str = "") -> None:
        self._app = app
        self._scope = {
            "type": "websocket",
            "asgi": {"version": "3.0", "spec_version": "2.4"},
            "scheme": "ws",
            "path": path,
            "raw_path": path.encode(),
            "query_string": query.encode(),
            "root_path": "",
            "headers": [(name.lower().encode(), value.encode()) for name, value in headers.items()],
            "client": ("127.0.0.1", 50_000),
            "server": ("127.0.0.1", 8080),
            "subprotocols": [],
            "state": {},
        }
        self._incoming: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self.sent: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self.may_take = asyncio.Event()
        self.may_take.set()
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Socket:
        self._incoming.put_nowait({"type": "websocket.connect"})
        self._task = asyncio.create_task(self._app(self._scope, self._incoming.get, self._send))
        return self

    async def __aexit__(self, *_: object) -> None:
        self._incoming.put_nowait({"type": "websocket.disconnect", "code": 1001})
        self.may_take.set()
        assert self._task is not None
        await asyncio.wait_for(self._task, 10)

    async def _send(self, message: MutableMapping[str, Any]) -> None:
        await self.may_take.wait()
        self.sent.put_nowait(dict(message))

    def say(self, text: str) -> None:
        """Send something to the server."""
        self._incoming.put_nowait({"type": "websocket.receive", "text": text})

    async def next(self) -> dict[str, Any]:
        """The next ASGI message, but for the acceptance."""
        while True:
            message = await asyncio.wait_for(self.sent.get(), 60)
            if message["type"] != "websocket.accept":
                return message

    async def body(self) -> dict[str, Any]:
        """The next message's JSON."""
        found: dict[str, Any] = json.loads((await self.next())["text"])
        return found
