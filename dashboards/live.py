"""The live feed: one WebSocket a browser, a few messages a second of real time, nothing queued for a slow one.

Each message is the whole present state, so whoever misses one has lost nothing but a frame; a client that does not read
delays nobody, it simply is not sent to while its last message is under way.
"""

from __future__ import annotations

import asyncio
from typing import Any

from fastapi import APIRouter, WebSocket, WebSocketDisconnect

from controller.process import Controller
from dashboards.access import admit
from dashboards.views import alarm_view, ledger_view, run_view, state_view

PERIOD_S = 0.4
"""Real seconds from one message to the next."""
SLOW_EVERY = 5
"""Ledger, grade and score come with every so many."""

feed = APIRouter()


@feed.websocket("/ws")
async def live(socket: WebSocket) -> None:
    """The live feed of a known user."""
    if await admit(socket) is None:
        return
    listening = asyncio.create_task(_drain(socket))
    try:
        number = 0
        while not listening.done():
            await socket.send_json(message(socket.app.state, slow=number % SLOW_EVERY == 0))
            number += 1
            control = socket.app.state.speed
            await asyncio.sleep(PERIOD_S * (control.speed if control is not None else 1.0))
    except (WebSocketDisconnect, RuntimeError, OSError):
        pass  # it went away in the middle of a message
    finally:
        listening.cancel()
        await asyncio.gather(listening, return_exceptions=True)


async def _drain(socket: WebSocket) -> None:
    """The page says nothing; reading notices when it goes. Whatever is sent is dropped unread."""
    while True:
        event = await socket.receive()
        if event["type"] == "websocket.disconnect":
            return


def message(app: Any, *, slow: bool) -> dict[str, Any]:
    """The present state of everything the page shows."""
    rig: Controller = app.controller
    active = rig.runs.active
    runs = rig.runs.list()
    shown = active or (runs[-1] if runs else None)
    body: dict[str, Any] = {
        "state": state_view(rig.store.state),
        "emergency": rig.gate.emergency,
        "run": None if shown is None else run_view(shown, steps=40),
        "alarms": [alarm_view(alarm) for alarm in rig.alarms.active()],
        "speed": None if app.speed is None else app.speed.speed,
        "health": rig.health().ok,
        "spikes": rig.nerves.recent_spikes() if rig.nerves is not None else [],
        "nerves": None,
    }
    if rig.nerves_summary is not None:
        summary = rig.nerves_summary
        body["nerves"] = {
            "firing_rate_hz": summary.firing_rate_hz,
            "active_electrodes": summary.active_electrodes,
            "electrodes": summary.electrodes,
        }
    if slow:
        body |= {"ledger": ledger_view(rig), "grade": rig.last_grade(), "viability": rig.viability}
    return body
