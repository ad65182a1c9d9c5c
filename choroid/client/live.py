"""The live feed of a controller: messages over a WebSocket, each merged into the whole state.

The controller sends everything first (`whole`), then what changed, about four times a second. A reader that is too slow
loses messages and is given everything again.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Generator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from choroid.client.answers import AlarmInfo, HealthInfo, LedgerInfo, RunInfo, StateInfo
from choroid.client.calls import parsed
from choroid.client.errors import ConnectionFailed, optional
from choroid.client.methods import ClientRequest
from choroid.client.transport import Transport, connect_locally, refusal

KEYED = ("readings", "actuators", "volumes", "links")
"""Parts of the state of which the controller sends only the entries that changed."""
MAX_MESSAGE_BYTES = 16_000_000
REFUSED = 4000
"""A connection that is refused is closed with this code and the HTTP status added to it."""


@dataclass(frozen=True, slots=True)
class LiveUpdate:
    """Holds everything that the live feed reports, as of one message.

    Attributes:
        state: The snapshot, as :meth:`ControllerClient.state` returns it.
        run: The latest run, or None.
        alarms: Alarms that are announced, the most urgent first.
        suppressed: Alarms that are shelved, suppressed or out of service.
        emergency: Who stopped everything and why, or None.
        spikes: Spikes since the message before: (seconds of the array's clock, electrode).
        nerves: Firing of the array (`firing_rate_hz`, `active_electrodes`, `rates_hz`), or None.
        health: Whether the control loop runs.
        ledger: Where the medium went.
        grade: The latest grade, or None.
        viability: The latest estimate of viability (`value`, `low`, `high`, `sentences`), or None.
        scores: The estimate with care rating, welfare and others, or None.
        speed: Speed of a simulated rig (times real time), None for a real one.
    """

    state: StateInfo
    run: RunInfo | None
    alarms: list[AlarmInfo]
    suppressed: list[AlarmInfo]
    emergency: str | None
    spikes: list[tuple[float, int]]
    nerves: dict[str, Any] | None
    health: HealthInfo
    ledger: LedgerInfo
    grade: dict[str, Any] | None
    viability: dict[str, Any] | None
    scores: dict[str, Any] | None
    speed: float | None


class Merger:
    """Merges the messages of one connection into whole updates."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._whole: dict[str, Any] = {}
        self.refusal: Mapping[str, Any] | None = None
        """Why the controller is about to close the connection."""

    def merge(self, message: Mapping[str, Any]) -> LiveUpdate | None:
        """Take in one message of the feed.

        Args:
            message: The decoded JSON object.

        Returns:
            Everything as it is now; None for a message that says why the connection is refused.

        Raises:
            ConnectionFailed: The message has another form than expected.
        """
        if "error" in message:
            self.refusal = message
            return None
        self._take(message)
        now = self._whole
        try:
            some: dict[str, Any] = {name: now[name] for name in ("emergency", "nerves", "grade", "scores", "speed")}
            alarms, suppressed, run = now["alarms"], now["suppressed"], now["run"]
            ledger, health = now["ledger"], now["health"]
            spikes = [(float(at), int(electrode)) for at, electrode in message.get("spikes", ())]
        except (KeyError, TypeError, ValueError) as error:
            raise ConnectionFailed(
                f"a message of {self._url} has another form than expected ({type(error).__name__}: {error}). Likely cause:"
                " the controller is of another release. Next: install the same release on both sides"
            ) from None
        return LiveUpdate(
            state=parsed(StateInfo, now, self._url),
            run=None if run is None else parsed(RunInfo, run, self._url),
            alarms=[parsed(AlarmInfo, each, self._url) for each in alarms],
            suppressed=[parsed(AlarmInfo, each, self._url) for each in suppressed],
            spikes=spikes,
            health=parsed(HealthInfo, {"tick_age_s": None, **health}, self._url),
            ledger=parsed(LedgerInfo, ledger, self._url),
            viability=(some["scores"] or {}).get("viability"),
            **some,
        )

    def _take(self, message: Mapping[str, Any]) -> None:
        """Replace the state by a whole message, or merge the changes of another one into it."""
        if message.get("whole"):
            self._whole = dict(message)
            return
        for name, value in message.items():
            self._whole[name] = self._merged(name, value) if name in KEYED else value

    def _merged(self, name: str, changes: Mapping[str, Any]) -> dict[str, Any]:
        """Return a part of the state with its changes; an entry that is gone comes as null."""
        entries = {**self._whole.get(name, {}), **changes}
        return {key: value for key, value in entries.items() if value is not None}


@dataclass(frozen=True, slots=True)
class LiveFeed(ClientRequest[LiveUpdate]):
    """Receives the updates of one connection, which ends after a silence of `timeout_s`."""

    transport: Transport
    timeout_s: float

    def updates(self) -> Generator[LiveUpdate]:
        """Yield updates until the connection ends.

        Raises:
            ConnectionFailed: The connection ended, or nothing came for `timeout_s`.
            RequestRefused: The token is not valid, or no longer.
            MissingPackage: The package websockets is not installed.
        """
        client: Any = optional("websockets.sync.client", "live", "the live feed")
        transport, merger = self.transport, Merger(self.transport.address.url)
        options = _options(transport, self.timeout_s)
        with _explained(transport, merger), client.connect(_address(transport), **options) as socket:
            while True:
                if (update := merger.merge(json.loads(socket.recv(self.timeout_s)))) is not None:
                    yield update

    async def updates_async(self) -> AsyncGenerator[LiveUpdate]:
        """Yield updates as :meth:`updates` does, on the running event loop."""
        client: Any = optional("websockets.asyncio.client", "live", "the live feed")
        transport, merger = self.transport, Merger(self.transport.address.url)
        with _explained(transport, merger):
            async with client.connect(_address(transport), **_options(transport, self.timeout_s)) as socket:
                while True:
                    async with asyncio.timeout(self.timeout_s):
                        text = await socket.recv()
                    if (update := merger.merge(json.loads(text))) is not None:
                        yield update


def _address(transport: Transport) -> str:
    if transport.address.scheme == "unix":
        return "ws://localhost/ws"
    return "ws" + transport.address.url.removeprefix("http") + "/ws"


def _options(transport: Transport, timeout_s: float) -> dict[str, Any]:
    # No proxy of the environment, as for every other request. The feed is its own heartbeat; the server sends no pings.
    local: dict[str, Any] = {}
    if transport.address.scheme == "unix":
        local["sock"] = connect_locally(transport.address.host, timeout_s)
    return local | {
        "additional_headers": transport.headers,
        "open_timeout": timeout_s,
        "close_timeout": 1.0,
        "ping_interval": None,
        "max_size": MAX_MESSAGE_BYTES,
        "proxy": None,
        **({"ssl": transport.context} if transport.context is not None else {}),
    }


@contextmanager
def _explained(transport: Transport, merger: Merger) -> Iterator[None]:
    """Turn the errors of the WebSocket's package into errors of this client."""
    exceptions: Any = optional("websockets.exceptions", "live", "the live feed")
    try:
        yield
    except exceptions.ConnectionClosed as error:
        status = 0 if error.rcvd is None else error.rcvd.code - REFUSED
        if status in (401, 403):
            raise refusal(status, merger.refusal or {"error": str(error.rcvd.reason)}) from None
        raise _ended(transport, error) from None
    except (exceptions.WebSocketException, OSError, ValueError) as error:
        raise _ended(transport, error) from None


def _ended(transport: Transport, error: Exception) -> ConnectionFailed:
    return ConnectionFailed(
        f"the live feed of {transport.address.url} ended ({error or type(error).__name__}). Likely cause: the controller has"
        " ended or the network is interrupted. Next: connect again; the first message tells everything"
    )
