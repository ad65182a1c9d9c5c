"""Send the changes of the state four times per second of real time to every open page.

One producer makes and encodes each message once for all clients of a form. Each client has a short queue: a slow client
loses only its own messages, receives the whole state when it has caught up, and delays no other. Without clients no message
is made. The feed accepts no commands.

A client that opens `/ws` receives changed parts, of readings, actuators, volumes and links the changed entries. With
`/ws?form=patch` it receives the changed members of every object, numbered, in a fifth of the bytes.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from fastapi import APIRouter, WebSocket, WebSocketDisconnect
from pydantic_core import to_json

from controller.process.controller import Controller
from dashboards.access import UNKNOWN, ApiProblem, identify, unknown_caller
from dashboards.feed_changes import changed, patch, without_report_times
from dashboards.models.nerves import FiringModel
from dashboards.models.rig import StateView
from dashboards.models.runs import RunModel
from dashboards.models.safety import AlarmsModel
from dashboards.request_filter import turn_away
from dashboards.simulated import SpeedControl
from dashboards.views import ledger_view, weighed_vessel
from nerves.summary import NervesSource

logger = logging.getLogger(__name__)

PERIOD_S = 0.25
"""Real seconds between two messages."""
SLOW_EVERY = 8
"""Number of messages between two with ledger, grade, score and health."""
QUEUE_MESSAGES = 8
SEND_TIME_S = 20.0
"""Maximum real seconds to send one message; a slower connection counts as lost."""
KNOWN_FOR_S = 3.0
"""Real seconds between two checks that a client's token or session is still valid."""
MAX_RECEIVED = 32
"""Maximum number of messages from a client, which has nothing to send; then it is disconnected."""
SHOWN_STEPS = 60
MAX_CLIENTS = 64

PATCH = "patch"
"""Form of the messages for a client that asks for it: what changed down to each number."""

routes = APIRouter()


class FeedSubscriber:
    """One client: the form of its messages, its queue, and whether it must receive the whole state next."""

    def __init__(self, form: str = "") -> None:
        self.form = form
        self.queue: asyncio.Queue[str | None] = asyncio.Queue(QUEUE_MESSAGES)
        self.behind = True
        self.lost = 0

    def offer(self, change: str, whole: str) -> None:
        """Put the next message into the queue; if it is full, mark the client as behind."""
        text = whole if self.behind else change
        try:
            self.queue.put_nowait(text)
            self.behind = False
        except asyncio.QueueFull:
            self.behind = True
            self.lost += 1


class Feed:
    """Produce messages for all clients. `close` ends every connection."""

    def __init__(self, controller: Controller, speed: SpeedControl | None, nerves: NervesSource | None = None) -> None:
        self._controller = controller
        self._speed = speed
        self._nerves = nerves
        self._clients: set[FeedSubscriber] = set()
        self._producer: asyncio.Task[None] | None = None
        self._hurry = asyncio.Event()
        self._closed = False
        self._sent: dict[str, Any] = {}
        self._patched: dict[str, Any] = {}
        """The state as the patches so far give it."""
        self._spikes_until_s = float("-inf")
        self._number = 0

    @property
    def pace(self) -> float:
        """Loop seconds per real second."""
        return 1.0 if self._speed is None else self._speed.speed

    @property
    def clients(self) -> int:
        """Return the number of clients."""
        return len(self._clients)

    def send_soon(self) -> None:
        """Restart the waits after a change of the speed: they were computed for the former speed."""
        self._hurry.set()

    def close(self) -> None:
        """End every connection; the clients reconnect."""
        self._closed = True
        for client in self._clients:
            while not client.queue.empty():
                client.queue.get_nowait()
            client.queue.put_nowait(None)

    @asynccontextmanager
    async def listening(self, form: str = "") -> AsyncIterator[FeedSubscriber]:
        """Register a client for the duration of the block; the first one starts the producer, the last one ends it."""
        client = FeedSubscriber(form)
        self._clients.add(client)
        if self._producer is None:
            self._producer = asyncio.create_task(self._produce(), name="live feed")
        self.send_soon()
        try:
            yield client
        finally:
            self._clients.discard(client)
            if not self._clients and self._producer is not None:
                producer, self._producer = self._producer, None
                producer.cancel()
                await asyncio.gather(producer, return_exceptions=True)

    async def _produce(self) -> None:
        while not self._closed:
            self._hurry.clear()
            try:
                self._publish()
            except Exception:
                logger.exception("the live feed could not show the state; it will try again")
                for client in self._clients:
                    client.behind = True
            try:
                async with asyncio.timeout(PERIOD_S * self.pace):
                    await self._hurry.wait()
            except TimeoutError:
                pass

    def _publish(self) -> None:
        if not self._controller.started:
            return
        behind = {client.form for client in self._clients if client.behind}
        slow = bool(behind) or self._number % SLOW_EVERY == 0
        now = self.message(slow=slow)
        self._number += 1
        spikes = [spike for spike in now["spikes"] if spike[0] > self._spikes_until_s]
        if now["spikes"]:
            self._spikes_until_s = now["spikes"][-1][0]
        forms = {client.form for client in self._clients}
        texts = {form: self._change(form, now, spikes, slow=slow) for form in forms}
        wholes = {form: self._whole(form, now) for form in behind}
        self._sent |= now
        for client in self._clients:
            client.offer(texts[client.form], wholes.get(client.form, ""))

    def _change(self, form: str, now: Mapping[str, Any], spikes: list[list[float]], *, slow: bool) -> str:
        """Return the message with what changed, in a form."""
        if form != PATCH:
            return _encode({**changed(self._sent, now), "spikes": spikes})
        known = now if slow else without_report_times(now, self._patched)
        change = patch(self._patched, {name: value for name, value in known.items() if name != "spikes"})
        self._patched |= known
        return _encode({"n": self._number, **change, **({"spikes": spikes} if spikes else {})})

    def _whole(self, form: str, now: Mapping[str, Any]) -> str:
        """Return the message with the whole state, in a form."""
        return _encode({**({"n": self._number} if form == PATCH else {}), **now, "whole": True})

    def message(self, *, slow: bool) -> dict[str, Any]:
        """Return the state that the page shows; the slow parts only in some messages."""
        rig = self._controller
        shown = rig.runs.latest
        nerves, summary = rig.nerves or self._nerves, rig.nerves_summary
        message: dict[str, Any] = {
            **StateView.plain(rig.store.state),
            "emergency": rig.gate.emergency,
            "run": None if shown is None else RunModel.plain(shown.shortened(SHOWN_STEPS)),
            **AlarmsModel.plain({"alarms": rig.alarms.active(), "suppressed": rig.alarms.suppressed()}),
            "speed": None if self._speed is None else self._speed.speed,
            "nerves": None if summary is None else FiringModel.plain(summary),
            "spikes": [] if nerves is None else [[round(at, 3), int(which)] for at, which in nerves.recent_spikes()],
        }
        if slow:
            health = rig.health()
            message |= {
                "health": {"ok": health.ok, "reasons": list(health.reasons)},
                "ledger": ledger_view(
                    rig.rig, rig.ledger, weighed_vessel(rig.rig), rig.clock.utc(), rig.fresh_bound.ul()
                ).model_dump(),
                "grade": rig.last_grade(),
                "scores": rig.scores,
            }
        return message


def _encode(message: Mapping[str, Any]) -> str:
    return to_json(message, inf_nan_mode="null").decode()


@routes.websocket("/ws")
async def live(socket: WebSocket) -> None:
    """Serve the live feed to a known user: first the whole state, marked `whole`, then the changes.

    It ends with 4401 when its token or session is revoked, signed out or expired.
    """
    feed: Feed = socket.app.state.feed
    if identify(socket) is None:
        await turn_away(socket, unknown_caller(socket))
        return
    form = socket.query_params.get("form", "")
    if form not in ("", PATCH):
        await turn_away(socket, _unknown_form(form))
        return
    await socket.accept()
    if feed.clients >= MAX_CLIENTS:
        await socket.close(code=1013, reason="too many pages are open; close some")
        return
    async with feed.listening(form) as client:
        sending = asyncio.create_task(_send(socket, client, feed), name="live feed to a page")
        receiving = asyncio.create_task(_receive(socket), name="live feed's far end")
        try:
            await asyncio.wait((sending, receiving), return_when=asyncio.FIRST_COMPLETED)
        finally:
            sending.cancel()
            receiving.cancel()
            await asyncio.gather(sending, receiving, return_exceptions=True)


def _unknown_form(form: str) -> ApiProblem:
    return ApiProblem(
        422,
        f"the live feed has no form “{form[:40]}”",
        where="/ws?form=",
        cause="a slip in the address, or a client of another release",
        action=f"leave it out, or write form={PATCH}",
    )


async def _send(socket: WebSocket, client: FeedSubscriber, feed: Feed) -> None:
    """Send the queued messages.

    Ends when the client has gone or takes nothing, when its user is no longer valid, or when the feed is closed.
    """
    loop = asyncio.get_running_loop()
    known_s = loop.time()
    try:
        while (text := await client.queue.get()) is not None:
            async with asyncio.timeout(SEND_TIME_S * feed.pace):
                if loop.time() - known_s >= KNOWN_FOR_S * feed.pace:
                    known_s = loop.time()
                    if identify(socket) is None:
                        await socket.close(code=4401, reason=UNKNOWN)
                        return
                await socket.send_text(text)
        await socket.close(code=1012, reason="the controller is ending")
    except (WebSocketDisconnect, RuntimeError, OSError, TimeoutError):
        pass  # it went away in the middle of a message


async def _receive(socket: WebSocket) -> None:
    """Detect that the client has gone; ignore its messages, and disconnect it above the maximum number."""
    for _ in range(MAX_RECEIVED):
        event = await socket.receive()
        if event["type"] == "websocket.disconnect":
            return
    await socket.close(code=1008, reason="the feed takes no orders")
