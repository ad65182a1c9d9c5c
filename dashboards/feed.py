"""The live feed: what changed, four times a second of real time, to every browser that looks.

One producer makes each message once and encodes it once, however many listen. Each client has a short queue of its own:
one that does not keep up loses its own messages, is given the whole state when it has caught up, and delays no other.
Without clients nothing is made at all. The feed takes no orders.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from fastapi import APIRouter, WebSocket, WebSocketDisconnect

from controller.nerves.summary import NervesSource
from controller.process.controller import Controller
from dashboards.access import identify, unknown_caller
from dashboards.request_filter import turn_away
from dashboards.simulated import SpeedControl
from dashboards.views import alarm_view, ledger_view, nerves_view, run_view, state_view

logger = logging.getLogger(__name__)

PERIOD_S = 0.25
"""Real seconds from one message to the next."""
SLOW_EVERY = 8
"""Ledger, grade, score and health come with every so many messages."""
QUEUE_MESSAGES = 8
SEND_TIME_S = 20.0
"""Real seconds in which one message has to leave; a connection slower than that is dead."""
KNOWN_FOR_S = 3.0
"""Real seconds after which it is looked up again whether a listener's token or session still holds."""
MAX_RECEIVED = 32
"""A client has nothing to say; one that says more than this is shut out."""
SHOWN_STEPS = 60
MAX_CLIENTS = 64

_KEYED = ("readings", "actuators", "volumes", "links")
"""Parts of the state of which only the changed entries are sent."""

routes = APIRouter()


class FeedSubscriber:
    """One listener: its queue, and whether it is to be given the whole state next."""

    def __init__(self) -> None:
        self.queue: asyncio.Queue[str | None] = asyncio.Queue(QUEUE_MESSAGES)
        self.behind = True
        self.lost = 0

    def offer(self, change: str, whole: str) -> None:
        """Put the next message into the queue, or let the client fall behind."""
        text = whole if self.behind else change
        try:
            self.queue.put_nowait(text)
            self.behind = False
        except asyncio.QueueFull:
            self.behind = True
            self.lost += 1


class Feed:
    """The producer and its clients. `close` ends every connection."""

    def __init__(self, controller: Controller, speed: SpeedControl | None, nerves: NervesSource | None = None) -> None:
        self._controller = controller
        self._speed = speed
        self._nerves = nerves
        self._clients: set[FeedSubscriber] = set()
        self._producer: asyncio.Task[None] | None = None
        self._hurry = asyncio.Event()
        self._closed = False
        self._sent: dict[str, Any] = {}
        self._spikes_until_s = float("-inf")
        self._number = 0

    @property
    def pace(self) -> float:
        """Loop seconds in a real one."""
        return 1.0 if self._speed is None else self._speed.speed

    @property
    def clients(self) -> int:
        """How many listen."""
        return len(self._clients)

    def hurry(self) -> None:
        """The speed has changed: what waits on the loop's time now waits too long."""
        self._hurry.set()

    def close(self) -> None:
        """End every connection; the clients will try again."""
        self._closed = True
        for client in self._clients:
            while not client.queue.empty():
                client.queue.get_nowait()
            client.queue.put_nowait(None)

    @asynccontextmanager
    async def listening(self) -> AsyncIterator[FeedSubscriber]:
        """A client for as long as the block lasts; the first starts the producer, the last ends it."""
        client = FeedSubscriber()
        self._clients.add(client)
        if self._producer is None:
            self._producer = asyncio.create_task(self._produce(), name="live feed")
        self.hurry()
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
            try:
                async with asyncio.timeout(PERIOD_S * self.pace):
                    await self._hurry.wait()
            except TimeoutError:
                pass

    def _publish(self) -> None:
        if not self._controller.started:
            return
        now = self.message(slow=self._number % SLOW_EVERY == 0)
        self._number += 1
        change = changed(self._sent, now)
        change["spikes"] = [spike for spike in now["spikes"] if spike[0] > self._spikes_until_s]
        if now["spikes"]:
            self._spikes_until_s = now["spikes"][-1][0]
        self._sent = self._sent | now
        change_text = _encode(change)
        whole_text = ""
        for client in self._clients:
            if client.behind and not whole_text:
                whole_text = _encode({**self.message(slow=True), "whole": True})
            client.offer(change_text, whole_text)

    def message(self, *, slow: bool) -> dict[str, Any]:
        """Everything the page shows now; what changes slowly only now and then."""
        rig = self._controller
        shown = rig.runs.latest
        nerves = rig.nerves or self._nerves
        message: dict[str, Any] = {
            **state_view(rig.store.state),
            "emergency": rig.gate.emergency,
            "run": None if shown is None else run_view(shown, steps=SHOWN_STEPS),
            "alarms": [alarm_view(alarm) for alarm in rig.alarms.active()],
            "set_aside": [alarm_view(alarm) for alarm in rig.alarms.suppressed()],  # wording: former name
            "speed": None if self._speed is None else self._speed.speed,
            "nerves": nerves_view(rig.nerves_summary),
            "spikes": [] if nerves is None else [[round(at, 3), int(which)] for at, which in nerves.recent_spikes()],
        }
        if slow:
            health = rig.health()
            message |= {
                "health": {"ok": health.ok, "reasons": list(health.reasons)},
                "ledger": ledger_view(rig.ledger, rig.rig.organs.kidney.vessel),
                "grade": rig.last_grade(),
                "viability": rig.viability,
            }
        return message


def changed(before: Mapping[str, Any], now: Mapping[str, Any]) -> dict[str, Any]:
    """What of `now` differs from `before`: whole parts, but of keyed parts only the entries that changed.

    An entry that is gone is sent as null.
    """
    change: dict[str, Any] = {}
    for name, value in now.items():
        old = before.get(name)
        if name in _KEYED and isinstance(old, dict):
            if entries := _changed_entries(old, value):
                change[name] = entries
        elif old != value or name not in before:
            change[name] = value
    return change


def _changed_entries(before: Mapping[str, Any], now: Mapping[str, Any]) -> dict[str, Any]:
    """Return the entries of a part that changed; one that is gone is None."""
    entries = {key: entry for key, entry in now.items() if before.get(key) != entry}
    return entries | {key: None for key in before if key not in now}


def _encode(message: Mapping[str, Any]) -> str:
    return json.dumps(message, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


@routes.websocket("/ws")
async def live(socket: WebSocket) -> None:
    """The live feed of a known user. First the whole state, marked `whole`, then what changes.

    It ends with 4401 when the token or session it was opened with is revoked, signed out or has run out.
    """
    feed: Feed = socket.app.state.feed
    if identify(socket) is None:
        await turn_away(socket, unknown_caller())
        return
    await socket.accept()
    if feed.clients >= MAX_CLIENTS:
        await socket.close(code=1013, reason="too many pages are open; close some")
        return
    async with feed.listening() as client:
        sending = asyncio.create_task(_send(socket, client, feed), name="live feed to a page")
        receiving = asyncio.create_task(_receive(socket), name="live feed's far end")
        try:
            await asyncio.wait((sending, receiving), return_when=asyncio.FIRST_COMPLETED)
        finally:
            sending.cancel()
            receiving.cancel()
            await asyncio.gather(sending, receiving, return_exceptions=True)


async def _send(socket: WebSocket, client: FeedSubscriber, feed: Feed) -> None:
    """Pass on what is queued.

    Ends when the far end is gone or takes nothing, when its user is not known any more, or when the feed is closed.
    """
    loop = asyncio.get_running_loop()
    known_s = loop.time()
    try:
        while (text := await client.queue.get()) is not None:
            async with asyncio.timeout(SEND_TIME_S * feed.pace):
                if loop.time() - known_s >= KNOWN_FOR_S * feed.pace:
                    known_s = loop.time()
                    if identify(socket) is None:
                        await socket.close(code=4401, reason=unknown_caller().what)
                        return
                await socket.send_text(text)
        await socket.close(code=1012, reason="the controller is ending")
    except (WebSocketDisconnect, RuntimeError, OSError, TimeoutError):
        pass  # it went away in the middle of a message


async def _receive(socket: WebSocket) -> None:
    """Notice when the far end goes; drop what it says, and shut it out when it does not stop."""
    for _ in range(MAX_RECEIVED):
        event = await socket.receive()
        if event["type"] == "websocket.disconnect":
            return
    await socket.close(code=1008, reason="the feed takes no orders")
